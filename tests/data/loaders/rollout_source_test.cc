// Rollouts as rows: what each token says of its answer, and the weights of each loss.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/harness/preferences.h"
#include "trireme/base/error.h"
#include "trireme/data/chat/rollouts.h"
#include "trireme/data/loaders/tokens/preference_source.h"
#include "trireme/data/loaders/tokens/token_loader.h"

namespace trireme::loaders::rollout_source_test {
namespace {

using config::PreferenceLoss;
using testing::HasSubstr;

class RolloutSource : public testing::Test {
 protected:
  static config::Job job(PreferenceLoss loss, std::int64_t seq_len = 128) {
    config::Job job;
    job.model.vocab = 256;
    job.model.seq_len = seq_len;
    job.data.source = config::DataSource::kPreferences;
    job.data.chat = "phi4_mini";
    job.preference.loss = loss;
    job.preference.answer_tokens = 50;
    return job;
  }
  Sources open(const config::Job& job, const std::string& set) const {
    return open_preferences(job, directory_ / set, Evaluated::kHeldOut);
  }
  // Prompts and answers as tokens, with log-probabilities of the sampler.
  text::Dataset with_log_probs(const std::string& name, bool reference) {
    std::vector<Json> lines;
    for (int i = 0; i < 6; ++i) {
      Json line = {{"prompt_ids", {65 + i, 66}},
                   {"completion_ids", {{70, 71, 72}, {80, 81}}},
                   {"rewards", {1, 0}},
                   {"logprobs", {{-1.5, -2 - i, -3}, {-4, -5}}}};
      if (reference) line["ref_logprobs"] = {{-6, -7, -8}, {-9, -10 - i}};
      lines.push_back(line);
    }
    return harness::prepared_preferences(directory_, name, lines);
  }
  harness::ScratchDirectory directory_;
};

// Every answer has its own number within its row; every token has its advantage and reward.
TEST_F(RolloutSource, TokensHaveTheirAnswersNumbers) {
  const text::Dataset made =
      harness::prepared_preferences(directory_, "set", harness::rollouts(10), 2);
  const Sources sources = open(job(PreferenceLoss::kDrGrpo), "set");  // advantages r - mean
  const chat::RolloutFile file(made.directory, "train", made.train);
  std::map<double, std::vector<double>> groups;
  for (std::size_t i = 0; i < file.rewards().size(); ++i)
    groups[file.groups()[i]].push_back(file.rewards()[i]);
  std::multiset<std::pair<double, double>> expected, found;
  for (std::size_t i = 0; i < file.rewards().size(); ++i) {
    const std::vector<double>& own = groups[file.groups()[i]];
    const double mean =
        std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
    expected.emplace(file.rewards()[i], std::round(1e9 * (file.rewards()[i] - mean)));
  }
  const std::int64_t rows = sources.train->samples();
  EXPECT_LT(rows, made.train.documents());  // several answers a row
  const std::vector<at::Tensor> batch = sources.train->batch(0, rows);
  ASSERT_EQ(batch.size(), 8u);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < rows * 128; ++i) {
    const std::int64_t code = batch[3].data_ptr<std::int64_t>()[i];
    EXPECT_EQ(code != 0, batch[1].data_ptr<std::int64_t>()[i] != kIgnoredTarget);
    const double advantage = batch[6].data_ptr<double>()[i],
                 reward = batch[7].data_ptr<double>()[i];
    if (i % 128 == 0) last = 0;
    if (code == 0) {
      EXPECT_EQ(advantage, 0);
      EXPECT_EQ(reward, 0);
      continue;
    }
    EXPECT_EQ(static_cast<config::Answer>(code % config::kAnswers), config::Answer::kSampled);
    if (code != last) found.emplace(reward, std::round(1e9 * advantage));
    last = code;
  }
  EXPECT_EQ(found, expected);
}

TEST_F(RolloutSource, WeightsFollowTheLoss) {
  const text::Dataset made =
      harness::prepared_preferences(directory_, "set", harness::rollouts(10));
  std::vector<std::int32_t> marks(static_cast<std::size_t>(made.train_loss->tokens()));
  made.train_loss->read(0, std::span<std::int32_t>(marks));
  const auto tokens = static_cast<double>(std::ssize(marks) - std::ranges::count(marks, 0));
  const double answers = static_cast<double>(made.train.documents());
  const auto weight = [&](PreferenceLoss loss, std::int64_t micro_batch = 2) {
    config::Job one = job(loss);
    one.run.micro_batch = micro_batch;
    const Sources sources = open(one, "set");
    return sources.train->weight(0, sources.train->samples());
  };
  EXPECT_EQ(weight(PreferenceLoss::kGrpo), answers);
  EXPECT_EQ(weight(PreferenceLoss::kGspo), answers);
  EXPECT_EQ(weight(PreferenceLoss::kDrGrpo), 50 * answers);
  EXPECT_EQ(weight(PreferenceLoss::kDapo), tokens);
  EXPECT_EQ(weight(PreferenceLoss::kCispo), tokens);
  const auto rows = static_cast<double>(open(job(PreferenceLoss::kGrpo), "set").train->samples());
  EXPECT_EQ(weight(PreferenceLoss::kBnpo, 1), rows);
  EXPECT_EQ(weight(PreferenceLoss::kBnpo, 2), std::ceil(rows / 2));
}

// The file's numbers where it has them, those of the reference directory elsewhere.
TEST_F(RolloutSource, LogProbabilitiesComeFromTheFileOrTheReference) {
  const text::Dataset with = with_log_probs("with", false), both = with_log_probs("both", true),
                      without =
                          harness::prepared_preferences(directory_, "no", harness::rollouts(4));
  config::Job grpo = job(PreferenceLoss::kGrpo), near = grpo;
  near.preference.kl = 0.1;
  EXPECT_FALSE(needs_reference(grpo, with.directory));
  EXPECT_TRUE(needs_reference(near, with.directory));
  EXPECT_FALSE(needs_reference(near, both.directory));
  EXPECT_TRUE(needs_reference(grpo, without.directory));
  // Sums over all tokens of all answers.
  const auto sums = [&](const config::Job& job, const text::Dataset& set) {
    const Sources sources = open(job, set.directory.filename());
    const std::vector<at::Tensor> batch = sources.train->batch(0, sources.train->samples());
    return std::pair(batch[4].sum().item<double>(), batch[5].sum().item<double>());
  };
  const double old = -6 * 15.5 - 15, reference = -6 * 40 - 15;
  EXPECT_EQ(sums(grpo, with), std::pair(0.0, old));
  EXPECT_EQ(sums(near, both), std::pair(reference, old));
  near.preference.reference = (directory_ / "reference").string();
  const std::vector<double> numbers(static_cast<std::size_t>(with.train.tokens()), -0.5);
  write_reference(near.preference.reference, {.data = with.digest}, numbers, {});
  EXPECT_EQ(sums(near, with), std::pair(-0.5 * 6 * 5, old));
  const std::vector<double> others(static_cast<std::size_t>(without.train.tokens()), -0.25);
  write_reference(directory_ / "other", {.data = without.digest}, others, {});
  near.preference.reference = (directory_ / "other").string();
  const auto [first, second] = sums(near, without);
  EXPECT_LT(first, 0);
  EXPECT_EQ(first, second);
}

TEST_F(RolloutSource, RefusesWhatItCannotRead) {
  harness::prepared_preferences(directory_, "set", harness::rollouts(2));
  const auto refusal = [&](const config::Job& job) -> std::string {
    try {
      open(job, "set");
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal(job(PreferenceLoss::kDpo)),
              HasSubstr("compares pairs of answers, and the data have answers with rewards; set "
                        "preference.loss=grpo"));
  const std::string longer = refusal(job(PreferenceLoss::kGrpo, 16));
  EXPECT_THAT(longer, HasSubstr("add long=cut to data.chat"));
  EXPECT_EQ(longer.find("long=split"), longer.npos);
}

}  // namespace
}  // namespace trireme::loaders::rollout_source_test
