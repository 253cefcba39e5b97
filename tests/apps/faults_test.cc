// Faults made on purpose (--faults) in the real programs: at every disk call of a save, in operations of every kind, at
// every stage of the start. Whatever they do, a run that ends has the bits of one that never met any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "tests/apps/program.h"
#include "tests/apps/run_files.h"
#include "trireme/base/clock.h"
#include "trireme/config/job.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/digest.h"

namespace trireme::app::faults_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(Faults, AreRefusedUnlessAllowedAndUnderstood) {
  Desk desk;
  desk.write("job.yaml", "model: {layers: 1}\n");
  const auto refused = [&](std::vector<std::string> words, const std::string& why) {
    for (const bool launched : {false, true}) {
      std::vector<std::string> all = {"train", "job.yaml"};
      all.insert(all.end(), words.begin(), words.end());
      if (launched) all.insert(all.begin(), {"launch", "--"});
      const Result result = desk.run(all);
      EXPECT_EQ(result.exit_code, 2) << why;
      EXPECT_THAT(result.err, HasSubstr(why));
      expect_one_line(result.err);
    }
  };
  refused({"--faults", "step=1: kill"}, "--allow-fault-injection");
  refused({"--allow-fault-injection", "--faults", "step=1: kil"}, "character 9: 'kil'");
}

#if TRIREME_HAS_WORKER

// A step in some milliseconds on two ranks, with a checkpoint after each.
class FaultPoints : public ::testing::Test {
 protected:
  static constexpr int kSteps = 48;

  static void SetUpTestSuite() {
    desk_ = new Desk;
    std::string text;
    for (int i = 0; i < 500; ++i) text += "value " + std::to_string(i * i % 97) + ";\n";
    desk_->write("text.txt", text);
    desk_->write("job.yaml",
                 "model: {layers: 1, hidden: 16, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                 "parallel: {zero: 3}\noptim: {schedule: constant}\n"
                 "checkpoint: {every: 1, async: false, keep_last: 2}\n"
                 "run: {steps: " +
                     std::to_string(kSteps) +
                     ", global_batch: 4, micro_batch: 2, eval_every: -1, hang_report_s: 2}\n");
    EXPECT_EQ(desk_->run({"train", "job.yaml", "--nproc", "2", "--out", "whole"}).exit_code, 0);
  }
  static void TearDownTestSuite() {
    delete desk_;
    desk_ = nullptr;
  }

  static Result launch(const std::string& faults, const std::string& out,
                       const std::vector<std::string>& more = {},
                       const std::string& restarts = "1000", const std::string& job = "job.yaml") {
    std::vector<std::string> words = {"launch",
                                      "--nproc-per-node",
                                      "2",
                                      "--max-restarts",
                                      restarts,
                                      "--",
                                      "train",
                                      job,
                                      "--out",
                                      out,
                                      "--allow-fault-injection",
                                      "--faults",
                                      faults};
    words.insert(words.end(), more.begin(), more.end());
    return desk_->run(words);
  }
  static void expect_the_bits_of(const std::string& whole, const std::string& out) {
    const std::vector<std::string> expected = trace(*desk_ / whole);
    EXPECT_THAT(expected, SizeIs(kSteps));
    EXPECT_EQ(trace(*desk_ / out), expected);
    const std::string last = "/checkpoints/step-" + std::to_string(kSteps);
    EXPECT_EQ(desk_->run({"checkpoint", "diff", out + last, whole + last}).exit_code, 0);
    for (const auto& entry : formats::list_checkpoints(*desk_ / out / "checkpoints"))
      EXPECT_EQ(formats::verify_checkpoint(entry.path).step, entry.step);
  }
  // Those that have happened, as the ranks have noted them.
  static std::set<std::string> happened(const std::string& out) {
    std::set<std::string> lines;
    std::istringstream notes(read_file(*desk_ / out / ".faults"));
    for (std::string line; std::getline(notes, line);) lines.insert(line);
    return lines;
  }
  static std::vector<Json> events(const std::string& out) {
    return lines_of(*desk_ / out / "events.jsonl");
  }

  static inline Desk* desk_ = nullptr;
};

// Rewrites a checkpoint that fits to its digests, with zeros in place of one kind of state.
void clear_state(const Path& checkpoint, const std::string& kind) {
  formats::Manifest manifest = formats::read_manifest(checkpoint);
  for (formats::ManifestFile& file : manifest.files) {
    std::string bytes = read_file(checkpoint / file.name);
    const auto whole = std::as_bytes(std::span(bytes));
    const formats::TensorTable table = formats::parse_safetensors(whole, file.name);
    for (const formats::ManifestUnit& unit : manifest.units)
      for (const formats::ManifestSlice& slice : unit.slices) {
        if (slice.file != file.name || slice.kind != kind) continue;
        const auto tensor = table.find(slice.tensor)->bytes;
        const auto begin = bytes.begin() + (tensor.data() - whole.data());
        const auto end = begin + std::ssize(tensor);
        EXPECT_TRUE(std::any_of(begin, end, [](char byte) { return byte != 0; }));
        std::fill(begin, end, '\0');
      }
    const formats::FileDigest digest = formats::digest_of(whole);
    file = {file.name, digest.size, digest.hash, digest.mib_hashes};
    replace_file(checkpoint / file.name, bytes);
  }
  replace_file(checkpoint / formats::kManifestName, print(manifest));
}

// Control of all that compare bits: what goes on without a state of its optimizer has others from its first update on; so
// has what goes on with other data, and what learns a millionth faster.
TEST_F(FaultPoints, ControlWhatIsNotRestoredShows) {
  constexpr std::size_t kKept = kSteps / 2;
  const std::vector<std::string> whole = trace(*desk_ / "whole");
  EXPECT_EQ(launch(fmt::format("rank=1 step={}: kill", kKept + 1), "keeps", {}, "0").exit_code, 4);
  std::filesystem::copy(*desk_ / "keeps", *desk_ / "forgets",
                        std::filesystem::copy_options::recursive);
  const std::string last = fmt::format("checkpoints/step-{}", kKept);
  clear_state(*desk_ / "keeps" / last, "none");  // what rewriting alone does
  clear_state(*desk_ / "forgets" / last, "exp_avg");
  for (const std::string out : {"keeps", "forgets"})
    EXPECT_EQ(desk_->run({"train", "job.yaml", "--nproc", "2", "--out", out}).exit_code, 0);
  expect_the_bits_of("whole", "keeps");
  const std::vector<std::string> forgets = trace(*desk_ / "forgets");
  ASSERT_THAT(forgets, SizeIs(kSteps));
  for (std::size_t step = 0; step < forgets.size(); ++step)
    EXPECT_EQ(forgets[step] == whole[step], step <= kKept) << step + 1;
  // The first step after a resume is before any update: its data and weights alone count.
  const auto numbers = [](const std::string& line) { return line.substr(line.find(' ')); };
  const std::string weights = "whole/checkpoints/step-" + std::to_string(kSteps - 1);
  const Result other = desk_->run({"train", "job.yaml", "--nproc", "2", "--out", "other-data",
                                   "--steps", "1", "--set", "model.weights=" + weights});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_NE(numbers(trace(*desk_ / "other-data").at(0)), numbers(whole.back()));
  const double rate = config::load_job(*desk_ / "whole/job.lock.yaml").optim.lr * (1 + 1e-6);
  const Result faster = desk_->run({"train", "job.yaml", "--nproc", "2", "--out", "faster", "--set",
                                    fmt::format("optim.lr={:.17g}", rate)});
  ASSERT_EQ(faster.exit_code, 0) << faster.err;
  EXPECT_NE(trace(*desk_ / "faster"), whole);
  EXPECT_EQ(desk_->run({"checkpoint", "diff", "faster", "whole"}).exit_code, 1);
}

// Control of all that is started again: without that, each of these ends the run.
TEST_F(FaultPoints, ControlWithoutRestartsAFaultIsTheEnd) {
  int number = 0;
  for (const char* fault :
       {"rank=1 start=mesh: kill", "rank=0 step=7: kill", "rank=1 step=5: exit=0",
        "rank=1 step=13: abort", "rank=0 step=9: throw", "rank=0 step=4 fs=3: kill"}) {
    const std::string out = "ends-" + std::to_string(number++);
    const Result result = launch(fault, out, {}, "0");
    EXPECT_NE(result.exit_code, 0) << fault;
    EXPECT_THAT(happened(out), SizeIs(1)) << fault;
    if (!std::filesystem::exists(*desk_ / out / "metrics.jsonl")) continue;
    EXPECT_LT(trace(*desk_ / out).size(), static_cast<std::size_t>(kSteps)) << fault;
  }
}

// The nth call in the save after step n + 1, for as long as a save has so many. What was acknowledged is what stands, or
// the new one does.
TEST_F(FaultPoints, AKillAtAnyDiskCallOfASaveLosesNoCheckpoint) {
  constexpr int kFewest[] = {16, 4};  // calls of a save, per rank
  for (const int rank : {0, 1}) {
    const std::string out = "disk" + std::to_string(rank);
    std::vector<std::string> faults;
    std::string all;
    for (int n = 1; n < kSteps - 1; ++n) {
      faults.push_back("rank=" + std::to_string(rank) + " step=" + std::to_string(n + 1) +
                       " fs=" + std::to_string(n) + ": kill");
      all += faults.back() + "; ";
    }
    const Result result = launch(all, out);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    expect_the_bits_of("whole", out);
    const std::set<std::string> done = happened(out);
    const int calls = static_cast<int>(done.size());
    EXPECT_GE(calls, kFewest[rank]);
    EXPECT_LT(calls, kSteps - 3) << "some are beyond the last call";
    for (int n = 1; n <= calls; ++n)
      EXPECT_TRUE(done.contains("rank " + std::to_string(rank) + ": " + faults[n - 1]));
    std::istringstream told(result.out);
    std::vector<int> resumed;
    for (std::string line; std::getline(told, line);)
      if (const std::size_t at = line.find("(step ");
          line.starts_with("resume ") && at != std::string::npos)
        resumed.push_back(std::stoi(line.substr(at + 6)));
    ASSERT_THAT(resumed, SizeIs(calls));
    for (int n = 1; n <= calls; ++n) {
      EXPECT_GE(resumed[n - 1], n) << "of the save after step " << n + 1;
      EXPECT_LE(resumed[n - 1], n + 1);
    }
  }
}

TEST_F(FaultPoints, AKillInAnOperationOfAnyKindIsNeverHalfApplied) {
  const struct {
    std::string layout;
    std::vector<std::string> faults;
  } cases[] = {
      {"parallel.zero=3",
       {"rank=1 step=3 what=all_gather: kill", "rank=0 step=4 what=reduce_scatter: kill",
        "rank=1 step=5 group=world: kill", "rank=0 step=6 group=exchange: kill",
        "rank=1 group=dp_shard op-end=40: kill", "rank=0 step=12 what=backward: kill",
        "rank=1 step=13 what=step: kill"}},
      {"parallel.zero=0", {"rank=1 step=3 what=all_reduce: kill"}},
      {"parallel.pp=2", {"rank=0 step=3 what=send: kill", "rank=1 step=4 what=recv: kill"}}};
  for (const auto& [layout, faults] : cases) {
    SCOPED_TRACE(layout);
    const std::string whole = "whole-" + layout, out = "operations-" + layout;
    EXPECT_EQ(desk_->run({"train", "job.yaml", "--nproc", "2", "--out", whole, "--set", layout})
                  .exit_code,
              0);
    std::string all;
    for (const std::string& fault : faults) all += fault + ";";
    const Result result = launch(all, out, {"--set", layout});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_the_bits_of(whole, out);
    EXPECT_THAT(happened(out), SizeIs(faults.size())) << result.err;
  }
}

// Messages of several chunks, over what carries them. `wide` has operations of half a megabyte.
TEST_F(FaultPoints, AKillAtAChunkInsideAnOperationIsNeverHalfApplied) {
  std::string job = read_file(*desk_ / "job.yaml");
  job.replace(job.find("hidden: 16"), 10, "hidden: 128");
  desk_->write("wide.yaml", job);
  const std::vector<std::string> steps = {"--steps", "12"};
  ASSERT_EQ(desk_->run({"train", "wide.yaml", "--nproc", "2", "--out", "wide", "--steps", "12"})
                .exit_code,
            0);
  const std::vector<std::string> expected = trace(*desk_ / "wide");
  for (const char* transport : {"shm", "gloo"}) {
    SCOPED_TRACE(transport);
    desk_->set("TRIREME_TRANSPORT", transport);
    const std::string out = std::string("chunks-") + transport;
    const std::vector<std::string> faults = {"rank=1 step=3 what=all_gather chunk=0: kill",
                                             "rank=0 step=4 what=all_gather chunk=2: kill",
                                             "rank=1 step=5 what=reduce_scatter chunk=1: kill",
                                             "rank=0 step=6 what=reduce_scatter chunk=3: kill",
                                             "rank=1 group=dp_shard op=30 chunk=1: kill",
                                             "rank=0 step=11 chunk=1: throw"};
    std::string all;
    for (const std::string& fault : faults) all += fault + ";";
    const Result result = launch(all, out, steps, "1000", "wide.yaml");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(happened(out), SizeIs(faults.size())) << result.err;
    EXPECT_EQ(trace(*desk_ / out), expected);
    EXPECT_EQ(desk_->run({"checkpoint", "diff", out, "wide"}).exit_code, 0);

    // Whom nobody starts again.
    const std::string once = out + "-once";
    const Result ended =
        launch("rank=1 step=3 what=all_gather chunk=1: kill", once, steps, "0", "wide.yaml");
    EXPECT_EQ(ended.exit_code, 4);
    EXPECT_THAT(ended.err, HasSubstr("rank 1 was killed by signal 9"));
    EXPECT_THAT(trace(*desk_ / once), SizeIs(2)) << "step 3 was not applied";
  }
  desk_->clear("TRIREME_TRANSPORT");
}

TEST_F(FaultPoints, AKillAtAnyStageOfTheStartCostsOneRestart) {
  const std::string faults =
      "rank=1 start=process: kill; rank=0 start=store: kill; rank=1 start=ranks: kill; "
      "rank=0 start=links: kill; rank=1 start=mesh: kill; rank=0 group=exchange op=0: kill; "
      "rank=1 step=1 what=load: kill";
  const Result result = launch(faults, "start");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_the_bits_of("whole", "start");
  EXPECT_THAT(happened("start"), SizeIs(7));
  EXPECT_LE(events("start").size(), 7u) << "two may die in one generation";
}

// It would be waited for otherwise: for two minutes.
TEST_F(FaultPoints, AnEndWithZeroBeforeTheOthersAreMetIsNoticedAtOnce) {
  for (const char* stage : {"process", "store", "ranks", "links"}) {
    const std::string out = std::string("alone-") + stage;
    const Stopwatch watch;
    const Result result =
        launch(std::string("rank=1 start=") + stage + ": exit=0", out, {"--steps", "2"}, "0");
    EXPECT_EQ(result.exit_code, 4) << stage;
    EXPECT_THAT(result.err,
                HasSubstr("rank 1 ended with exit code 0 before it had met the others"));
    EXPECT_LT(watch.seconds(), 30) << "on a machine that does much else";
  }
}

TEST_F(FaultPoints, TwoAtOnceAndDuringRecovery) {
  const Result result = launch(
      "rank=0 step=7: kill; rank=1 step=7: kill; rank=1 generation=2 start=links: kill", "two");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_the_bits_of("whole", "two");
  EXPECT_THAT(happened("two"), Contains("rank 1: rank=1 generation=2 start=links: kill"));
}

TEST_F(FaultPoints, ACrashLoopEndsWithRankAndStep) {
  const Result result = launch("rank=1 generation=each step=20: kill", "loop", {}, "3");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_THAT(result.err, HasSubstr("in step 20; 3 restarts since the checkpoint of step 19"));
  // Control: a death that does not come again is no loop.
  EXPECT_EQ(launch("rank=1 step=20: kill", "no-loop", {}, "3").exit_code, 0);
}

// Full, failing, short and lying disks cost the checkpoint that they spoil, and no restart.
TEST_F(FaultPoints, ADiskThatFailsCostsTheCheckpointAndNoMore) {
  const Result result = launch(
      "rank=1 step=10 fs.write=1: error=ENOSPC; rank=0 step=14 fs.fsync=1: error=EIO; "
      "rank=1 step=18 fs.write=1: short=50; rank=0 step=22 fs.write=2: lie; "
      "rank=0 step=26 fs.write=1: error=EINTR; rank=0 step=30 fs.rename=1: error=EROFS",
      "disk");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(happened("disk"), SizeIs(6));
  expect_the_bits_of("whole", "disk");
  for (const char* told : {"step 10 not written", "No space left", "step 14 not written",
                           "step 22 not written", "step 30 not written"})
    EXPECT_THAT(result.out + result.err, HasSubstr(told));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("step 18 not written")));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("step 26 not written")));
  EXPECT_THAT(result.err, Not(HasSubstr("restarting")));
}

// Half a second into step 21 all files of the checkpoint after step 20 are there, and no rank commits it any more.
TEST_F(FaultPoints, AHangInTheNextStepCostsNoCheckpoint) {
  const Result result = launch("rank=1 step=21 line=2: delay=500ms; rank=1 step=21 line=3: stop",
                               "hang", {"--set", "checkpoint.every=20", "checkpoint.async=true"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("restarting from step 20"));
  EXPECT_THAT(result.err, HasSubstr("step-20 was complete when its run ended"));
  EXPECT_THAT(result.out, HasSubstr("step-20 (step 20)"));
  expect_the_bits_of("whole", "hang");
}

// A write that lies is found by reading back, and costs that snapshot; a torn one, or a kill, leaves those before it.
TEST_F(FaultPoints, FaultsOfSnapshotsInMemoryCostASnapshotAndNoBit) {
  const Result result = launch(
      "rank=0 generation=1 mem.write=5: torn=100; rank=1 generation=2 mem.write=1: lie; "
      "rank=1 generation=2 mem.fsync=3: kill; rank=0 generation=3 mem.write=2: flip",
      "memory", {"--set", "checkpoint.every=0", "checkpoint.memory_every=4"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(happened("memory"), SizeIs(4)) << result.err;
  expect_the_bits_of("whole", "memory");
  EXPECT_THAT(result.out, HasSubstr(" from memory, "));
  std::set<std::string> not_written;
  for (const Json& event : events("memory"))
    if (event["class"] == "snapshot not written") {
      const std::string cause = event["cause"];
      EXPECT_THAT(cause, AllOf(HasSubstr("/dev/shm/trireme-memory-"),
                               HasSubstr("other bytes than were written")));
      for (const char* rank : {"rank 0", "rank 1"})
        if (cause.find(rank) != cause.npos) not_written.insert(rank);
    }
  // Rank 1's lie; and what a bit turned of rank 0's, which nothing follows.
  EXPECT_THAT(not_written, SizeIs(2));
}

TEST_F(FaultPoints, DeathsThatLookFineAreFailures) {
  const Result result = launch(
      "rank=1 step=5: exit=0; rank=0 step=9: throw; rank=1 step=13: abort; "
      "rank=1 step=17 what=all_gather: throw; rank=0 step=21 fs.write=1: torn=100; "
      "rank=0 step=25: delay=50ms",
      "fine");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_the_bits_of("whole", "fine");
  EXPECT_THAT(happened("fine"), SizeIs(6));
  const std::vector<Json> all = events("fine");
  ASSERT_GE(all.size(), 5u);
  EXPECT_EQ(all[0]["rank"], 1) << "that ended with 0";
  EXPECT_THAT(all[0]["cause"].get<std::string>(), AllOf(HasSubstr("rank 1"), HasSubstr("0")));
}

#endif

}  // namespace
}  // namespace trireme::app::faults_test
