#include "trireme/launch/elastic/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "trireme/base/os/stop.h"

namespace trireme::elastic::membership_test {
namespace {

using ::testing::HasSubstr;
using Says = Order::What;

// A leader whose own host is 1, and hosts that do at once what they are told.
class MembershipTest : public ::testing::Test {
 protected:
  void begin(Membership::Config config) {
    config.own = 1;
    config.run_id = "r";
    config.progress = [this] { return progress_; };
    leader_.emplace(config, now_);
  }

  // A host comes, or says that it is still there.
  void hear(HostId id) {
    Report& report = hosts_[id];
    report.host = id;
    report.name = "h" + std::to_string(id);
    report.run_id = "r";
    ++report.sequence;
    take(leader_->report(report, now_));
  }
  // Time passes; all hosts but `silent` go on reporting.
  void pass(double seconds, std::optional<HostId> silent = {}) {
    const double end = now_ + seconds;
    while (now_ < end) {
      now_ += 0.1;
      for (const auto& [id, report] : std::map(hosts_))
        if (id != silent) hear(id);
      take(leader_->tick(now_));
    }
  }
  void end_ranks(HostId id, const Outcome& outcome) {
    hosts_[id].ranks = Report::Ranks::kGone;
    hosts_[id].outcome = outcome;
    hear(id);
  }
  void leave(HostId id, int signal) {
    hosts_[id].leaving = static_cast<std::uint64_t>(signal);
    hear(id);
  }

  void take(const Membership::Actions& actions) {
    for (const Fault& fault : actions.faults) faults_.push_back(fault);
    for (const Order& order : actions.send) orders_[order.host] = order;
    std::vector<HostId> changed;
    for (auto& [id, report] : hosts_) {
      const Order& order = orders_[id];
      report.ordered = order.assignment.generation;
      report.what = order.what;
      if (order.what == Says::kRun && report.generation < order.assignment.generation) {
        report.generation = order.assignment.generation;
        report.ranks = Report::Ranks::kAlive;
        report.outcome = {};
        changed.push_back(id);
      } else if (order.what != Says::kRun && report.ranks == Report::Ranks::kAlive) {
        report.ranks = Report::Ranks::kGone;
        if (report.outcome.exit_code == 0)
          report.outcome =
              order.what == Says::kInterrupt ? Outcome{143, 0, ""} : Outcome{4, 0, "killed"};
        changed.push_back(id);
      }
    }
    for (const HostId id : changed) hear(id);
  }

  std::uint64_t generation() const { return orders_.at(1).assignment.generation; }
  std::uint64_t world() const { return orders_.at(1).assignment.world; }

  double now_ = 50;
  Progress progress_;
  std::optional<Membership> leader_;
  std::map<HostId, Report> hosts_;
  std::map<HostId, Order> orders_;
  std::vector<Fault> faults_;
};

TEST_F(MembershipTest, AllHostsThereBeginAtOnceInTheirOrder) {
  begin({.least = 2, .most = 3});
  hosts_[3].place = 2;
  hosts_[2].place = 1;
  hosts_[2].slots = 4;
  hear(3);
  hear(1);
  hear(2);
  EXPECT_EQ(orders_[1].assignment, (Assignment{1, 6, 0, 3}));
  EXPECT_EQ(orders_[2].assignment, (Assignment{1, 6, 1, 3}));
  EXPECT_EQ(orders_[3].assignment, (Assignment{1, 6, 5, 3}));
  for (const HostId id : {3, 2, 1}) end_ranks(id, {});
  ASSERT_TRUE(leader_->finished());
  EXPECT_EQ(leader_->finished()->exit_code, 0);
}

TEST_F(MembershipTest, ReductionServersAreNoHostsAndTheirLossEndsTheGeneration) {
  begin({.least = 2, .most = 2});
  for (const HostId id : {3, 4}) {
    hosts_[id].slots = 0;
    hear(id);
  }
  hear(1);
  pass(5);
  EXPECT_EQ(generation(), 0u) << "servers are no hosts";
  hear(2);
  EXPECT_EQ(orders_[1].assignment, (Assignment{1, 2, 0, 2, 2}));
  EXPECT_EQ(orders_[3].assignment, (Assignment{1, 2, 2, 2, 2}));
  EXPECT_EQ(orders_[4].assignment, (Assignment{1, 2, 3, 2, 2}));
  pass(6);
  EXPECT_EQ(generation(), 1u);
  hosts_.erase(4);  // silent
  pass(5);
  EXPECT_EQ(generation(), 2u);
  EXPECT_EQ(orders_[2].assignment, (Assignment{2, 2, 1, 2, 1}));
  hosts_[4] = {.slots = 0};  // its agent is started again
  hosts_[4].sequence = 1000;
  hear(4);
  pass(7);
  EXPECT_EQ(generation(), 3u);
  EXPECT_EQ(orders_[4].assignment.servers, 2u);
  for (const HostId id : {1, 2, 3, 4}) end_ranks(id, {});
  ASSERT_TRUE(leader_->finished());
  EXPECT_EQ(leader_->finished()->exit_code, 0);
}

TEST_F(MembershipTest, EnoughHostsBeginWhenNoMoreCome) {
  begin({.least = 2, .most = 3, .gather_s = 3});
  hear(1);
  pass(10);
  EXPECT_EQ(generation(), 0u);
  hear(2);
  pass(2.5);
  EXPECT_EQ(generation(), 0u);
  pass(1);
  EXPECT_EQ(generation(), 1u);
  EXPECT_EQ(world(), 2u);
}

TEST_F(MembershipTest, ARankThatHangsIsNamedThenStoppedAndAllStartAgain) {
  begin({.least = 2, .most = 2});
  hear(1);
  hear(2);
  take(leader_->suspect(1, 1, "line 3 `load`", "rank 1 has been at it for 5.0 s"));
  EXPECT_EQ(generation(), 1u) << "it may go on";
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].kind, "rank silent");
  EXPECT_EQ(faults_[0].host, "h2");
  EXPECT_EQ(faults_[0].action, "report");
  const Outcome outcome{
      .exit_code = 4, .rank = 1, .cause = "rank 1 hangs", .doing = "line 3 `load`"};
  take(leader_->accuse(7, outcome, now_));
  take(leader_->accuse(1, {.exit_code = 4, .rank = 2}, now_));
  EXPECT_EQ(generation(), 1u) << "of another generation, or no rank of this one";
  take(leader_->accuse(1, outcome, now_));
  pass(1);
  EXPECT_EQ(generation(), 2u);
  progress_ = {.last_step = 1};
  pass(1);
  ASSERT_EQ(faults_.size(), 2u);
  EXPECT_EQ(faults_[1].kind, "rank hung");
  EXPECT_EQ(faults_[1].op, "line 3 `load`");
  EXPECT_EQ(faults_[1].rank, 1);
  EXPECT_EQ(faults_[1].action, "restart");
}

TEST_F(MembershipTest, AnAccusationAfterAPauseOfTheLeaderBuriesNobody) {
  begin({.least = 1, .most = 2});
  hear(2);
  hear(1);
  now_ += 60;
  take(leader_->accuse(1, {.exit_code = 4, .rank = 1, .cause = "rank 1 hangs"}, now_));
  progress_ = {.last_step = 1};
  pass(2);
  EXPECT_EQ(world(), 2u);
  for (const Fault& fault : faults_) EXPECT_EQ(fault.kind, "rank hung");
}

TEST_F(MembershipTest, TooFewHostsEndInTheEnd) {
  begin({.least = 2, .most = 3, .patience_s = 20});
  hear(1);
  pass(19);
  EXPECT_FALSE(leader_->finished());
  pass(2);
  ASSERT_TRUE(leader_->finished());
  EXPECT_EQ(leader_->finished()->exit_code, 4);
  EXPECT_THAT(leader_->finished()->cause, HasSubstr("1 of at least 2 hosts"));
}

TEST_F(MembershipTest, ASilentHostIsGivenUpAndMayComeBack) {
  begin({.least = 1, .most = 2});
  hear(2);
  hear(1);
  EXPECT_EQ(world(), 2u);
  pass(2.5, 2);
  EXPECT_EQ(generation(), 1u) << "not before 3 s";
  pass(1, 2);
  EXPECT_EQ(generation(), 2u);
  EXPECT_EQ(world(), 1u);
  hosts_[2].ranks = Report::Ranks::kGone;
  pass(8);
  EXPECT_EQ(generation(), 3u);
  EXPECT_EQ(world(), 2u);
  progress_.last_step = 5;
  pass(1);
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].kind, "host lost");
  EXPECT_EQ(faults_[0].host, "h2");
  EXPECT_EQ(faults_[0].action, "restart");
}

TEST_F(MembershipTest, AfterAPauseOfTheLeaderNobodyIsAccused) {
  begin({.least = 1, .most = 2});
  hear(2);
  hear(1);
  now_ += 60;
  take(leader_->tick(now_));
  pass(2);
  EXPECT_EQ(generation(), 1u);
}

TEST_F(MembershipTest, RestartsThatBringCheckpointsDoNotCount) {
  begin({.max_restarts = 2});
  hear(1);
  for (int k = 1; k <= 6; ++k) {
    progress_ = {.durable_step = 10 * k, .last_step = 10 * k + 4};
    end_ranks(1, {4, 1, "rank 1 was killed", SIGKILL});
    ASSERT_FALSE(leader_->finished()) << k;
  }
  for (int k = 0; k < 2; ++k) end_ranks(1, {4, 1, "rank 1 was killed", SIGKILL});
  ASSERT_TRUE(leader_->finished());
  EXPECT_EQ(leader_->finished()->exit_code, 4);
  EXPECT_THAT(
      leader_->finished()->cause,
      HasSubstr("rank 1 was killed, in step 65; 2 restarts since the checkpoint of step 60"));
}

TEST_F(MembershipTest, SnapshotsInMemoryCountOnce) {
  begin({.max_restarts = 2});
  hear(1);
  const auto fails_after = [&](std::int64_t memory_step) {
    progress_ = {.durable_step = 10, .last_step = 40, .memory_step = memory_step};
    end_ranks(1, {4, 1, "rank 1 was killed", SIGKILL});
    return !leader_->finished();
  };
  for (const std::int64_t step : {11, 12, 13, 14, 20}) ASSERT_TRUE(fails_after(step)) << step;
  EXPECT_TRUE(fails_after(0)) << "lost";
  EXPECT_FALSE(fails_after(20)) << "and made again, which is no progress";
  EXPECT_THAT(leader_->finished()->cause,
              HasSubstr("2 restarts since the checkpoint of step 20 brought no newer one"));
}

TEST_F(MembershipTest, AnEchoWaitsForItsCause) {
  begin({.least = 2, .most = 2, .echo_s = 1});
  hear(2);
  hear(1);
  hosts_[1].outcome = {4, 0, "rank 1 is lost"};
  hear(1);
  pass(0.5);
  EXPECT_EQ(orders_[2].what, Says::kRun);
  end_ranks(2, {3, 1, "rank 1: disk full"});
  ASSERT_TRUE(leader_->finished());
  EXPECT_EQ(leader_->finished()->exit_code, 3);
}

TEST_F(MembershipTest, WithTheLeaderTheRunEndsWithAnotherHostItGoesOn) {
  begin({.least = 1, .most = 3});
  for (const HostId id : {3, 2, 1}) hear(id);
  leave(2, SIGTERM);
  EXPECT_EQ(orders_[2].what, Says::kFinish);
  EXPECT_EQ(orders_[2].outcome.exit_code, 143);
  EXPECT_EQ(generation(), 2u);
  EXPECT_EQ(world(), 2u);
  leave(1, SIGINT);
  ASSERT_TRUE(leader_->finished());
  EXPECT_EQ(leader_->finished()->exit_code, 143) << "what the ranks ended with";
  EXPECT_TRUE(faults_.empty());
}

TEST_F(MembershipTest, NothingIsSavedWhereOneHostsPartIsNot) {
  begin({.least = 2, .most = 2});
  for (const HostId id : {2, 1}) hear(id);
  ASSERT_EQ(world(), 2u);
  hosts_[2].outcome = {.exit_code = os::kEndedUnsaved, .rank = 1, .cause = "rank 1 was killed"};
  leave(1, SIGTERM);
  ASSERT_TRUE(leader_->finished());
  EXPECT_EQ(leader_->finished()->exit_code, os::kEndedUnsaved);
}

TEST_F(MembershipTest, TheJobDecidesHowManyHostsItCanHave) {
  begin({.least = 1, .most = 4, .fits = [](std::uint64_t world) { return world != 3; }});
  for (const HostId id : {4, 3, 2, 1}) hear(id);
  EXPECT_EQ(world(), 4u);
  end_ranks(4, {1, 3, "crashed"});
  hosts_.erase(4);
  pass(4);
  EXPECT_EQ(world(), 2u) << "of three";
}

TEST_F(MembershipTest, ANewLeaderWaitsForTheLeasesOfTheOld) {
  begin({.least = 1, .most = 1, .last_generation = 7});
  hear(1);
  pass(2.5);
  EXPECT_EQ(generation(), 7u);
  pass(1);
  EXPECT_EQ(generation(), 8u);
}

TEST_F(MembershipTest, AClockThatLeapsMakesNoLeaseOlder) {
  begin({.least = 1, .most = 1, .last_generation = 7});
  hear(1);
  now_ += 60;
  pass(2.5);
  EXPECT_EQ(generation(), 7u);
  pass(1);
  EXPECT_EQ(generation(), 8u);
}

// The generation that could not be noted down is one that nobody has heard of.
TEST_F(MembershipTest, ALeaderThatCannotGoOnTellsEveryHost) {
  begin({.least = 2, .most = 2});
  hear(1);
  hear(2);
  for (const HostId id : {1, 2}) {
    hosts_[id].ranks = Report::Ranks::kGone;
    hosts_[id].outcome = {4, 0, "rank 0 was killed", SIGKILL};
  }
  for (const HostId id : {2, 1}) {
    Report& report = hosts_[id];
    ++report.sequence;
    const auto actions = leader_->report(report, now_);
    if (id == 1) {
      ASSERT_TRUE(actions.serve);
      ASSERT_EQ(*actions.serve, 2u);
    }
  }
  take(leader_->abandon({3, -1, "no room for the note"}, now_));
  ASSERT_TRUE(leader_->finished());
  for (const HostId id : {1, 2}) {
    EXPECT_EQ(orders_[id].what, Says::kFinish);
    EXPECT_EQ(orders_[id].outcome.exit_code, 3);
    EXPECT_EQ(orders_[id].outcome.cause, "no room for the note");
  }
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].kind, "rank killed");
  EXPECT_EQ(faults_[0].action, "stop") << "nothing was started again";
  EXPECT_TRUE(leader_->anybody_left()) << "it stays until they know";
  hosts_[2].what = Says::kFinish;
  hear(2);
  EXPECT_FALSE(leader_->anybody_left());
  take(leader_->abandon({1, -1, "again"}, now_));
  EXPECT_EQ(leader_->finished()->exit_code, 3) << "the first end counts";
}

TEST_F(MembershipTest, ARestartThatCameIsOneAlsoWhereTheRunIsAbandonedLater) {
  begin({.least = 2, .most = 2});
  hear(1);
  hear(2);
  end_ranks(2, {4, 2, "rank 2 was killed", SIGKILL});
  pass(2);
  ASSERT_EQ(generation(), 2u);
  take(leader_->abandon({3, -1, "the job"}, now_));
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].action, "restart");
}

TEST_F(MembershipTest, AnotherRunsAgentIsSentAway) {
  begin({});
  const auto actions =
      leader_->report({.host = 9, .sequence = 1, .name = "x", .run_id = "other"}, now_);
  ASSERT_EQ(actions.send.size(), 1u);
  EXPECT_EQ(actions.send[0].what, Says::kFinish);
  EXPECT_EQ(actions.send[0].outcome.exit_code, 2);
}

}  // namespace
}  // namespace trireme::elastic::membership_test
