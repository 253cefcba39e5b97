#include "trireme/launch/elastic/member.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace trireme::elastic::member_test {
namespace {

// A host whose leader is gone: another may come, unless all that was to do is saved.
class Deserted : public ::testing::Test {
 protected:
  Member member() {
    return Member({.self = {.host = 1, .slots = 1}, .complete = [this] { return saved_; }}, now_);
  }
  // Nobody answers for so long.
  std::optional<Outcome> pass(Member& member, double seconds) {
    for (const double end = now_ + seconds; now_ < end; now_ += 0.2)
      if (const Member::Actions actions = member.tick(now_); actions.leave) return actions.leave;
    return std::nullopt;
  }

  double now_ = 0;
  bool saved_ = false;
};

TEST_F(Deserted, LeavesWithNothingLeftToDo) {
  Member host = member();
  const Member::Actions first = host.tick(now_);
  ASSERT_TRUE(first.report);
  const Member::Actions begun = host.order({.host = 1,
                                            .heard = first.report->sequence,
                                            .assignment = {.generation = 1, .world = 2},
                                            .what = Order::What::kRun},
                                           now_);
  ASSERT_TRUE(begun.start);
  host.ended({.rank = 0, .code = 4}, now_ += 0.5);
  EXPECT_FALSE(pass(host, 30)) << "the leader may come back";
  saved_ = true;
  const std::optional<Outcome> outcome = pass(host, 1);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 0);
}

TEST_F(Deserted, WaitsWhereItHasNotYetBegun) {
  Member host = member();
  saved_ = true;  // by an earlier run, which is to go on for longer
  EXPECT_FALSE(pass(host, 30));
  const std::optional<Outcome> outcome = pass(host, 60);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 4);
}

// A host with two ranks that run.
class Interrupted : public ::testing::Test {
 protected:
  Interrupted() : member_({.self = {.host = 1, .slots = 2}}, now_) {
    const Member::Actions first = member_.tick(now_);
    const Member::Actions begun = member_.order({.host = 1,
                                                 .heard = first.report->sequence,
                                                 .assignment = {.generation = 1, .world = 2},
                                                 .what = Order::What::kRun},
                                                now_);
    EXPECT_TRUE(begun.start);
  }

  double now_ = 0;
  Member member_;
};

TEST_F(Interrupted, TheFirstSignalIsToldAndForwardedOnce) {
  const Member::Actions first = member_.interrupt(SIGINT, now_ += 0.1);
  EXPECT_EQ(first.signal, SIGINT);
  EXPECT_FALSE(first.note.empty());
  const Member::Actions again = member_.interrupt(SIGINT, now_ += 0.05);
  EXPECT_EQ(again.signal, 0) << "one Ctrl-C that came twice";
  EXPECT_TRUE(again.note.empty());
  EXPECT_EQ(member_.interrupt(SIGINT, now_ += 1).signal, SIGKILL);
}

TEST_F(Interrupted, NobodyWaitsForARankThatHadNotBegun) {
  Member saving = member_;
  for (Member* member : {&saving, &member_}) member->interrupt(SIGTERM, now_);
  EXPECT_EQ(saving.ended({.rank = 1, .code = 143}, now_ += 0.1).signal, 0)
      << "ranks that took the signal save in their own time";
  EXPECT_EQ(member_.ended({.rank = 1, .signal = SIGTERM}, now_).signal, SIGKILL);
}

}  // namespace
}  // namespace trireme::elastic::member_test
