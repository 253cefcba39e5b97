// Training on rollouts: exact beginnings, equal models under every layout, numbers of a file, and learning.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/harness/preference_training.h"
#include "trireme/data/loaders/tokens/preference_source.h"

namespace trireme::train::policy_test {
namespace {

using harness::kEveryLayout;
using harness::Sets;
using harness::operator+;
using testing::Each;

enum Metric : std::uint8_t { kReward, kRatio, kClipped, kOld, kNll, kKl };

constexpr const char* kLosses[] = {"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "gspo"};

class PolicyTraining : public harness::PreferenceTraining {
 protected:
  Sets with(const char* loss, std::int64_t seq_len = 256, const std::string& name = "set") const {
    return on(name, seq_len) + Sets{std::string("preference.loss=") + loss};
  }
  // What the rows of the first step say: the advantage of each answer.
  static std::vector<double> first_advantages(const config::Job& job) {
    const loaders::Sources sources =
        loaders::open_preferences(job, job.data.path, loaders::Evaluated::kHeldOut);
    std::vector<double> all;
    for (std::int64_t row = 0; row < job.run.global_batch; ++row) {
      const std::vector<at::Tensor> batch = sources.train->batch(row, 1);
      std::int64_t last = 0;
      for (std::int64_t i = 0; i < job.model.seq_len; ++i) {
        const std::int64_t code = batch[3].data_ptr<std::int64_t>()[i];
        if (code != 0 && code != last) all.push_back(batch[6].data_ptr<double>()[i]);
        last = code == 0 ? last : code;
      }
    }
    return all;
  }
};

// Every ratio of the first step is exactly 1, whatever computes it, and the loss is minus the mean advantage.
TEST_F(PolicyTraining, BeginsOnPolicyUnderEveryLayout) {
  harness::prepared_preferences(directory_, "set", harness::rollouts(40));
  for (const char* compute : {"fp32", "bf16", "fp64"})
    for (const Sets& layout : kEveryLayout) {
      SCOPED_TRACE(compute + std::string(" ") + harness::print(layout));
      const Sets sets = with("grpo") + layout +
                        Sets{std::string("precision.compute=") + compute, "preference.kl=0.04"};
      const config::Job job = with_reference(harness::small_llama(DType::kF32, sets));
      const harness::JobTrace trace = harness::run_job(job, 1);
      const auto& counts = trace.counts[0];
      EXPECT_GT(counts[kRatio].of, 20);
      EXPECT_EQ(counts[kRatio].sum, counts[kRatio].of);
      for (const Metric none : {kClipped, kOld, kKl}) EXPECT_EQ(counts[none].sum, 0);
      const std::vector<double> advantages = first_advantages(job);
      EXPECT_EQ(counts[kReward].of, static_cast<double>(advantages.size()));
      double sum = 0;
      for (const double one : advantages) sum += one;
      EXPECT_NEAR(trace.losses[0], -sum / static_cast<double>(advantages.size()), 1e-15);
      EXPECT_GT(trace.grad_norms[0], 0);
    }
}

// A step over whole groups whose advantages cancel exactly.
TEST_F(PolicyTraining, BeginsWithZeroToTheLastBit) {
  std::vector<Json> lines;
  for (int i = 0; i < 12; ++i)
    lines.push_back({{"prompt", "q" + std::to_string(i)},
                     {"completions", {"aa", "b", "ccc", "d"}},
                     {"rewards", {1, 0, 0, 1}}});
  harness::prepared_preferences(directory_, "set", lines);
  for (const char* loss : {"grpo", "gspo"})
    for (const Sets& layout : kEveryLayout) {
      SCOPED_TRACE(loss + std::string(" ") + harness::print(layout));
      const Sets whole = {"preference.scale=none", "run.global_batch=16"};
      const config::Job job =
          with_reference(harness::small_llama(DType::kF32, with(loss, 192) + whole + layout));
      ASSERT_EQ(first_advantages(job).size(), 48u);
      EXPECT_THAT(first_advantages(job), Each(testing::AnyOf(0.5, -0.5)));
      const harness::JobTrace trace = harness::run_job(job, 1);
      EXPECT_EQ(trace.losses[0], 0);
      EXPECT_GT(trace.grad_norms[0], 0);
    }
}

TEST_F(PolicyTraining, EveryLayoutTrainsTheSameModel) {
  harness::prepared_preferences(directory_, "set", harness::rollouts(30));
  for (const char* loss : kLosses) {
    SCOPED_TRACE(loss);
    config::Job reference;
    harness::expect_parity(
        [&](const Sets& layout) {
          config::Job job = harness::small_llama(
              DType::kF64, with(loss) + Sets{"preference.kl=0.1", "optim.lr=1e-2"} + layout);
          if (layout.empty()) {  // of other weights, so that no ratio is 1
            config::Job other = job;
            other.run.seed = 9;
            reference = with_reference(other);
          }
          job.preference.reference = reference.preference.reference;
          return job;
        },
        {{"dp 4", {"parallel.dp_shard=4"}},
         {"ZeRO-3", {"parallel.dp_shard=4", "parallel.zero=3"}},
         {"ZeRO-3, pp 2", {"parallel.dp_shard=2", "parallel.pp=2", "parallel.zero=3"}},
         {"tp 2, cp 2", {"parallel.tp=2", "parallel.cp=2"}},
         {"cp 2 by heads", {"parallel.cp=2", "parallel.context=ulysses"}}});
  }
}

// Of data parallelism to the last bit.
TEST_F(PolicyTraining, ShardsHaveTheSameBits) {
  harness::prepared_preferences(directory_, "set", harness::rollouts(30));
  for (const char* loss : kLosses) {
    SCOPED_TRACE(loss);
    const config::Job one =
        with_reference(harness::small_llama(DType::kF32, with(loss) + Sets{"optim.lr=1e-2"}));
    config::Job four = one;
    four.parallel.dp_shard = 4;
    four.parallel.zero = 3;
    harness::expect_same(harness::run_job(one, 3), harness::run_job(four, 3));
  }
}

// Log-probabilities of a file are read as those of the directory.
TEST_F(PolicyTraining, TheFileMayHaveTheNumbers) {
  std::vector<Json> lines;
  for (int i = 0; i < 10; ++i)
    lines.push_back({{"prompt_ids", {65 + i, 66}},
                     {"completion_ids", {{70 + i, 71, 72}, {80, 81 + i}, {90}}},
                     {"rewards", {1, 0, 0.5}}});
  const text::Dataset bare = harness::prepared_preferences(directory_, "set", lines);
  const Sets sets = with("dapo", 16) + Sets{"preference.kl=0.1", "optim.lr=1e-2"};
  const config::Job job = with_reference(harness::small_llama(DType::kF32, sets));
  const loaders::Reference reference(job.preference.reference);
  std::int64_t document = 0;
  for (Json& line : lines)
    for (const Json& ids : line["completion_ids"]) {
      Json numbers = Json::array();
      const text::TokenRange range = bare.train.document(document++);
      for (std::size_t i = 0; i < ids.size(); ++i)
        numbers.push_back(reference.train()[range.first + 2 + i]);
      line["logprobs"].push_back(numbers);
      line["ref_logprobs"].push_back(numbers);
    }
  harness::prepared_preferences(directory_, "full", lines);
  const config::Job full = harness::small_llama(
      DType::kF32, with("dapo", 16, "full") + Sets{"preference.kl=0.1", "optim.lr=1e-2"});
  const harness::JobTrace one = harness::run_job(job, 3), other = harness::run_job(full, 3);
  EXPECT_EQ(one.counts[0][kRatio].sum, one.counts[0][kRatio].of);
  EXPECT_NE(one.counts[2][kRatio].sum, one.counts[2][kRatio].of);
  harness::expect_same(one, other);
  // Nothing is left to compute.
  config::Job given = full;
  given.preference.reference = (directory_ / "unused").string();
  prepare(given, 1);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "unused"));
}

// Rewarded answers become likelier than the others.
TEST_F(PolicyTraining, LearnsWhatIsRewarded) {
  harness::prepared_preferences(directory_, "set", harness::rollouts(24));
  for (const char* loss : kLosses) {
    SCOPED_TRACE(loss);
    const config::Job job = with_reference(harness::small_llama(
        DType::kF32, with(loss) + Sets{"optim.lr=3e-3", "run.steps=30", "optim.weight_decay=0",
                                       "run.global_batch=8", "preference.clip=[0.5, 8]"}));
    const harness::JobTrace trace = harness::run_job(job, 30);
    EXPECT_LT(trace.losses.back(), trace.losses.front() - 0.02);
  }
}

}  // namespace
}  // namespace trireme::train::policy_test
