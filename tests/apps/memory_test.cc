// explain --memory and --fits, run.memory_limit and run.micro_batch=0 as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/apps/program.h"
#include "trireme/base/json.h"
#include "trireme/config/job.h"

namespace trireme::app::memory_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Memory : public ::testing::Test {
 protected:
  Memory() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * i % 97) + ";\n";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 2, hidden: 64, heads: 4, seq_len: 64}\n"
                "data: {path: text.txt}\n"
                "run: {steps: 2, global_batch: 16, micro_batch: 1}\n");
  }

  Result run(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.begin() + 1, "job.yaml");
    words.insert(words.end(), more.begin(), more.end());
    return desk_.run(words);
  }
  std::int64_t needed(const std::vector<std::string>& more) const {
    const Result result = run({"explain", "--memory", "--format", "json"}, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "explain")["needed_bytes"].get<std::int64_t>();
  }

  Desk desk_;
};

TEST_F(Memory, ExplainShowsEveryRankAndItsKinds) {
  const Result text =
      run({"explain", "--memory"}, {"--ranks", "4", "--set", "parallel.pp=2", "parallel.zero=1"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  for (const char* wanted : {"ranks 0-1", "ranks 2-3", "optimizer", "activations", "work",
                             "library", "needed", "peak at line"})
    EXPECT_THAT(text.out, HasSubstr(wanted));
  // More samples at once need more; ranks as processes have a library each.
  EXPECT_GT(needed({"--ranks", "2", "run.micro_batch=8"}), needed({"--ranks", "2"}));
  EXPECT_GT(needed({"--nproc", "2"}), needed({"--ranks", "2"}));
}

TEST_F(Memory, FitsIsAnExitCode) {
  const std::int64_t bytes = needed({"--nproc", "2"});
  const Result enough = run({"explain", "--fits", std::to_string(bytes)}, {"--nproc", "2"});
  EXPECT_EQ(enough.exit_code, 0) << enough.err;
  EXPECT_THAT(enough.out, HasSubstr("fits: rank 0 needs most"));
  const Result little = run({"explain", "--fits", std::to_string(bytes - 1)}, {"--nproc", "2"});
  EXPECT_EQ(little.exit_code, 6);
  expect_one_line(little.err);
  EXPECT_THAT(little.err, HasSubstr("trireme: does not fit: rank 0 needs"));
  EXPECT_THAT(little.err, HasSubstr("would help"));
  EXPECT_EQ(run({"explain", "--fits", "1TiB"}, {}).exit_code, 0);
  const Result nonsense = run({"explain", "--fits", "20 gigs"}, {});
  EXPECT_EQ(nonsense.exit_code, 2);
  EXPECT_THAT(nonsense.err, HasSubstr("needs a size such as 20GiB"));
  EXPECT_EQ(run({"explain", "--memory", "--format", "svg"}, {}).exit_code, 2);
  for (const std::vector<std::string>& ignored :
       {std::vector<std::string>{"--format", "json"}, {"--format", "svg"}, {"--rank", "0"}}) {
    const Result result = run({"explain", "--fits", "1TiB"}, ignored);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--fits"));
  }
  EXPECT_EQ(run({"explain", "--fits", "1TiB", "--memory", "--format", "json"}, {}).exit_code, 0);
  // Before the job is planned.
  EXPECT_THAT(run({"explain", "--fits", "20 gigs", "--set", "model.heads=5"}, {}).err,
              HasSubstr("needs a size"));
  // A budget of recomputation is room as well.
  const Result budget =
      run({"explain"}, {"--set", "recompute.policy=auto", "recompute.memory=1MiB"});
  EXPECT_EQ(budget.exit_code, 6);
  expect_one_line(budget.err);
  EXPECT_THAT(budget.err, HasSubstr("recompute.memory=1MiB: no choice"));
}

TEST_F(Memory, ALimitStopsWhatWouldNotFitBeforeAnythingExists) {
  const Result refused = run({"train"}, {"--out", "run", "--set", "run.memory_limit=1MiB"});
  EXPECT_EQ(refused.exit_code, 6);
  expect_one_line(refused.err);
  EXPECT_THAT(refused.err, HasSubstr("(run.memory_limit)"));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "run"));
}

TEST_F(Memory, FindingNeedsRanksThatAreStartedHere) {
  desk_.set("RANK", "0");
  desk_.set("WORLD_SIZE", "2");
  desk_.set("MASTER_ADDR", "127.0.0.1");
  desk_.set("MASTER_PORT", "29511");
  const Result result = run({"train"}, {"--set", "run.micro_batch=0"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("run.micro_batch=0"));
}

TEST_F(Memory, OnlyTrainLooksForTheLargestMicroBatch) {
  const std::vector<std::string> find = {"--set", "run.micro_batch=0"};
  EXPECT_THAT(run({"explain"}, find).out,
              HasSubstr("run.micro_batch=1; train will look for the largest"));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"diff", "--layouts", "dp_shard=1", "dp_shard=2"},
        {"bench", "step"},
        {"bench", "recompute"}}) {
    std::vector<std::string> words = command;
    words.insert(words.begin() + (command[0] == "bench" ? 2 : 1), "job.yaml");
    words.insert(words.end(), find.begin(), find.end());
    const Result result = desk_.run(words);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(words);
    EXPECT_THAT(result.err, HasSubstr("only train finds the largest"));
  }
}

// Two snapshots are kept while a third is written, each with the part of another host's rank where there is one.
TEST_F(Memory, SnapshotsInMemoryCountWithTheirReplicas) {
  const std::vector<std::string> both = {"--set", "checkpoint.memory_every=1",
                                         "checkpoint.async=false"};
  const auto first_list = [&](const std::vector<std::string>& more) {
    const Result result = run({"explain", "--memory", "--format", "json"}, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "explain")["lists"][0];
  };
  const Json one_host =
      first_list({"--nproc", "4", "--set", "checkpoint.memory_every=1", "checkpoint.async=false"});
  const auto saved = one_host["snapshot_bytes"].get<std::int64_t>();
  EXPECT_GT(saved, 0);
  EXPECT_EQ(one_host["kept_bytes"], 3 * saved);
  EXPECT_EQ(
      needed({"--nproc", "4", "--set", "checkpoint.memory_every=1", "checkpoint.async=false"}),
      needed({"--nproc", "4", "--set", "checkpoint.async=false"}) + 4 * saved);
  // As a rank of a launch on two hosts.
  for (const auto& [name, value] :
       {std::pair("RANK", "0"), std::pair("WORLD_SIZE", "4"), std::pair("LOCAL_RANK", "0"),
        std::pair("LOCAL_WORLD_SIZE", "2"), std::pair("TRIREME_STORE", "unix:none")})
    desk_.set(name, value);
  EXPECT_EQ(first_list(both)["kept_bytes"], 6 * saved);
  const Result refused =
      run({"explain", "--fits", std::to_string(saved)}, {"--set", "checkpoint.memory_every=1"});
  EXPECT_EQ(refused.exit_code, 6);
}

// Ranks that start again would look again, and might find what their snapshot was not made with.
TEST_F(Memory, FindingDoesNotGoWithSnapshotsInMemory) {
  for (const std::string command : {"train", "launch"}) {
    std::vector<std::string> words = {"train", "job.yaml", "--set", "run.micro_batch=0",
                                      "checkpoint.memory_every=5"};
    if (command == "launch") words.insert(words.begin(), {"launch", "--"});
    const Result result = desk_.run(words);
    EXPECT_EQ(result.exit_code, 2);
    expect_one_line(result.err);
    if (command == "launch") {
      EXPECT_THAT(result.err, HasSubstr("run.micro_batch=0 with checkpoint.memory_every=5"));
    }
  }
}

#if TRIREME_HAS_WORKER

TEST_F(Memory, ARunTellsForecastAndMeasurement) {
  const Result result =
      run({"train"}, {"--out", "run", "--ranks", "2", "--set", "run.eval_every=-1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" forecast, "));
  EXPECT_THAT(read_file(desk_ / "run/report.html"), HasSubstr("tensors of rank 1, peak of a step"));
  std::istringstream lines(read_file(desk_ / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    EXPECT_GT(parse_json(line, "metrics")["peak_mb"].get<double>(), 1) << line;
}

// Clips of the next step are read while one is computed: here they are most of what a rank needs.
TEST_F(Memory, SamplesThatAreReadAheadCount) {
  ASSERT_EQ(desk_
                .run({"data", "synth", "video", "clips", "--count", "40", "--size", "96x96",
                      "--format", "webp"})
                .exit_code,
            0);
  desk_.write("probe.yaml",
              "model: {family: probe}\n"
              "vision: {image: 96, patch: 32, frames: 4, tubelet: 2, layers: 1, hidden: 24, heads: "
              "2, positions: rotary}\n"
              "probe: {layers: 1, heads: 2, clips: [3, 1]}\n"
              "data: {source: clips, path: clips}\n"
              "run: {steps: 3, global_batch: 32, micro_batch: 2, eval_every: -1}\n");
  const Result result = desk_.run({"train", "probe.yaml", "--out", "run"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::smatch found;
  const std::regex line("memory of rank 0: ([0-9.]+) MiB forecast, ([0-9.]+) MiB measured");
  ASSERT_TRUE(std::regex_search(result.out, found, line)) << result.out;
  const double forecast = std::stod(found[1]), measured = std::stod(found[2]);
  EXPECT_GE(forecast, 0.99 * measured);
  EXPECT_LE(forecast, 1.15 * measured);
  const double ahead = 32.0 * 3 * 4 * 96 * 96 * 3 * 4 / (1 << 20);
  EXPECT_GT(measured, 0.6 * ahead);
  EXPECT_EQ(desk_.run({"explain", "probe.yaml", "--fits", "200MiB"}).exit_code, 6);
  EXPECT_THAT(desk_.run({"explain", "probe.yaml", "--memory"}).out, HasSubstr("  samples  "));
}

// Before the data's vocabulary is known, the budget cannot be judged: this one would not hold the logits of a large one.
TEST_F(Memory, ABudgetIsJudgedByTheVocabularyOfTheData) {
  const Result trained =
      run({"train"}, {"--out", "run", "--set", "recompute.policy=auto", "recompute.memory=12MiB"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(config::load_job(desk_ / "run/job.lock.yaml").recompute.policy,
            config::RecomputePolicy::kAuto);
  for (const auto& [memory, code] :
       {std::pair("recompute.memory=1MiB", 6), std::pair("recompute.memory=0", 2)}) {
    const Result refused = run({"train"}, {"--set", "recompute.policy=auto", memory});
    EXPECT_EQ(refused.exit_code, code);
    EXPECT_THAT(refused.err, HasSubstr("recompute.memory"));
  }
}

// The limit lies between what two candidates need: the smaller is found, used, written down and kept by a resume.
TEST_F(Memory, FindsTheLargestMicroBatchThatFits) {
  for (const char* ranks : {"--ranks", "--nproc"}) {
    const std::string out = std::string("run") + ranks;
    const std::int64_t four = needed({ranks, "2", "run.micro_batch=4"}),
                       eight = needed({ranks, "2", "run.micro_batch=8"});
    ASSERT_GT(eight, four + (1 << 20));
    const std::string limit = "run.memory_limit=" + std::to_string(four + (1 << 19));
    const std::vector<std::string> more = {"--out", out, ranks, "2", "--set", "run.micro_batch=0",
                                           limit};
    const Result result = run({"train"}, more);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("run.micro_batch=8: forecast"));
    EXPECT_THAT(result.out, HasSubstr("run.micro_batch=4: forecast"));
    EXPECT_THAT(result.out, HasSubstr("taken"));
    const config::Job found = config::load_job(desk_ / (out + "/job.lock.yaml"));
    EXPECT_EQ(found.run.micro_batch, 4);
    EXPECT_FALSE(found.run.find_micro_batch);  // training from it is this run again

    // With more room a resume still keeps it.
    const Result resumed =
        run({"train"}, {"--out", out, ranks, "2", "--set", "run.micro_batch=0", "run.steps=3"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    const config::Job kept = config::load_job(desk_ / (out + "/job.lock.yaml"));
    EXPECT_EQ(kept.run.micro_batch, 4);
    EXPECT_FALSE(kept.run.find_micro_batch);
    EXPECT_THAT(resumed.out, Not(HasSubstr("find ")));
  }
}

// Addresses for this process and what it starts.
class AddressLimit {
 public:
  explicit AddressLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~AddressLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// The logits of 64 samples take a GiB, which the forecast allows and the system does not give.
TEST_F(Memory, ATrialThatRunsOutIsFollowedByASmallerOne) {
  const AddressLimit limit(2'500'000'000);
  const Result result =
      run({"train"}, {"--out", "run", "--set", "run.micro_batch=0", "model.layers=1",
                      "model.hidden=32", "model.heads=1", "model.seq_len=256", "model.vocab=16384",
                      "run.global_batch=64", "run.steps=1", "run.memory_limit=8GiB"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("run.micro_batch=64: forecast"));
  EXPECT_THAT(result.out, HasSubstr("its trial ran out of memory"));
  EXPECT_EQ(config::load_job(desk_ / "run/job.lock.yaml").run.micro_batch, 32);
}

// A worker that dies of anything but want of memory would also die of smaller micro-batches, or leave a wrong one.
TEST_F(Memory, ATrialThatCrashesEndsTheSearch) {
  const Path programs = desk_ / "programs";
  std::filesystem::create_directory(programs);
  std::filesystem::copy(std::string(TRIREME_BIN_DIR) + "/trireme", programs / "trireme");
  const Path worker = desk_.write("programs/trireme-worker", "#!/bin/sh\nkill -$SIGNAL $$\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const auto search = [&](const std::string& signal) {
    desk_.set("SIGNAL", signal);
    return desk_.run({"train", "job.yaml", "--set", "run.micro_batch=0"},
                     (programs / "trireme").string());
  };
  const Result crashed = search("SEGV");
  EXPECT_EQ(crashed.exit_code, 1);
  expect_one_line(crashed.err);
  EXPECT_THAT(crashed.err, HasSubstr("the trial of run.micro_batch=16 ended"));
  EXPECT_THAT(crashed.err, HasSubstr("signal 11"));
  EXPECT_THAT(crashed.out, Not(HasSubstr("out of memory")));
  const Result killed = search("KILL");
  EXPECT_EQ(killed.exit_code, 6);
  EXPECT_THAT(killed.out, HasSubstr("run.micro_batch=1: "));
}

TEST_F(Memory, FindingNothingIsExitSix) {
  const Result result =
      run({"train"}, {"--out", "run", "--set", "run.micro_batch=0", "run.memory_limit=1MiB"});
  EXPECT_EQ(result.exit_code, 6);
  expect_one_line(result.err);
  EXPECT_THAT(result.err, HasSubstr("no run.micro_batch fits"));
  // What could not even be planned says why.
  const Result unplanned =
      run({"train"}, {"--out", "run", "--set", "run.micro_batch=0", "recompute.policy=auto",
                      "recompute.memory=1MiB", "run.memory_limit=8GiB"});
  EXPECT_EQ(unplanned.exit_code, 6);
  EXPECT_THAT(unplanned.err, HasSubstr("recompute.memory=1MiB: no choice"));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "run"));
}

#endif

}  // namespace
}  // namespace trireme::app::memory_test
