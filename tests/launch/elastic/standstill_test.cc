#include "trireme/launch/elastic/standstill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/launch/elastic/agent.h"
#include "trireme/launch/elastic/launch.h"
#include "trireme/launch/watch/recorder.h"

namespace trireme::elastic::standstill_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// How often it was told while looking five times a second.
int told(Standstill& standstill, std::uint64_t sign, double& now, double seconds) {
  int count = 0;
  for (const double end = now + seconds; now < end; now += 0.2)
    count += standstill.look(sign, now).has_value();
  return count;
}

TEST(Standstill, IsToldOnceAfterItsTime) {
  double now = 100;
  Standstill standstill(30, now);
  EXPECT_EQ(told(standstill, 1, now, 29), 0);
  EXPECT_EQ(told(standstill, 1, now, 100), 1);
  EXPECT_EQ(told(standstill, 2, now, 29), 0) << "something moved";
}

TEST(Standstill, OneThatEndedByItselfIsWhatMayBe) {
  double now = 0;
  Standstill standstill(30, now);
  EXPECT_EQ(told(standstill, 1, now, 50), 1);
  EXPECT_EQ(told(standstill, 2, now, 90), 0) << "50 s were nothing";
  EXPECT_EQ(told(standstill, 2, now, 20), 1);
}

TEST(Standstill, AHostThatSleptHasNotStoodStill) {
  double now = 0;
  Standstill standstill(30, now);
  EXPECT_EQ(told(standstill, 1, now, 20), 0);
  now += 500;
  EXPECT_EQ(told(standstill, 1, now, 9), 0);
  EXPECT_EQ(told(standstill, 1, now, 5), 1);
}

// A rank that waits before it has met the others, which the lookout leaves alone, is told of with all else.
TEST(Standstill, AnAgentTellsWhatItSees) {
  AgentConfig config;
  config.member.self.name = "this";
  config.endpoint = {.host = fresh_name(), .local = true};
  config.ranks.command = {"/bin/sh", "-c", "sleep 3"};
  config.ranks.count = 2;
  config.ranks.token = "the token of this host";
  config.standstill_s = 1;
  config.leads = Membership::Config{.progress = [] { return Progress{}; }};
  std::vector<std::string> notes, lines;
  config.on_note = [&](const std::string& note) { notes.push_back(note); };
  config.on_hang = [&](const std::string&, const std::vector<std::string>& told) { lines = told; };
  EXPECT_EQ(Agent(config).run().exit_code, 0);
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_THAT(notes[0],
              HasSubstr("nothing has moved on host this for 1 s in generation 1; 2 ranks: "
                        "starting, process sleeping; its agent leads the run"));
  EXPECT_THAT(lines, Contains(HasSubstr("agent of host this: generation 1")));
  EXPECT_THAT(lines, Contains(HasSubstr("rank 1 (process ")));
  config.patience.steps = 0;
  config.endpoint.host = fresh_name();
  notes.clear();
  EXPECT_EQ(Agent(config).run().exit_code, 0);
  EXPECT_THAT(notes, IsEmpty()) << "where nothing is watched";
}

}  // namespace
}  // namespace trireme::elastic::standstill_test
