// Snapshots in memory: what is killed goes on from them with the bits of a run that never stopped, whichever hosts are
// left; what is damaged or lost is refused, and the checkpoint on disk is taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "tests/harness/failing_files.h"
#include "tests/harness/watched_runs.h"
#include "trireme/base/error.h"

namespace trireme::train::snapshots_test {
namespace {

using harness::FailingFiles;
using harness::Sets;
using harness::operator+;
using harness::Watch;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using Steps = std::set<std::int64_t>;

constexpr std::int64_t kSteps = 60, kOnDisk = 2, kEvery = 9;

class Snapshots : public harness::WatchedRuns {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + " of a text\n";
    prepare("data", text);
  }

  struct Start {
    std::string hosts = "a";  // of each rank, a letter
    Sets sets{};
    Path resume{};
    os::FileSystem* files = &os::real_file_system();
  };
  static Sets plain() {
    return {"run.steps=" + std::to_string(kSteps), "checkpoint.every=0", "checkpoint.async=false",
            "parallel.zero=3"};
  }
  Path memory(char host) const { return scratch_ / (std::string("memory-") + host); }

  Ending run(const std::string& out, const Start& start, Watch& watch) {
    for (const char host : start.hosts) std::filesystem::create_directories(memory(host));
    return WatchedRuns::run(
        {.out = out,
         .sets = plain() + Sets{fmt::format("checkpoint.memory_every={}", kEvery)} + start.sets,
         .ranks = static_cast<int>(start.hosts.size()),
         .resume = start.resume,
         .memory = [&](int rank) { return memory(start.hosts[rank]); },
         .memory_files = start.files},
        watch);
  }
  // A checkpoint on disk, then a kill when two snapshots are there and none is under way.
  void run_and_kill(Start start) {
    std::filesystem::remove_all(scratch_ / "run");
    lose("abcd");
    Watch first, killed;
    run("run",
        Start{.hosts = start.hosts,
              .sets = start.sets + Sets{"run.steps=" + std::to_string(kOnDisk),
                                        "optim.decay_steps=" + std::to_string(kSteps)}},
        first);
    lose("abcd");
    killed.at_step = [&](std::int64_t step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
      const std::int64_t last = step / kEvery * kEvery;
      if (step == last) return;  // one begins
      for (const char host : start.hosts)
        if (in_memory(host) != Steps{last - kEvery, last}) return;
      throw std::runtime_error("killed");
    };
    start.resume = checkpoint("run", kOnDisk);
    EXPECT_ANY_THROW(run("run", start, killed));
  }
  Watch go_on(Start start) {
    start.resume = checkpoint("run", kOnDisk);
    Watch watch;
    EXPECT_EQ(run("run", start, watch), Ending::kDone);
    return watch;
  }
  Watch undisturbed() {
    Watch watch;
    EXPECT_EQ(WatchedRuns::run({.out = "whole", .sets = plain(), .ranks = 4}, watch),
              Ending::kDone);
    return watch;
  }
  // Every step of the run, whoever made it, has the bits of the undisturbed one.
  void expect_same_bits(const Watch& again, const Watch& whole) {
    for (const auto& [step, loss] : again.losses) EXPECT_EQ(loss, whole.losses.at(step)) << step;
    EXPECT_EQ(again.losses.rbegin()->first, kSteps);
  }
  void lose(const std::string& hosts) {
    for (const char host : hosts) std::filesystem::remove_all(memory(host));
  }
  Steps in_memory(char host) const {
    Steps steps;
    for (const auto& entry : std::filesystem::directory_iterator(memory(host)))
      if (const auto step = formats::step_of(entry.path().filename().string())) steps.insert(*step);
    return steps;
  }
  Steps files_in(char host, std::int64_t step) const {
    Steps ranks;
    for (int rank = 0; rank < 8; ++rank)
      if (std::filesystem::exists(memory(host) / fmt::format("step-{}", step) /
                                  fmt::format("rank-{:05}.safetensors", rank)))
        ranks.insert(rank);
    return ranks;
  }
  void damage(char host, std::int64_t step, int rank) const {
    const Path file =
        memory(host) / fmt::format("step-{}", step) / fmt::format("rank-{:05}.safetensors", rank);
    std::string bytes = read_file(file);
    bytes[bytes.size() - 5] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }
};

TEST_F(Snapshots, WhatIsKilledGoesOnFromTheNewest) {
  const Watch whole = undisturbed();
  for (const char* hosts : {"a", "aa", "aabb", "abcd", "abab"}) {
    SCOPED_TRACE(hosts);
    run_and_kill({.hosts = hosts});
    const Steps kept = in_memory('a');
    const Watch again = go_on({.hosts = hosts});
    EXPECT_EQ(again.start.first_step, *kept.rbegin());
    EXPECT_EQ(again.start.resumed,
              fmt::format("step {} from memory, {} steps after the newest checkpoint",
                          again.start.first_step, again.start.first_step - kOnDisk));
    EXPECT_THAT(again.faults, IsEmpty());
    expect_same_bits(again, whole);
    EXPECT_LE(in_memory('a').size(), 2u);
  }
}

// Each host has what its ranks wrote and what those of the one before it did; which is that, the key says.
TEST_F(Snapshots, AHostHasItsPredecessorsPart) {
  run_and_kill({.hosts = "abcd"});
  EXPECT_EQ(files_in('a', *in_memory('a').rbegin()), (Steps{0, 3}));
  EXPECT_EQ(files_in('b', *in_memory('b').rbegin()), (Steps{0, 1}));
  run_and_kill({.hosts = "aabb"});
  EXPECT_EQ(files_in('a', *in_memory('a').rbegin()), (Steps{0, 1, 2, 3})) << "the next, not itself";
  run_and_kill({.hosts = "aaaa"});
  EXPECT_EQ(files_in('a', *in_memory('a').rbegin()), (Steps{0, 1, 2, 3}));
}

// A host that is lost, one that comes back empty, two that do not lie side by side.
TEST_F(Snapshots, WhatLostHostsHadIsOnOthers) {
  const Watch whole = undisturbed();
  struct Loss {
    std::string before, lost, after;
  };
  for (const Loss& loss :
       {Loss{"aabb", "b", "aa"}, Loss{"aabb", "a", "bb"}, Loss{"aabb", "b", "aabb"},
        Loss{"abcd", "c", "dbac"}, Loss{"abcd", "bd", "ac"}, Loss{"aa", "", "aaaa"},
        Loss{"aa", "", "aabb"}}) {
    SCOPED_TRACE(loss.before + " without " + loss.lost + " is " + loss.after);
    run_and_kill({.hosts = loss.before});
    lose(loss.lost);
    const Watch again = go_on({.hosts = loss.after});
    EXPECT_GT(again.start.first_step, kOnDisk);
    EXPECT_THAT(again.faults, IsEmpty());
    expect_same_bits(again, whole);
  }
}

// Negative control: what two neighbours had is nowhere else.
TEST_F(Snapshots, WithoutTheReplicaTheDiskIsTaken) {
  const Watch whole = undisturbed();
  run_and_kill({.hosts = "abcd"});
  lose("bc");
  const Watch again = go_on({.hosts = "abcd"});
  EXPECT_EQ(again.start.first_step, kOnDisk);
  EXPECT_EQ(again.start.resumed, "");
  ASSERT_GE(again.faults.size(), 1u);
  EXPECT_EQ(again.faults[0].kind, "snapshot refused");
  EXPECT_THAT(again.faults[0].cause,
              HasSubstr("rank-00001.safetensors is on no host that is here"));
  EXPECT_EQ(again.faults[0].action, "continue from step 2 on disk");
  expect_same_bits(again, whole);
}

TEST_F(Snapshots, DamageIsRefusedByNameAndTheReplicaTaken) {
  const Watch whole = undisturbed();
  for (const char* hosts : {"aabb", "aaaa"}) {
    SCOPED_TRACE(hosts);
    run_and_kill({.hosts = hosts});
    for (const std::int64_t step : in_memory('a')) damage('a', step, 1);
    const Watch again = go_on({.hosts = hosts});
    expect_same_bits(again, whole);
    if (hosts == std::string("aabb")) {
      EXPECT_GT(again.start.first_step, kOnDisk) << "host b has it too";
      EXPECT_THAT(again.faults, IsEmpty());
      continue;
    }
    EXPECT_EQ(again.start.first_step, kOnDisk);
    ASSERT_GE(again.faults.size(), 1u);
    EXPECT_THAT(again.faults[0].cause, AllOf(HasSubstr("rank-00001.safetensors: bytes 0 to "),
                                             HasSubstr("are not those that were written")));
  }
}

// The one before it is as good where it is newer than what is on disk.
TEST_F(Snapshots, AnOlderOneIsTakenWhereTheNewestIsDamaged) {
  run_and_kill({.hosts = "aa"});
  const Steps kept = in_memory('a');
  ASSERT_EQ(kept.size(), 2u);
  damage('a', *kept.rbegin(), 0);
  const Watch again = go_on({.hosts = "aa"});
  EXPECT_EQ(again.start.first_step, *kept.begin());
  ASSERT_EQ(again.faults.size(), 1u);
  EXPECT_EQ(again.faults[0].action, fmt::format("continue from step {} in memory", *kept.begin()));
}

// A host that cannot take what it lacks says so before anybody sends.
TEST_F(Snapshots, AHostWithoutRoomForWhatItLacksHoldsUpNobody) {
  run_and_kill({.hosts = "aabb"});
  const Steps kept = in_memory('a');
  lose("b");
  FailingFiles files(os::real_file_system());
  files.fail(0, harness::FileFault::kError, ENOSPC);
  const Watch again = go_on({.hosts = "aabb", .files = &files});
  EXPECT_EQ(again.start.first_step, *kept.begin()) << "the next had room again";
  ASSERT_EQ(again.faults.size(), 1u);
  EXPECT_THAT(again.faults[0].cause, HasSubstr("No space left on device"));
}

// Nor does memory that somebody has taken away end a run, and what is no snapshot stays.
TEST_F(Snapshots, OthersFilesStayAndMemoryThatIsGoneIsEmpty) {
  run_and_kill({.hosts = "aa"});
  std::filesystem::create_directories(memory('a') / "thesis");
  std::ofstream(memory('a') / "notes.txt") << "not a snapshot";
  go_on({.hosts = "aa"});
  EXPECT_TRUE(std::filesystem::exists(memory('a') / "thesis"));
  EXPECT_TRUE(std::filesystem::exists(memory('a') / "notes.txt"));
  lose("a");
  Watch watch;
  EXPECT_EQ(
      WatchedRuns::run({.out = "run",
                        .sets = plain() + Sets{fmt::format("checkpoint.memory_every={}", kEvery),
                                               "run.steps=" + std::to_string(kSteps + 10)},
                        .ranks = 2,
                        .resume = checkpoint("run", kOnDisk),
                        .memory = [&](int) { return memory('a'); }},
                       watch),
      Ending::kDone);
  EXPECT_EQ(watch.start.first_step, kOnDisk);
}

// What was newer than what ranks agreed on is of no run any more, nor is what the disk has overtaken.
TEST_F(Snapshots, WhatIsNotThePastOfTheRunIsTakenAway) {
  run_and_kill({.hosts = "aabb"});
  const Steps kept = in_memory('a');
  lose("b");
  std::filesystem::create_directories(memory('b'));
  const std::int64_t newest = *kept.rbegin();
  std::filesystem::remove(memory('a') / fmt::format("step-{}", newest) / "rank-00003.safetensors");
  Watch again;
  again.at_step = [&](std::int64_t step) {
    if (step != again.start.first_step + 1) return;
    for (const char host : {'a', 'b'}) EXPECT_EQ(in_memory(host), (Steps{again.start.first_step}));
    throw std::runtime_error("killed");
  };
  const Start start{.hosts = "aabb", .resume = checkpoint("run", kOnDisk)};
  EXPECT_ANY_THROW(run("run", start, again));
  EXPECT_EQ(again.start.first_step, *kept.begin());
}

TEST_F(Snapshots, WithoutRoomTheRunGoesOnAndToldOnce) {
  class Full : public FailingFiles {
   public:
    using FailingFiles::FailingFiles;
    ssize_t pwrite(int, std::span<const std::byte>, std::int64_t) override { return -ENOSPC; }
  };
  const Watch whole = undisturbed();
  for (const char* hosts : {"aa", "aabb"}) {
    Full full(os::real_file_system());
    Watch watch;
    watch.at_step = [](std::int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
    };
    const std::string out = std::string("full-") + hosts;
    EXPECT_EQ(run(out, {.hosts = hosts, .files = &full}, watch), Ending::kDone);
    EXPECT_EQ(watch.losses, whole.losses);
    EXPECT_GT(watch.end.snapshots.failed, 1);
    EXPECT_EQ(watch.end.snapshots.taken, 0);
    ASSERT_EQ(watch.faults.size(), 1u);
    EXPECT_EQ(watch.faults[0].kind, "snapshot not written");
    EXPECT_THAT(watch.faults[0].cause, HasSubstr("No space left on device"));
    EXPECT_EQ(watch.end.checkpoints_failed, 0);
    EXPECT_THAT(in_memory('a'), IsEmpty());
  }
}

// Of each host the first deletes there; what one of them could not do reaches who tells it.
TEST_F(Snapshots, WhatAHostCannotDeleteIsToldOnce) {
  class Clings : public FailingFiles {
   public:
    using FailingFiles::FailingFiles;
    int rename(const Path& from, const Path& to) override {
      const bool there = from.string().find("memory-b/step-") != std::string::npos;
      const bool old = there && from.extension().empty();
      return old ? -EPERM : FailingFiles::rename(from, to);
    }
  };
  const Watch whole = undisturbed();
  Clings files(os::real_file_system());
  Watch watch;
  watch.at_step = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(15)); };
  EXPECT_EQ(run("clings", {.hosts = "ab", .files = &files}, watch), Ending::kDone);
  EXPECT_EQ(watch.losses, whole.losses);
  EXPECT_GT(watch.end.snapshots.taken, 3);
  EXPECT_EQ(watch.end.snapshots.failed, 0);
  ASSERT_EQ(watch.faults.size(), 1u);
  EXPECT_EQ(watch.faults[0].kind, "old snapshots not deleted");
  EXPECT_THAT(watch.faults[0].cause, AllOf(HasSubstr("rank 1: "), HasSubstr("memory-b/step-9")));
  EXPECT_GT(in_memory('b').size(), 2u);
  EXPECT_LE(in_memory('a').size(), 2u);
}

// A replica that has no room fails the snapshot, and holds up neither the one who sends nor training.
TEST_F(Snapshots, AReplicaWithoutRoomFailsTheSnapshot) {
  // Each rank's own file is the only one it writes before it writes another's.
  class NoReplicas : public FailingFiles {
   public:
    using FailingFiles::FailingFiles;
    int create(const Path& path) override {
      if (path.filename() != "rank-00000.safetensors") return FailingFiles::create(path);
      return zeros_++ % 2 == 0 ? FailingFiles::create(path) : -ENOSPC;
    }

   private:
    std::atomic<int> zeros_ = 0;
  };
  NoReplicas files(os::real_file_system());
  Watch watch;
  watch.at_step = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  EXPECT_EQ(run("run", {.hosts = "ab", .files = &files}, watch), Ending::kDone);
  EXPECT_EQ(watch.end.snapshots.taken, 0);
  ASSERT_EQ(watch.faults.size(), 1u);
  EXPECT_THAT(watch.faults[0].cause,
              AllOf(HasSubstr("rank 1: "), HasSubstr("rank-00000.safetensors: cannot create")));
}

// Whoever starts ranks leaves it to them to look at what they need.
TEST_F(Snapshots, WhereTheDiskIsDamagedTooAnOlderCheckpointIsTaken) {
  run_and_kill({.hosts = "aa"});
  std::filesystem::create_directories(checkpoint("older", kOnDisk).parent_path());
  std::filesystem::copy(checkpoint("run", kOnDisk), checkpoint("older", kOnDisk),
                        std::filesystem::copy_options::recursive);
  lose("a");
  Watch further;
  run("older", {.hosts = "aa", .sets = {"checkpoint.every=4"}, .resume = checkpoint("older", 2)},
      further);
  for (const std::int64_t step : {8, 12, 14})
    std::filesystem::remove_all(checkpoint("older", step));
  const Path file = checkpoint("older", 4) / "rank-00000.safetensors";
  const std::string whole = read_file(file);
  std::ofstream(file, std::ios::binary) << whole.substr(0, whole.size() - 1) << '\x7e';
  lose("a");
  Watch again;
  EXPECT_EQ(run("older", {.hosts = "aa", .resume = checkpoint("older", 4)}, again), Ending::kDone);
  EXPECT_EQ(again.start.first_step, kOnDisk);
  ASSERT_EQ(again.faults.size(), 1u);
  EXPECT_EQ(again.faults[0].kind, "checkpoint refused");
  EXPECT_THAT(again.faults[0].cause, HasSubstr("rank-00000.safetensors"));
  EXPECT_EQ(again.losses.at(kSteps), further.losses.at(kSteps));
}

TEST_F(Snapshots, NeedMemoryThatOutlivesTheRanks) {
  Watch watch;
  try {
    WatchedRuns::run({.out = "run", .sets = plain() + Sets{"checkpoint.memory_every=1"}}, watch);
    ADD_FAILURE() << "ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("start all ranks by trireme launch"));
  }
}

}  // namespace
}  // namespace trireme::train::snapshots_test
