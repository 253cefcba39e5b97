// Training on compared answers: exact beginnings, equal models under every layout, and learning.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/harness/preference_training.h"
#include "trireme/base/error.h"

namespace trireme::train::preference_test {
namespace {

using harness::Sets;
using harness::operator+;

using harness::kEveryLayout;
using harness::PreferenceTraining;

// The policy is its reference in the first step: every ratio is exactly 0, whatever computes it.
TEST_F(PreferenceTraining, BeginsWithLn2UnderEveryLayout) {
  harness::prepared_preferences(directory_, "set", harness::pairs(64));
  for (const char* compute : {"fp32", "bf16", "fp64"})
    for (const Sets& layout : kEveryLayout) {
      SCOPED_TRACE(compute + std::string(" ") + harness::print(layout));
      const Sets sets = on("set", 352) + layout + Sets{std::string("precision.compute=") + compute};
      const harness::JobTrace trace =
          harness::run_job(with_reference(harness::small_llama(DType::kF32, sets)), 1);
      const auto& counts = trace.counts[0];
      for (const std::size_t reward : {0, 1, 4}) EXPECT_EQ(counts[reward].sum, 0);
      const double pairs = counts[4].of;
      EXPECT_GT(pairs, 4);
      // The mean of equal numbers has the rounding of its quotient alone.
      const double ulps = std::has_single_bit(static_cast<std::uint64_t>(pairs)) ? 0 : 2;
      EXPECT_LE(std::abs(trace.losses[0] - M_LN2), ulps * 0x1p-53) << pairs << " pairs";
      EXPECT_GT(trace.grad_norms[0], 0);
    }
}

// Each row one pair, so that a step has a power of two of them.
TEST_F(PreferenceTraining, IsLn2ToTheLastBit) {
  harness::prepared_preferences(directory_, "set", harness::pairs(16));
  for (const Sets& layout : kEveryLayout) {
    SCOPED_TRACE(harness::print(layout));
    const config::Job job =
        with_reference(harness::small_llama(DType::kF32, on("set", 128) + layout));
    EXPECT_EQ(harness::run_job(job, 1).losses[0], M_LN2);
  }
}

TEST_F(PreferenceTraining, EveryLayoutTrainsTheSameModel) {
  harness::prepared_preferences(directory_, "pairs", harness::pairs(40));
  harness::prepared_preferences(directory_, "labels", harness::labels(40));
  for (const char* loss : {"dpo", "ipo", "simpo", "orpo", "kto"}) {
    SCOPED_TRACE(loss);
    const bool labels = std::string(loss) == "kto";
    config::Job reference;
    harness::expect_parity(
        [&](const Sets& layout) {
          const Sets sets = on(labels ? "labels" : "pairs", 256) +
                            Sets{std::string("preference.loss=") + loss, "optim.lr=1e-2"} + layout;
          config::Job job = harness::small_llama(DType::kF64, sets);
          if (!config::uses_reference(job.preference.loss)) return job;
          if (layout.empty()) {  // of other weights, so that no ratio is 0
            config::Job other = job;
            other.run.seed = 9;
            reference = with_reference(other);
          }
          job.preference.reference = reference.preference.reference;
          return job;
        },
        {{"dp 4", {"parallel.dp_shard=4"}},
         {"ZeRO-3, pp 2", {"parallel.dp_shard=2", "parallel.pp=2", "parallel.zero=3"}},
         {"tp 2, cp 2", {"parallel.tp=2", "parallel.cp=2"}},
         {"tp 2, logits computed twice", {"parallel.tp=2", "recompute.logits=true"}}});
  }
}

TEST_F(PreferenceTraining, LearnsWhatIsPreferred) {
  harness::prepared_preferences(directory_, "pairs", harness::pairs(32));
  harness::prepared_preferences(directory_, "labels", harness::labels(32));
  for (const char* loss : {"dpo", "ipo", "simpo", "orpo", "kto"}) {
    SCOPED_TRACE(loss);
    const bool labels = std::string(loss) == "kto";
    config::Job job = harness::small_llama(
        DType::kF32, on(labels ? "labels" : "pairs", 256) +
                         Sets{std::string("preference.loss=") + loss, "optim.lr=1e-2",
                              "run.steps=40", "optim.weight_decay=0", "run.micro_batch=4"});
    if (config::uses_reference(job.preference.loss)) job = with_reference(job);
    const harness::JobTrace trace = harness::run_job(job, 40);
    const auto mean = [&](std::size_t metric) {
      return trace.counts.back()[metric].sum / trace.counts.back()[metric].of;
    };
    EXPECT_LT(trace.losses.back(), trace.losses.front());
    EXPECT_GT(mean(0), mean(1));
    if (!labels) {
      EXPECT_GT(mean(5), 0.9);
    }
  }
}

TEST_F(PreferenceTraining, AdaptersBeginExactlyToo) {
  harness::prepared_preferences(directory_, "set", harness::pairs(16));
  for (const Sets& layout : {Sets{}, Sets{"parallel.tp=2"}, Sets{"parallel.dp_shard=4"}}) {
    const Sets lora = {"lora.rank=4", "lora.dropout=0.1"};
    const config::Job job =
        with_reference(harness::small_llama(DType::kF32, on("set", 128) + lora + layout));
    EXPECT_EQ(harness::run_job(job, 1).losses[0], M_LN2);
  }
}

// A directory of other weights, another model or another type is refused; one that fits is used as it is.
TEST_F(PreferenceTraining, ReferencesFitOrAreRefused) {
  harness::prepared_preferences(directory_, "set", harness::pairs(8));
  const config::Job job = with_reference(harness::small_llama(DType::kF32, on("set", 128)));
  const auto time = [&] {
    return std::filesystem::last_write_time(Path(job.preference.reference) / "train.f64");
  };
  const auto before = time();
  config::Job again = job;
  again.preference.beta = 0.5;
  again.parallel.tp = 2;
  prepare(again, 2);
  EXPECT_EQ(time(), before);
  const auto refusal = [&](const Sets& sets) -> std::string {
    config::Job other = job;
    for (const std::string& set : sets) config::apply_set(other, set);
    try {
      prepare(other, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_NE(refusal({"run.seed=9"}).find("was computed with weights random, run.seed=1"),
            std::string::npos);
  EXPECT_NE(refusal({"model.ffn=64"}).find("a model of digest"), std::string::npos);
  EXPECT_NE(refusal({"precision.compute=fp64"}).find("precision.compute fp32"), std::string::npos);
}

}  // namespace
}  // namespace trireme::train::preference_test
