#include "trireme/launch/watch/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/launch/watch/silence.h"

namespace trireme::watch::verdict_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<int> kAll = {0, 1, 2};

State computing(int rank) {
  return {.rank = rank,
          .phase = Phase::kTraining,
          .step = 7,
          .line = 3,
          .micro_batch = 0,
          .line_text = "forward head mb=0"};
}

// Waits in the sequence-th operation of a group.
State waiting(int rank, const std::string& track, const std::vector<int>& members,
              std::uint64_t sequence) {
  State state = computing(rank);
  state.waiting = true;
  state.operations = {
      {.track = track, .members = members, .what = "all_reduce", .sequence = sequence}};
  state.reached = {{.track = track, .members = members, .begun = sequence + 1}};
  return state;
}

State receiving(int rank, int from) {
  State state = computing(rank);
  state.waiting = true;
  state.operations = {{.track = "p2p", .members = {rank, from}, .what = "recv", .peer = from}};
  return state;
}

std::map<int, Silent> silent(std::vector<State> states) {
  std::map<int, Silent> all;
  for (State& state : states) {
    const int rank = state.rank;
    all[rank] = {std::move(state), 6};
  }
  return all;
}

TEST(Verdict, TheOneWhoDoesNotWaitIsNamed) {
  const auto hang =
      judge(silent({waiting(0, "dp", kAll, 4), computing(1), waiting(2, "dp", kAll, 4)}), 3);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->ranks, ElementsAre(1));
  EXPECT_FALSE(hang->final) << "it may be slow only";
  EXPECT_EQ(hang->step, 7);
  EXPECT_EQ(hang->op, "line 3 `forward head mb=0` of step 7, micro-batch 0");
  EXPECT_EQ(hang->cause,
            "rank 1 has been at line 3 `forward head mb=0` of step 7, micro-batch 0 for 6.0 s");
}

TEST(Verdict, AStoppedProcessIsNamedWhateverItWasAt) {
  State stopped = waiting(2, "dp", kAll, 4);
  stopped.process = 'T';
  const auto hang =
      judge(silent({waiting(0, "dp", kAll, 4), waiting(1, "dp", kAll, 4), stopped}), 3);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->ranks, ElementsAre(2));
  EXPECT_TRUE(hang->final);
  EXPECT_THAT(hang->cause, HasSubstr("its process is stopped"));
}

TEST(Verdict, WhoWaitsForSomebodyWhoGoesOnIsNotAccused) {
  EXPECT_FALSE(judge(silent({waiting(0, "dp", kAll, 4), waiting(1, "dp", kAll, 4)}), 3));
  EXPECT_FALSE(judge({}, 3));
}

TEST(Verdict, WhomADebuggerHoldsIsNotAccused) {
  State held = computing(1);
  held.process = 't';
  EXPECT_FALSE(judge(silent({waiting(0, "dp", kAll, 4), held, waiting(2, "dp", kAll, 4)}), 3));
}

TEST(Verdict, GroupsEnteredInOtherOrders) {
  const auto hang = judge(silent({waiting(0, "a", {0, 1}, 4), waiting(1, "b", {0, 1}, 2)}), 2);
  ASSERT_TRUE(hang);
  EXPECT_TRUE(hang->deadlock);
  EXPECT_TRUE(hang->final);
  EXPECT_THAT(hang->ranks, ElementsAre(0, 1));
  EXPECT_THAT(hang->cause, HasSubstr("deadlock: rank 0 waits in all_reduce #4 of 'a'"));
  EXPECT_THAT(hang->cause, HasSubstr("rank 1 waits in all_reduce #2 of 'b'"));
}

TEST(Verdict, ACircleOfThree) {
  const auto hang = judge(silent({receiving(0, 1), receiving(1, 2), receiving(2, 0)}), 3);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(hang->cause, HasSubstr("rank 2 waits in recv #0 of 'p2p' from rank 0"));
}

// Two wait in the fifth operation for the one that has not begun it and waits elsewhere for one of them.
TEST(Verdict, OnlyTheOneWhoIsMissingIsWaitedFor) {
  State apart = waiting(2, "tp", {1, 2}, 0);
  apart.reached.push_back({"dp", kAll, 4});
  State first = waiting(0, "dp", kAll, 4), second = waiting(1, "dp", kAll, 4);
  const auto hang = judge(silent({first, second, apart}), 3);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->ranks, ElementsAre(2, 1)) << "rank 0 stands outside of the circle";
  const auto lines = describe(silent({first, second, apart}), 4);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("for rank 2, not in it yet"));
  EXPECT_EQ(lines[3], "rank 3: continues");
}

// Inside one operation those wait who say for whom; who says that it waits for nobody keeps them waiting.
TEST(Verdict, TheOneWhoIsStuckInsideAnOperationIsNamed) {
  std::vector<State> states;
  for (const int rank : kAll) states.push_back(waiting(rank, "dp", kAll, 4));
  states[0].operations[0].awaited = 2;
  states[1].operations[0].awaited = kNoRank;
  states[1].operations[0].chunks = 3;
  states[2].operations[0].awaited = 1;
  const auto hang = judge(silent(states), 3);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->ranks, ElementsAre(1));
  EXPECT_FALSE(hang->final) << "it is a suspicion";
  EXPECT_EQ(hang->op, "all_reduce #4 of 'dp' (0 bytes)");
  EXPECT_THAT(hang->cause, HasSubstr("inside all_reduce #4 of 'dp' (0 bytes), waiting for no rank "
                                     "after 3 chunks of data"));
  EXPECT_THAT(describe(silent(states), 3)[0], HasSubstr("waits in all_reduce #4"));
  // Data that is lost between two makes nobody guilty.
  states[1].operations[0].awaited = 0;
  EXPECT_FALSE(judge(silent(states), 3));
}

// Data of a large operation is on its way.
TEST(Verdict, AllInOneOperationAreNoDeadlock) {
  EXPECT_FALSE(judge(
      silent({waiting(0, "dp", kAll, 4), waiting(1, "dp", kAll, 4), waiting(2, "dp", kAll, 4)}),
      3));
  State sending = receiving(1, 0);
  sending.operations[0].what = "send";
  EXPECT_FALSE(judge(silent({receiving(0, 1), sending}), 2));
}

class SilencesOfTwo : public ::testing::Test {
 protected:
  double hear(int rank, std::uint64_t moves, std::int64_t step, double now) {
    silences_.look(now);
    return silences_.heard(rank, moves, Phase::kTraining, step, now).seconds;
  }
  // Steps that move `rank` every `every` seconds.
  double fly(int rank, int count, double every, double now) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(hear(rank, ++moves_, 2 + i, now += every), 0);
    return now;
  }

  Patience patience_{.pause = 1e9};
  Silences silences_{patience_, 0};
  std::uint64_t moves_ = 0;
};

TEST_F(SilencesOfTwo, AreToldAfterFiveSeconds) {
  hear(0, ++moves_, 1, 0);
  const double now = fly(0, 10, 0.1, 0);
  EXPECT_EQ(hear(0, moves_, 11, now + 4.9), 0);
  EXPECT_NEAR(hear(0, moves_, 11, now + 5.1), 5.1, 1e-9);
  EXPECT_EQ(hear(0, moves_ + 1, 11, now + 6), 0);
}

TEST_F(SilencesOfTwo, WhoIsSlowMayBeSlow) {
  hear(0, ++moves_, 1, 0);
  const double now = fly(0, 10, 4, 0);
  EXPECT_EQ(hear(0, moves_, 11, now + 11.9), 0) << "three times the four seconds of before";
  EXPECT_GT(hear(0, moves_, 11, now + 12.1), 0);
}

TEST_F(SilencesOfTwo, NobodyKnowsHowLongAFirstStepTakes) {
  hear(0, ++moves_, 1, 0);
  EXPECT_EQ(hear(0, moves_, 1, 59), 0);
  silences_.look(61);
  const auto heard = silences_.heard(0, moves_, Phase::kTraining, 1, 61);
  EXPECT_GT(heard.seconds, 0);
  EXPECT_FALSE(heard.in_step) << "it is told, and nothing more";
}

TEST_F(SilencesOfTwo, AFirstStepTellsHowLongTheNextMayTake) {
  hear(0, ++moves_, 1, 0);
  hear(0, ++moves_, 1, 35);
  hear(0, ++moves_, 2, 36);
  EXPECT_EQ(hear(0, moves_, 2, 36 + 104), 0);
  EXPECT_GT(hear(0, moves_, 2, 36 + 106), 0);
}

TEST(Silences, ASleepOfTheHostIsNobodysFault) {
  Silences silences({}, 0);
  double now = 0;
  const auto hear = [&](std::uint64_t moves, std::int64_t step) {
    silences.look(now);
    return silences.heard(0, moves, Phase::kTraining, step, now).seconds;
  };
  hear(1, 1);
  hear(2, 2);
  now = 100;  // nothing was looked at meanwhile
  EXPECT_EQ(hear(2, 2), 0);
  for (; now < 104.9; now += 0.5) EXPECT_EQ(hear(2, 2), 0) << now;
  for (; now < 106; now += 0.5) hear(2, 2);
  EXPECT_GT(hear(2, 2), 0);
}

}  // namespace
}  // namespace trireme::watch::verdict_test
