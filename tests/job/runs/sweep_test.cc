// Sweeps: the runs they name, and what is refused.
#include "trireme/job/runs/sweep.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/config/error_of.h"

namespace trireme::runs::sweep_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sweeps, HaveEveryRunWithEveryCombination) {
  const Sweep sweep = parse_sweep(
      "job: tiny.yaml\nset: {run.steps: 5}\nruns: {a: {}, b: {parallel.zero: 3}}\n"
      "grid: {optim.lr: [1e-3, 3e-3], optim.betas: [[0.9, 0.95]]}\nmetrics: [loss, mfu]\n",
      "sweep.yaml");
  EXPECT_EQ(sweep.job, "tiny.yaml");
  EXPECT_THAT(sweep.metrics, ElementsAre("loss", "mfu"));
  ASSERT_EQ(sweep.runs.size(), 4u);
  EXPECT_EQ(sweep.runs[0].name, "a-lr-1e-3-betas-_0.9__0.95_");
  EXPECT_THAT(sweep.runs[3].assignments, ElementsAre("run.steps=5", "parallel.zero=3",
                                                     "optim.lr=3e-3", "optim.betas=[0.9, 0.95]"));
}

TEST(Sweeps, AreNamedByTheGridAlone) {
  const Sweep sweep = parse_sweep("job: j\ngrid: {model.layers: [2, 4]}", "sweep.yaml");
  ASSERT_EQ(sweep.runs.size(), 2u);
  EXPECT_EQ(sweep.runs[1].name, "layers-4");
  EXPECT_THAT(sweep.metrics, ElementsAre("loss"));
}

TEST(Sweeps, AreRefusedInOneLine) {
  const auto error = [](const std::string& text) {
    return config::usage_error_of([&] { parse_sweep(text, "sweep.yaml"); });
  };
  EXPECT_THAT(error("3"), HasSubstr("a sweep is a map"));
  EXPECT_THAT(error("runs: {a: {}}"), HasSubstr("needs job"));
  EXPECT_THAT(error("job: j"), HasSubstr("needs runs or grid"));
  EXPECT_THAT(error("job: j\nrun: {a: {}}"), HasSubstr("sweep.yaml:2:1: unknown key \"run\""));
  EXPECT_THAT(error("job: j\nruns: {../a: {}}"), HasSubstr("needs a word"));
  EXPECT_THAT(error("job: j\nruns: {a: {model.layer: 3}}"), HasSubstr("did you mean model.layers"));
  EXPECT_THAT(error("job: j\nruns: {a: {model.layers: many}}"), HasSubstr("model.layers"));
  EXPECT_THAT(error("job: j\nruns: {a: {model: {layers: 3}}}"),
              HasSubstr("keys of a sweep are whole"));
  EXPECT_THAT(error("job: j\ngrid: {model.layers: 3}"), HasSubstr("needs a list of values"));
  EXPECT_THAT(error("job: j\ngrid: {model.layers: [3, 3]}"), HasSubstr("two runs are called"));
  EXPECT_THAT(error("job: j\nruns: [a]"), HasSubstr("runs is a map"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += fmt::format("{}{}", i == 0 ? "" : ", ", i + 1);
  EXPECT_THAT(error("job: j\ngrid: {model.layers: [" + many + "], data.seed: [" + many + "]}"),
              HasSubstr("more than 4096 runs"));
}

TEST(Sweeps, SayTheRanksOfTheirRuns) {
  const Sweep sweep = parse_sweep(
      "job: tiny.yaml\nruns: {one: {}, two: {ranks: 2, parallel.tp: 2}, three: {nproc: 3}}\n",
      "sweep.yaml");
  const JobOptions asked{.file = "tiny.yaml", .assignments = {"run.steps=1"}, .ranks = 4};
  EXPECT_EQ(job_of(sweep.runs[0], asked).ranks, 4);
  const JobOptions two = job_of(sweep.runs[1], asked);
  EXPECT_EQ(two.ranks, 2);
  EXPECT_THAT(two.assignments, ElementsAre("parallel.tp=2", "run.steps=1"));
  const JobOptions three = job_of(sweep.runs[2], asked);
  EXPECT_FALSE(three.ranks);
  EXPECT_EQ(three.nproc, 3);
  const auto refusal = [](const std::string& run) {
    return config::usage_error_of(
        [&] { parse_sweep("job: tiny.yaml\nruns: {a: " + run + "}\n", "sweep.yaml"); });
  };
  EXPECT_THAT(refusal("{ranks: 0}"), HasSubstr("ranks needs a number of ranks, 1 or more"));
  EXPECT_THAT(refusal("{nproc: two}"), HasSubstr("nproc needs a number of ranks"));
  EXPECT_THAT(refusal("{ranks: 1, nproc: 2}"), HasSubstr("either ranks or nproc"));
}

TEST(Recipes, SweepsNameJobsThatAreThere) {
  const Path folder = Path(TRIREME_SOURCE_DIR) / "recipes" / "sweeps";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const Sweep sweep = load_sweep(entry.path());
    EXPECT_TRUE(std::filesystem::is_regular_file(folder / sweep.job)) << sweep.job;
    EXPECT_THAT(read_file(entry.path()), HasSubstr("# Run: trireme sweep recipes/sweeps/" +
                                                   entry.path().filename().string()));
  }
}

}  // namespace
}  // namespace trireme::runs::sweep_test
