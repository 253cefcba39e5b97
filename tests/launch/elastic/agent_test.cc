// Agents of several hosts, each a process of this machine, whose leader cannot go on.
#include "trireme/launch/elastic/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/base/error.h"
#include "trireme/launch/elastic/launch.h"

namespace trireme::elastic::agent_test {
namespace {

using ::testing::HasSubstr;

AgentConfig agent_of(const std::string& name, const std::string& endpoint,
                     const std::string& script) {
  AgentConfig config;
  config.member.self.name = name;
  config.endpoint = {.host = endpoint, .local = true};
  config.ranks.command = {"/bin/sh", "-c", script};
  config.ranks.token = "the token of these hosts";
  config.patience.steps = 0;
  return config;
}

TEST(Agents, WhatShowsLateOfTheJobEndsEveryHost) {
  const std::string endpoint = fresh_name();
  const pid_t other = ::fork();
  if (other == 0) {
    const Outcome outcome = Agent(agent_of("other", endpoint, "")).run();
    ::_exit(outcome.cause == "no world of 2" ? outcome.exit_code : 99);
  }
  AgentConfig config = agent_of("first", endpoint, "");
  config.leads = Membership::Config{
      .least = 2,
      .most = 2,
      .progress = [] { return Progress{}; },
      .fits = [](auto world) -> bool { fail(ErrorKind::kData, "no world of {}", world); }};
  const Outcome outcome = Agent(std::move(config)).run();
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.cause, "no world of 2");
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3) << "it is told";
}

// As on a full disk, in the restart that a rank's death asks for.
TEST(Agents, NobodyIsToldOfARestartThatDoesNotCome) {
  AgentConfig config = agent_of("this", fresh_name(), "kill -9 $$");
  std::vector<Fault> faults;
  std::vector<std::string> notes;
  config.leads = Membership::Config{.progress = [] { return Progress{}; }};
  config.remember = [](std::uint64_t generation) {
    if (generation == 2) fail(ErrorKind::kData, "no room");
  };
  config.on_fault = [&](const Fault& fault) { faults.push_back(fault); };
  config.on_note = [&](const std::string& note) { notes.push_back(note); };
  const Outcome outcome = Agent(std::move(config)).run();
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.cause, HasSubstr("generation 2 cannot begin: no room"));
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, "rank killed");
  EXPECT_EQ(faults[0].action, "stop");
  EXPECT_THAT(notes, ::testing::IsEmpty());
}

// The kernel's counter of kills stands for the kernel.
TEST(Agents, AKillForLackOfMemoryIsToldAsSuch) {
  for (const bool starved : {true, false}) {
    AgentConfig config = agent_of("this", fresh_name(), "kill -9 $$");
    std::vector<Fault> faults;
    config.leads =
        Membership::Config{.max_restarts = starved ? 3 : 0, .progress = [] { return Progress{}; }};
    config.ranks.memory_kills = [starved, kills = std::int64_t{3}]() mutable {
      return starved ? kills++ : kills;
    };
    config.on_fault = [&](const Fault& fault) { faults.push_back(fault); };
    const Outcome outcome = Agent(std::move(config)).run();
    EXPECT_EQ(outcome.exit_code, starved ? 6 : 4);
    EXPECT_EQ(outcome.signal, SIGKILL);
    EXPECT_EQ(outcome.cause.find("for lack of memory") != std::string::npos, starved)
        << outcome.cause;
    ASSERT_EQ(faults.size(), 1u) << "no restart";
    EXPECT_EQ(faults[0].cause, outcome.cause);
  }
}

}  // namespace
}  // namespace trireme::elastic::agent_test
