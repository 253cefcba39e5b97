// Sums of a job's gradients travel as they are before they travel as factors.
#include <gtest/gtest.h>

#include "tests/harness/small_jobs.h"

namespace trireme::train::low_rank_test {
namespace {

using harness::JobTrace;
using harness::Sets;
using harness::operator+;

JobTrace run(const Sets& sets) {
  const Sets wide = {"model.layers=1", "model.hidden=128", "precision.compute=fp32"};
  return harness::run_job(harness::six_nodes("gpt_tiny.yaml", wide + sets), /*steps=*/4);
}

TEST(LowRankRun, CodesBeginAfterTheWarmUp) {
  const std::vector<double> dense = run({}).losses;
  const Sets codes = {"network.codec=lowrank:2:2", "network.senders=2"};
  const JobTrace coded = run(codes);
  for (const int step : {0, 1, 2}) EXPECT_EQ(coded.losses[step], dense[step]) << step;
  EXPECT_NE(coded.losses[3], dense[3]);
  EXPECT_EQ(run(codes + Sets{"parallel.dp_shard=2", "parallel.zero=1"}).losses, coded.losses);
  EXPECT_NE(run({"network.codec=lowrank:2:0", "network.senders=2"}).losses[1], dense[1]);
}

}  // namespace
}  // namespace trireme::train::low_rank_test
