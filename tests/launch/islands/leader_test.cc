#include "trireme/launch/islands/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/launch/islands/island.h"

namespace trireme::islands::leader_test {
namespace {

using ::testing::HasSubstr;

Hello hello_of(int island, const std::string& run = "a") {
  return {.island = island, .islands = 4, .run = run, .recipe = {.text = "lr 0.7", .fragments = 2}};
}

class Leading : public ::testing::Test {
 protected:
  void join(int island, const std::string& run = "a", double now = 0) {
    EXPECT_EQ(leader.hello(hello_of(island, run), now), std::nullopt);
  }
  void give(int island, std::int64_t round, double now, int fragment = 0) {
    EXPECT_TRUE(
        leader.offered(island, 0, {.fragment = fragment, .round = round, .weight = 1}, now));
    leader.arrived(island, 0, fragment, round, now);
  }
  std::vector<int> merged(double now) {
    leader.tick(now);
    std::vector<int> islands;
    for (const Entry& entry : leader.take_entries())
      for (const Contribution& one : entry.from) islands.push_back(one.island);
    return islands;
  }

  Leader leader{{.grace_s = 10, .absent_s = 60}, {}, std::nullopt, 0};
};

TEST_F(Leading, AMergeHasItsQuorumAndWaitsForItsGraceOnly) {
  for (const int island : {0, 1, 2}) join(island);
  give(2, 0, 1);
  EXPECT_TRUE(merged(100).empty());
  give(0, 0, 101);
  EXPECT_TRUE(merged(101).empty());  // grace
  EXPECT_TRUE(merged(110).empty());
  EXPECT_EQ(merged(111), (std::vector{0, 2}));
  // The third one is late: what it offers for that round is not wanted.
  EXPECT_FALSE(leader.offered(1, 0, {.fragment = 0, .round = 0}, 112));
  EXPECT_EQ(leader.round(0), 1);
  EXPECT_EQ(leader.round(1), 0);
  // All islands: at once.
  for (const int island : {0, 1, 2}) give(island, 1, 120);
  EXPECT_EQ(merged(120).size(), 3u);
}

TEST_F(Leading, CodesCountWhenAllRanksOfTheIslandHaveSentThem) {
  Hello hello = hello_of(0);
  hello.ranks = 2;
  for (hello.rank = 0; hello.rank < 2; ++hello.rank)
    EXPECT_EQ(leader.hello(hello, 0), std::nullopt);
  give(0, 0, 1);
  EXPECT_TRUE(merged(50).empty());
  EXPECT_TRUE(leader.offered(0, 1, {.fragment = 0, .round = 0}, 51));
  leader.arrived(0, 1, 0, 0, 52);
  EXPECT_EQ(merged(52), std::vector{0});
}

TEST_F(Leading, AMajorityHasWhatIsCommitted) {
  for (const int island : {0, 1, 2}) join(island);
  const std::int64_t entries = leader.entries();
  EXPECT_EQ(leader.committed(), 0);
  leader.acknowledged(1, entries);
  EXPECT_EQ(leader.committed(), 0);
  leader.acknowledged(0, entries - 1);
  EXPECT_EQ(leader.committed(), entries - 1);
  leader.acknowledged(2, entries + 5);  // more than there are
  EXPECT_EQ(leader.committed(), entries);
}

TEST(Leader, AQuorumOfOneCommitsWithAMajority) {
  Leader leader({.quorum = 1}, {}, std::nullopt, 0);
  for (const int island : {0, 1, 2}) EXPECT_EQ(leader.hello(hello_of(island), 0), std::nullopt);
  leader.acknowledged(0, 3);
  EXPECT_EQ(leader.committed(), 0);
  leader.acknowledged(1, 2);
  EXPECT_EQ(leader.committed(), 2);
}

TEST_F(Leading, ADeadIslandIsLeftOut) {
  join(0);
  join(1);
  give(1, 0, 1);
  leader.closed(1, 0, 2);
  EXPECT_TRUE(merged(61).empty());
  EXPECT_EQ(leader.members(), 2);
  EXPECT_TRUE(merged(63).empty());
  EXPECT_EQ(leader.members(), 1);
  // Alone, the other is a majority, and what the dead one sent is not merged.
  give(0, 0, 64);
  EXPECT_EQ(merged(64), std::vector{0});
}

TEST_F(Leading, ALeapOfTimeLeavesOutNobodyWhoIsConnected) {
  join(0);
  join(1);
  merged(1);
  leader.tick(1e5);
  EXPECT_EQ(leader.members(), 2);
}

TEST_F(Leading, ARestartedIslandReplacesItself) {
  join(0);
  join(1);
  give(1, 0, 1);
  EXPECT_THAT(leader.hello(hello_of(1, "b"), 1).value(), HasSubstr("already connected"));
  leader.closed(1, 0, 1);
  join(1, "b", 2);
  give(0, 0, 3);
  EXPECT_TRUE(merged(4).empty());  // codes of the earlier process do not count
  give(1, 0, 5);
  EXPECT_EQ(merged(5), (std::vector{0, 1}));
}

TEST_F(Leading, IslandsThatDifferAreRefused) {
  join(0);
  Hello other = hello_of(1);
  other.recipe.text = "lr 0.4";
  EXPECT_THAT(leader.hello(other, 0).value(), HasSubstr("lr 0.7 and lr 0.4"));
  other = hello_of(1);
  other.islands = 8;
  EXPECT_THAT(leader.hello(other, 0).value(), HasSubstr("Use --island 1/4"));
  other = hello_of(1);
  other.position = 50;
  EXPECT_THAT(leader.hello(other, 0).value(), HasSubstr("has 50 entries of a tape"));
}

TEST_F(Leading, ACheckpointOfAnotherTapeIsRefused) {
  Hello hello = hello_of(0);
  hello.position = 1;
  hello.line = 7;
  EXPECT_THAT(leader.hello(hello, 0, {.position = 8}).value(), HasSubstr("another tape: entry 0"));
  EXPECT_EQ(leader.hello(hello, 0, {.position = 7}), std::nullopt);
  hello = hello_of(1);
  hello.position = 1;
  EXPECT_EQ(leader.hello(hello, 0, {.position = 8}),
            std::nullopt);  // an older checkpoint names none
}

TEST_F(Leading, ANewLeaderContinuesTheTape) {
  join(0);
  give(0, 0, 1);
  std::vector<Entry> tape;
  leader.tick(1);
  for (const Entry& entry : leader.take_entries()) tape.push_back(entry);
  Leader next({}, tape, leader.recipe(), 100);
  EXPECT_EQ(next.take_entries().front().term, 2);
  EXPECT_EQ(next.round(0), 1);
  EXPECT_EQ(next.members(), 1);
  EXPECT_EQ(next.hello(hello_of(0), 100), std::nullopt);
  EXPECT_TRUE(next.take_entries().empty());  // the same run is no new one
  Hello other = hello_of(1);
  other.islands = 8;
  EXPECT_THAT(next.hello(other, 100).value(), HasSubstr("Use --island 1/4"));
  // An island's copy has no recipe.
  EXPECT_THROW(Leader({}, tape, std::nullopt, 100), Error);
}

TEST_F(Leading, ACopyOfAnEarlierTermMayEndWithEntriesThatNobodyApplied) {
  Leader next({}, {{.kind = Entry::Kind::kTerm, .term = 4}}, std::nullopt, 0);
  EXPECT_EQ(next.term(), 5);
  Hello hello = hello_of(0);
  hello.position = 1;
  hello.copied = 9;
  hello.copied_line = 77;
  hello.term = 4;
  EXPECT_EQ(next.copied(hello, {.position = 6, .copied = 0}), 1);
  EXPECT_EQ(next.hello(hello, 0, {.position = 6}), std::nullopt);
  // A leader of that term has more entries: it is another tape.
  hello = hello_of(1);
  hello.copied = 9;
  hello.term = 5;
  EXPECT_THAT(next.hello(hello, 0).value(), HasSubstr("has 9 entries of a tape"));
  // And one of a later term has led since.
  hello.term = 6;
  EXPECT_THAT(next.hello(hello, 0).value(), HasSubstr("has followed a leader of term 6"));
}

TEST_F(Leading, AnIslandTakesTheNewestStateWhereItIsLessThanItsMeans) {
  Recipe recipe = hello_of(0).recipe;
  recipe.units = {{.name = "a", .numel = 25, .fragment = 0}};  // means of 100 bytes
  for (const int island : {0, 1}) {
    Hello hello = hello_of(island);
    hello.recipe = recipe;
    EXPECT_EQ(leader.hello(hello, 0), std::nullopt);
  }
  for (int round = 0; round < 5; ++round) {
    for (const int island : {0, 1}) give(island, round, round);
    merged(round);
  }
  const auto state = [&](int island, std::int64_t position, std::int64_t bytes) {
    return State{.key = kStateKey | static_cast<std::uint64_t>(island),
                 .island = island,
                 .step = 10 * position,
                 .position = position,
                 .files = {{"manifest.json", bytes}}};
  };
  EXPECT_EQ(leader.state_for({.island = 2}), std::nullopt);
  leader.shows(0, state(0, 4, 250));
  leader.shows(1, state(1, 8, 250));
  EXPECT_EQ(leader.state_for({.island = 2})->island, 1);
  EXPECT_EQ(leader.state_for({.island = 1})->island, 0);  // not its own
  // Entries 3 to 7 are merges. An island with a checkpoint takes the fewer bytes.
  EXPECT_EQ(leader.state_for({.island = 2, .step = 5, .position = 3})->island, 1);
  EXPECT_EQ(leader.state_for({.island = 2, .step = 5, .position = 6}), std::nullopt);
  EXPECT_EQ(leader.state_for({.island = 2, .step = 90, .position = 3}), std::nullopt);
  leader.closed(1, 0, 9);
  EXPECT_EQ(leader.state_for({.island = 2})->island, 0);
}

TEST_F(Leading, SlowIslandsHaveTheirPaceOnTheTape) {
  for (const int island : {0, 1, 2}) join(island);
  for (const int island : {0, 1, 2}) {
    const double step_s = island == 2 ? 2.5 : 1 + 0.05 * island;
    EXPECT_TRUE(
        leader.offered(island, 0, {.fragment = 0, .round = 0, .weight = 1, .step_s = step_s}, 1));
    leader.arrived(island, 0, 0, 0, 1);
  }
  leader.tick(1);
  const std::vector<Entry> entries = leader.take_entries();
  EXPECT_EQ(entries.back().paces, (std::vector<Pace>{{2, 420}}));
  Island slow({.island = 2, .run = "a", .fragments = 2, .every = 30, .delay = 8}, {}, 0);
  EXPECT_EQ(slow.due(29), std::vector<int>{});
  EXPECT_EQ(slow.due(30), std::vector<int>{0});
  for (const Entry& entry : entries) slow.apply(entry, before_sending(5), false);
  EXPECT_EQ(slow.every(), 12);
  EXPECT_EQ(slow.due(12), std::vector<int>{0});
  EXPECT_EQ(slow.due(27), (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace trireme::islands::leader_test
