// trireme bench over variants of a job, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"
#include "trireme/base/json.h"

#if TRIREME_HAS_WORKER

namespace trireme::app::bench_test {
namespace {

using ::testing::HasSubstr;

class Variants : public ::testing::Test {
 protected:
  Variants() {
    desk_.write(
        "job.yaml",
        "model: {layers: 2, hidden: 32, heads: 4, seq_len: 16, vocab: 256}\n"
        "run: {global_batch: 4, micro_batch: 1}\nrecompute: {policy: full, logits: true}\n");
    desk_.write("variants.yaml",
                "job: job.yaml\nruns:\n  none: {recompute.policy: none}\n"
                "  full-two: {ranks: 2, parallel.zero: 3, recompute.policy: full}\n");
  }

  Json rows(std::vector<std::string> words) const {
    words.insert(words.end(), {"--json", "rows.json"});
    const Result result = desk_.run(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return parse_json(read_file(desk_ / "rows.json"), "rows");
  }

  Desk desk_;
};

TEST_F(Variants, MemoryMeasuresTheRunsOfASweepOnTheirRanks) {
  const Json all = rows({"bench", "memory", "--variants", "variants.yaml", "--steps", "1"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["job"], "variants none");
  EXPECT_EQ(all[0]["ranks"], 1);
  EXPECT_EQ(all[1]["ranks"], 2);
  EXPECT_EQ(all[1]["measured_bytes"].size(), 2u);
  EXPECT_EQ(
      rows({"bench", "memory", "--variants", "variants.yaml", "--steps", "1", "--only", "two"})
          .size(),
      1u);
  const Result none =
      desk_.run({"bench", "memory", "--variants", "variants.yaml", "--only", "six"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("--only six"));
}

TEST_F(Variants, RecomputeComparesThePoliciesOfASweep) {
  const Json all = rows({"bench", "recompute", "job.yaml", "--variants", "variants.yaml", "--steps",
                         "1", "--warmup", "0", "--rounds", "1", "--ranks", "2"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["policy"], "none, logits");
  EXPECT_EQ(all[1]["policy"], "full-two, logits");
  EXPECT_EQ(all[0]["loss"], all[1]["loss"]);
  EXPECT_GT(all[0]["activations_bytes"], all[1]["activations_bytes"]);
}

TEST_F(Variants, PipelineSleepsUnderTheSchedulesAsked) {
  const Json all = rows({"bench", "pipeline", "--ranks", "2", "--micro-batches", "2", "--ms", "1",
                         "--steps", "1", "--schedules", "gpipe,1f1b"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["schedule"], "gpipe");
  EXPECT_EQ(all[1]["kept"].size(), 2u);
}

}  // namespace
}  // namespace trireme::app::bench_test

#endif
