#include "trireme/launch/watch/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "trireme/base/clock.h"
#include "trireme/launch/watch/state.h"

namespace trireme::watch::recorder_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// A rank in the midst of a step.
void fly(Recorder& recorder) {
  recorder.identify(1, 4);
  recorder.describe({"load mb=0", "forward block2 mb=0 keep"});
  recorder.enter(Phase::kTraining, 41);
  const int dp = recorder.make_track("dp", {1, 3});
  const int up = recorder.make_track("0>1", {0, 1});
  recorder.begin(dp, {.what = "all_reduce", .sequence = 0, .bytes = 64});
  recorder.end(dp);
  recorder.begin_line("load", 0, 0, 0);
  recorder.end_line();
  recorder.begin_line("forward", 0, 1, 0);
  recorder.begin(up, {.what = "recv", .sequence = 7, .bytes = 4096, .peer = 0});
}

TEST(Recorder, TellsWhatARankIsAt) {
  Recorder recorder;
  fly(recorder);
  const State state = read_state(recorder.area());
  EXPECT_EQ(state.rank, 1);
  EXPECT_EQ(state.step, 41);
  EXPECT_EQ(doing(state), "line 1 `forward block2 mb=0 keep` of step 41, micro-batch 0");
  EXPECT_FALSE(state.waiting);
  ASSERT_THAT(state.operations, SizeIs(1));
  EXPECT_EQ(describe(state.operations[0]), "recv #7 of '0>1' from rank 0 (4096 bytes)");
  EXPECT_THAT(state.operations[0].members, ElementsAre(0, 1));
  ASSERT_THAT(state.reached, SizeIs(2));
  EXPECT_EQ(state.reached[0].begun, 1u);
  EXPECT_EQ(state.reached[1].begun, 0u) << "messages of a pair are no operation of all members";
}

TEST(Recorder, TellsHowFarAnOperationHasComeAndForWhomItWaits) {
  Recorder recorder;
  const int dp = recorder.make_track("dp", {0, 1, 3});
  const auto seen = [&] { return read_state(recorder.area()); };
  const Waiting waiting(&recorder);
  EXPECT_TRUE(waits(seen()));
  for (int round = 0; round < 2; ++round) {
    recorder.begin(dp, {.what = "all_reduce"});
    EXPECT_EQ(seen().operations[0].chunks, 0u);
    ASSERT_NE(stuck_in(seen()), nullptr);
    EXPECT_EQ(stuck_in(seen())->track, "dp");
    EXPECT_FALSE(waits(seen())) << "nobody keeps this thread from going on";
    recorder.await(dp, 3);
    EXPECT_EQ(seen().operations[0].awaited, 3);
    EXPECT_TRUE(waits(seen()));
    const std::uint64_t moves = seen().moves;
    recorder.chunk(dp);
    EXPECT_GT(seen().moves, moves);
    EXPECT_EQ(seen().operations[0].chunks, 1u);
    EXPECT_FALSE(waits(seen()));
    recorder.end(dp);
  }
  // Whoever never tells for whom it waits is believed.
  recorder.begin(dp, {.what = "all_reduce", .awaited = kUnknownRank});
  EXPECT_TRUE(waits(seen()));
}

// Two ranks know a group by its name: of long ones the end counts as well.
TEST(Recorder, LongNamesThatBeginAlikeStayApart) {
  const std::string begin = "announcements, stages of the encoder ";
  Recorder first, second;
  first.make_track(begin + "0>1", {0, 1});
  first.make_track(begin + "0>2", {0, 1});
  second.make_track(begin + "0>2", {0, 1});
  const State one = read_state(first.area()), other = read_state(second.area());
  ASSERT_THAT(one.reached, SizeIs(2));
  EXPECT_NE(one.reached[0].track, one.reached[1].track);
  EXPECT_EQ(one.reached[1].track, other.reached[0].track);
  EXPECT_THAT(one.reached[0].track, HasSubstr("announcements, stages"));
}

TEST(Recorder, EverythingMoves) {
  Recorder recorder;
  recorder.identify(0, 2);
  const int dp = recorder.make_track("dp", {0, 1});
  std::uint64_t before = read_state(recorder.area()).moves;
  const auto moved = [&] {
    const std::uint64_t last = std::exchange(before, read_state(recorder.area()).moves);
    return last != before;
  };
  recorder.enter(Phase::kTraining, 1);
  EXPECT_TRUE(moved());
  recorder.begin_line("load", 0, 0, 0);
  EXPECT_TRUE(moved());
  recorder.begin(dp, {.what = "barrier"});
  EXPECT_TRUE(moved());
  {
    const Waiting waiting(&recorder);
    EXPECT_TRUE(read_state(recorder.area()).waiting);
    EXPECT_FALSE(moved()) << "to wait is to do nothing";
  }
  recorder.end(dp);
  EXPECT_TRUE(moved());
  recorder.end_line();
  EXPECT_TRUE(moved());
  EXPECT_FALSE(moved());
}

TEST(Recorder, TheNewestRecordsStay) {
  Recorder recorder;
  recorder.describe({"load mb=0"});
  recorder.enter(Phase::kTraining, 1);
  for (int i = 0; i < 3 * static_cast<int>(kRecords); ++i) {
    recorder.begin_line("load", 0, 0, i);
    recorder.end_line();
  }
  const int dp = recorder.make_track("dp", {0, 1});
  recorder.begin(dp, {.what = "all_reduce", .sequence = 3, .bytes = 8});
  const auto lines = last_records(recorder.area(), 2, now_ns());
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("line 0 load mb=0"), HasSubstr(" ms ")),
                                 AllOf(HasSubstr("under way"),
                                       HasSubstr("all_reduce #3 of 'dp' (8 bytes)"))));
  EXPECT_THAT(last_records(recorder.area(), 1 << 20, now_ns()), SizeIs(kRecords));
}

// What a stopped or killed process has left is read by another.
TEST(Recorder, SurvivesItsProcess) {
  const os::Descriptor memory = shared_area();
  const auto area = map_area(memory.get());
  const pid_t child = ::fork();
  if (child == 0) {
    Recorder recorder(memory.get());
    fly(recorder);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(doing(read_state(*area)),
            "line 1 `forward block2 mb=0 keep` of step 41, micro-batch 0");
  EXPECT_EQ(area->process, child);
}

TEST(Recorder, WhatDoesNotFitIsLeftOut) {
  Recorder recorder;
  recorder.describe(std::vector<std::string>(3, std::string(kWords / 2, 'x')));
  recorder.enter(Phase::kTraining, 1);
  recorder.begin_line("load", 0, 2, 0);
  EXPECT_THAT(read_state(recorder.area()).line_text, IsEmpty());
  for (std::size_t i = 0; i < kTracks + 3; ++i) {
    const int track = recorder.make_track("t", {0, 1});
    recorder.begin(track, {.what = "barrier"});
    recorder.end(track);
    EXPECT_EQ(track < 0, i >= kTracks) << i;
  }
}

TEST(Recorder, ReadsNoWildMemory) {
  const os::Descriptor memory = shared_area();
  const auto area = map_area(memory.get());
  std::string garbage(sizeof(Area), '\xff');
  ASSERT_EQ(::pwrite(memory.get(), garbage.data(), garbage.size(), 0),
            static_cast<ssize_t>(garbage.size()));
  const State state = read_state(*area);
  EXPECT_THAT(state.operations, IsEmpty());
  EXPECT_THAT(state.line_text, IsEmpty());
  last_records(*area, kRecords, 0);
}

TEST(Recorder, ManyThreadsWriteAtOnce) {
  Recorder recorder;
  std::vector<int> tracks;
  for (int i = 0; i < 4; ++i) tracks.push_back(recorder.make_track("dp", {0, 1}));
  constexpr int kEach = 10000;
  std::vector<std::jthread> threads;
  for (const int track : tracks)
    threads.emplace_back([&recorder, track] {
      for (int i = 0; i < kEach; ++i) {
        recorder.begin(track, {.what = "barrier", .sequence = static_cast<std::uint64_t>(i)});
        recorder.end(track);
      }
    });
  threads.clear();
  EXPECT_EQ(recorder.area().recorded.load(), 4u * kEach);
  for (const Reached& reached : read_state(recorder.area()).reached)
    EXPECT_EQ(reached.begun, static_cast<std::uint64_t>(kEach));
}

}  // namespace
}  // namespace trireme::watch::recorder_test
