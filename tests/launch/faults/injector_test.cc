#include "trireme/launch/faults/injector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "tests/harness/memory_files.h"
#include "trireme/base/os/durable.h"
#include "trireme/launch/watch/recorder.h"

namespace trireme::faults::injector_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A rank whose faults are written down in place of being done.
class Rank {
 public:
  Rank(const Path& notes, const std::string& faults, int rank = 1, std::uint64_t generation = 1)
      : injector_({.faults = parse(faults),
                   .rank = rank,
                   .generation = generation,
                   .notes = notes,
                   .act = [this](const Fault& fault) { done_.push_back(print(fault)); }}) {
    recorder_.show(&injector_);
  }

  Injector& injector() { return injector_; }
  std::vector<std::string> done() { return std::exchange(done_, {}); }

  // One line with one operation of three chunks inside, then a checkpoint.
  void step(std::int64_t number) {
    if (track_ < 0) track_ = recorder_.make_track("dp", {0, 1});
    recorder_.enter(watch::Phase::kTraining, number);
    recorder_.begin_line("forward", 0, 7, 0);
    recorder_.begin(track_, {.what = "all_reduce", .sequence = operations_++});
    for (int chunk = 0; chunk < 3; ++chunk) recorder_.chunk(track_);
    recorder_.end(track_);
    recorder_.end_line();
    recorder_.enter(watch::Phase::kCheckpoint, number);
  }

 private:
  std::vector<std::string> done_;
  Injector injector_;
  watch::Recorder recorder_;
  int track_ = -1;
  std::uint64_t operations_ = 0;
};

class Injected : public ::testing::Test {
 protected:
  Path notes() const { return scratch_ / "notes"; }
  formats::Scratch scratch_;
};

TEST_F(Injected, HappensAtTheFirstMomentAtWhichAllHolds) {
  for (const char* fault :
       {"step=2: kill", "rank=1 step=2 line=7: stop", "phase=checkpoint step=2: term",
        "step=2 what=forward: abort", "what=all_reduce op=1: throw", "group=dp op=1: exit=0",
        "op-end=1: delay=1ms", "op=1 chunk=2: kill", "step=2 chunk=0: stop"}) {
    Rank rank(notes(), fault);
    rank.step(1);
    EXPECT_THAT(rank.done(), IsEmpty()) << fault;
    rank.step(2);
    EXPECT_THAT(rank.done(), ElementsAre(fault));
    rank.step(2);
    EXPECT_THAT(rank.done(), IsEmpty()) << "once";
  }
}

TEST_F(Injected, NotWhereSomethingElseIs) {
  for (const char* fault : {"rank=0 step=1: kill", "generation=2 step=1: kill", "step=3: kill",
                            "step=1 line=6: kill", "what=backward: kill", "group=tp op=0: kill",
                            "what=forward op=0: kill", "phase=evaluation: kill", "start=mesh: kill",
                            "fs=1: kill", "op=0 chunk=3: kill", "group=tp chunk=0: kill"}) {
    Rank rank(notes(), fault);
    rank.step(1);
    EXPECT_THAT(rank.done(), IsEmpty()) << fault;
  }
}

TEST_F(Injected, OnceInTheLifeOfARun) {
  const std::string once = "step=1: kill", again = "generation=each step=1: stop";
  const auto done = [&](int rank, std::uint64_t generation) {
    Rank one(notes(), once + "; " + again, rank, generation);
    one.step(1);
    return one.done();
  };
  EXPECT_THAT(done(1, 1), ElementsAre(once, again));
  EXPECT_THAT(done(0, 1), ElementsAre(once, again)) << "of each rank";
  EXPECT_THAT(done(1, 2), ElementsAre(again));
}

TEST_F(Injected, WhatCannotBeNotedDoesNotHappen) {
  Rank rank(scratch_ / "none/notes", "step=1: kill");
  rank.step(1);
  EXPECT_THAT(rank.done(), IsEmpty());
}

TEST_F(Injected, AtAStageOfTheStart) {
  Rank rank(notes(), "start=links: kill");
  rank.injector().start("ranks");
  EXPECT_THAT(rank.done(), IsEmpty());
  rank.injector().start("links");
  EXPECT_THAT(rank.done(), ElementsAre("start=links: kill"));
}

TEST_F(Injected, AtTheNthDiskCallOfItsKind) {
  harness::MemoryFiles disk;
  Rank rank(notes(), "step=2 fs=3: delay=1ms; fs.fsync=2: error=EIO; fs.write=3: short=1");
  os::FileSystem& files = rank.injector().files(disk);
  os::make_directory(disk, "d");
  rank.step(1);
  os::write_new_file(files, "d/a", "one");
  EXPECT_THAT(rank.done(), IsEmpty());
  rank.step(2);
  EXPECT_THROW(os::write_new_file(files, "d/b", "two"), Error) << "its fsync is the second";
  EXPECT_THAT(rank.done(), ElementsAre("step=2 fs=3: delay=1ms"));
  os::write_new_file(files, "d/c", "three");
  EXPECT_EQ(disk.read("d/c")->bytes().size(), 5u) << "in two writes";
}

// Snapshots in memory have calls of their own, which are counted apart.
TEST_F(Injected, AtACallOfSnapshotsInMemory) {
  harness::MemoryFiles disk;
  Rank rank(notes(), "mem.write=1: flip; fs.write=2: lie");
  os::FileSystem &files = rank.injector().files(disk), &memory = rank.injector().memory_files(disk);
  os::make_directory(disk, "d");
  os::write_new_file(files, "d/a", "one");
  try {
    os::write_new_file(memory, "d/b", "two");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("d/b")) << "read back";
  }
  os::write_new_file(memory, "d/c", "three");
  EXPECT_THROW(os::write_new_file(files, "d/d", "four"), Error);
}

TEST_F(Injected, AWriteThatLiesOrTears) {
  harness::MemoryFiles disk;
  Rank rank(notes(), "fs.write=1: lie; fs.write=2: torn=2");
  os::FileSystem& files = rank.injector().files(disk);
  os::make_directory(disk, "d");
  EXPECT_THROW(os::write_new_file(files, "d/a", "lost"), Error) << "read back";
  const int file = files.create("d/b");
  const std::string_view text = "torn";
  EXPECT_EQ(files.pwrite(file, std::as_bytes(std::span(text.data(), text.size())), 0), 2);
  EXPECT_THAT(rank.done(), ElementsAre("fs.write=2: torn=2"));
}

}  // namespace
}  // namespace trireme::faults::injector_test
