#include "trireme/launch/elastic/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/os/stop.h"
#include "trireme/launch/elastic/verdict.h"

namespace trireme::elastic::launch_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Launch shell(int ranks, const std::string& script) {
  return {.command = {"/bin/sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin", "WORLD_SIZE=77"},
          .ranks = ranks,
          .grace_s = 0.5,
          .on_line = {}};
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

TEST(Launch, EveryRankHasItsPlaceInTheEnvironment) {
  Launch launch = shell(
      3,
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $TRIREME_GENERATION; "
      "echo second >&2");
  launch.command[2] = "if [ $RANK != 0 ]; then " + launch.command[2] + "; fi";
  std::map<int, std::vector<std::string>> lines;
  launch.on_line = [&](int rank, std::string_view line) { lines[rank].emplace_back(line); };
  EXPECT_EQ(run(launch).exit_code, 0);
  EXPECT_THAT(lines[1], ElementsAre("1/3 1/3 127.0.0.1 1", "second"));
  EXPECT_THAT(lines[2], ElementsAre("2/3 2/3 127.0.0.1 1", "second"));
  EXPECT_THAT(lines[0], IsEmpty());
}

TEST(Launch, RanksOfOneHostNeedNoPort) {
  Launch launch = shell(
      2, "[ $RANK = 0 ] || { echo $TRIREME_STORE; wc -c < /proc/self/fd/$TRIREME_STORE_TOKEN; }");
  std::vector<std::string> lines;
  launch.on_line = [&](int, std::string_view line) { lines.emplace_back(line); };
  EXPECT_EQ(run(launch).exit_code, 0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], ::testing::StartsWith("unix:trireme-"));
}

TEST(Launch, ALineWithoutNewlineIsTold) {
  Launch launch = shell(2, "printf 'no newline'");
  launch.command[2] = "[ $RANK = 0 ] || printf 'no newline'";
  std::vector<std::string> lines;
  launch.on_line = [&](int, std::string_view line) { lines.emplace_back(line); };
  EXPECT_EQ(run(launch).exit_code, 0);
  EXPECT_THAT(lines, ElementsAre("no newline"));
}

TEST(Launch, TheFirstFailureDecidesAndPeerLostIsItsEcho) {
  Launch launch = shell(3, "case $RANK in 0) exit 4;; 2) sleep 0.2; exit 3;; esac; exit 4");
  launch.grace_s = 60;
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.rank, 2);
  EXPECT_FALSE(has_children());
}

TEST(Launch, AKilledRankIsNamedAndTheOthersDoNotOutliveTheGrace) {
  const Stopwatch clock;
  const Outcome outcome = run(shell(4, "[ $RANK = 1 ] && kill -9 $$; exec sleep 30"));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.rank, 1);
  EXPECT_THAT(outcome.cause, HasSubstr("rank 1 was killed by signal 9 (Killed)"));
  EXPECT_LT(clock.seconds(), 25);
  EXPECT_FALSE(has_children());
}

// Says in its flight record that it is a rank, as watch::claim_area() does.
constexpr char kComes[] =
    "printf '\\001' | dd of=/proc/self/fd/$TRIREME_FLIGHT bs=1 seek=12 conv=notrunc 2>/dev/null; ";

TEST(Launch, ARankThatEndsWithZeroBeforeItHasMetTheOthersIsAFailureAtOnce) {
  const Stopwatch clock;
  const Outcome outcome =
      run(shell(3, std::string(kComes) + "[ $RANK = 1 ] && exit 0; exec sleep 100"));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.rank, 1);
  EXPECT_THAT(outcome.cause,
              HasSubstr("rank 1 ended with exit code 0 before it had met the others"));
  EXPECT_LT(clock.seconds(), 25);
  EXPECT_FALSE(has_children());
}

// Control of the test above: without its word nobody can tell it from one that is done.
TEST(Launch, WhatIsNoRankOfOursMayEndAsItLikes) {
  EXPECT_EQ(run(shell(3, "[ $RANK = 1 ] && exit 0; exec sleep 0.5")).exit_code, 0);
}

TEST(Launch, OthersMayEndByThemselvesWithinTheGrace) {
  Launch launch = shell(2, "[ $RANK = 1 ] && exit 5; sleep 0.2; exit 4");
  launch.grace_s = 20;
  const Stopwatch clock;
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_LT(clock.seconds(), 25);
}

TEST(Launch, AProgramThatIsNotThereIsAnErrorAndLeavesNobody) {
  Launch launch = shell(2, "");
  launch.command = {"/nowhere/program"};
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.exit_code, exit_code(ErrorKind::kUsage));
  EXPECT_EQ(outcome.rank, 0);
  EXPECT_THAT(outcome.cause, HasSubstr("/nowhere/program: No such file"));
  EXPECT_FALSE(has_children());
}

int newest_descriptor() {
  const int newest = ::open("/dev/null", O_RDONLY);
  ::close(newest);
  return newest;
}

// The first ranks run when descriptors for the others are missing.
TEST(Launch, RanksThatCannotBeStartedEndThoseThatAre) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  constexpr int kFree = 48;  // of an agent and some ranks, but not of a hundred
  const rlimit few{static_cast<rlim_t>(newest_descriptor() + kFree), before.rlim_max};
  const std::string began = ::testing::TempDir() + "trireme_began_" + std::to_string(::getpid());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Stopwatch clock;
  const Outcome outcome = run(shell(100, "[ $RANK = 1 ] && : > " + began + "; exec sleep 30"));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(outcome.exit_code, exit_code(ErrorKind::kUsage));
  EXPECT_GT(outcome.rank, 1);
  EXPECT_THAT(outcome.cause, HasSubstr("Too many open files"));
  EXPECT_LT(clock.seconds(), 25);
  EXPECT_EQ(::unlink(began.c_str()), 0) << "none began";
  EXPECT_FALSE(has_children());
}

constexpr int kLooks = 3000;  // 20 ms apart: a minute is for machines that do much else

// Runs two ranks of `script` in a process of its own, which gets `signals` that many seconds apart once both ranks have made
// the file ready$RANK.
int exit_code_after(const std::string& script, const std::vector<int>& signals,
                    double apart_s = 0.3) {
  const std::string ready =
      ::testing::TempDir() + "trireme_ready_" + std::to_string(::getpid()) + "_";
  Launch launch = shell(2, "ready() { : > $READY$RANK; }; " + script);
  launch.environment.push_back("READY=" + ready);
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(run(launch).exit_code);
  for (const char* rank : {"0", "1"}) {
    for (int i = 0; i < kLooks && ::access((ready + rank).c_str(), F_OK) != 0; ++i)
      ::usleep(20'000);
    ::unlink((ready + rank).c_str());
  }
  for (int signal : signals) {
    ::kill(pid, signal);
    ::usleep(static_cast<useconds_t>(1e6 * apart_s));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

constexpr char kSavesAndLeaves[] =
    "trap 'sleep 0.2; exit 143' TERM; trap 'exit 130' INT; ready; while :; do sleep 0.05; done";

TEST(Launch, AnInterruptIsForwardedAndTheRanksEndInTheirOwnTime) {
  EXPECT_EQ(exit_code_after(kSavesAndLeaves, {SIGTERM}), 143);
  EXPECT_EQ(exit_code_after(kSavesAndLeaves, {SIGINT}), 130);
}

TEST(Launch, ANoticeAndAClosedTerminalAreForwardedToo) {
  EXPECT_EQ(exit_code_after("trap 'exit 138' USR1; ready; while :; do sleep 0.05; done", {SIGUSR1}),
            138);
  EXPECT_EQ(exit_code_after("trap 'exit 129' HUP; ready; while :; do sleep 0.05; done", {SIGHUP}),
            129);
}

// The second rank waits for the first, which will not come.
TEST(Launch, WhereARankHadNotBegunTheOthersDoNotWaitForIt) {
  const Stopwatch clock;
  EXPECT_EQ(exit_code_after("[ $RANK = 1 ] && trap '' TERM; ready; exec sleep 100", {SIGTERM}),
            143);
  EXPECT_LT(clock.seconds(), 25);
}

TEST(Launch, ASignalThatWasIgnoredStaysIgnoredAndRanksTakeAll) {
  struct sigaction before {
  }, ignored{};
  ignored.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGINT, &ignored, &before), 0);
  // The first signal would decide the exit code.
  EXPECT_EQ(exit_code_after(kSavesAndLeaves, {SIGINT, SIGTERM}), 143);
  EXPECT_EQ(run(shell(1, "kill -INT $$; exit 7")).exit_code, exit_code(ErrorKind::kPeerLost));
  ::sigaction(SIGINT, &before, nullptr);
}

TEST(Launch, ARankThatDoesNotCatchTheInterruptIsNoFailure) {
  EXPECT_EQ(exit_code_after("ready; exec sleep 30", {SIGTERM}), 143);
}

TEST(Launch, ASecondTermIsIgnoredASecondIntKills) {
  const std::string deaf =
      "trap '' INT; trap 'sleep 2; exit 143' TERM; ready; while :; do sleep 0.05; done";
  EXPECT_EQ(exit_code_after(deaf, {SIGTERM, SIGTERM}), 143);
  const Stopwatch clock;
  constexpr double kSecondPress = 1.5;
  EXPECT_EQ(exit_code_after("trap '' INT; ready; exec sleep 30", {SIGINT, SIGINT}, kSecondPress),
            os::kEndedUnsaved);
  EXPECT_LT(clock.seconds(), 25);
  constexpr double kTwice = 0.02;
  EXPECT_EQ(exit_code_after(kSavesAndLeaves, {SIGINT, SIGINT}, kTwice), 130);
}

// An orphan is reaped by whoever adopts it; until then it shows as a zombie.
bool is_gone(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return state.empty() || state == "Z";
}

TEST(Launch, RanksDieWithTheirParent) {
  const std::string pid_file =
      ::testing::TempDir() + "trireme_rank_pid_" + std::to_string(::getpid());
  const pid_t parent = ::fork();
  // Beside the rank a process that nobody has told to die with its parent: the control.
  if (parent == 0)
    ::_exit(run(shell(1, "sleep 30 & echo $$ $! > " + pid_file + "; exec sleep 30")).exit_code);
  pid_t rank = 0, other = 0;
  for (int i = 0; i < kLooks && rank == 0; ++i) {
    ::usleep(20'000);
    std::ifstream(pid_file) >> rank >> other;
  }
  ASSERT_GT(rank, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  bool gone = false;
  for (int i = 0; i < kLooks && !gone; ++i) {
    ::usleep(20'000);
    gone = is_gone(rank);
  }
  EXPECT_TRUE(gone);
  ASSERT_GT(other, 0);
  EXPECT_FALSE(is_gone(other));
  ::kill(other, SIGKILL);
  ::unlink(pid_file.c_str());
}

TEST(Verdict, WithoutFailureItIsZeroOrTheInterrupt) {
  EXPECT_EQ(judge({{.rank = 0}, {.rank = 1}}, 0).exit_code, 0);
  EXPECT_EQ(judge({{.rank = 0}, {.rank = 1}}, SIGTERM).exit_code, 0);  // it had just finished
  EXPECT_EQ(judge({{.rank = 0, .code = 143}, {.rank = 1, .code = 143}}, SIGTERM).exit_code, 143);
}

TEST(Verdict, TheCodesOfInterruptsMeanThatAllIsSaved) {
  const RankEnd saved{.rank = 0, .code = 143};
  const Outcome killed = judge({saved, {.rank = 1, .signal = SIGKILL, .by_us = true}}, SIGTERM);
  EXPECT_EQ(killed.exit_code, os::kEndedUnsaved);
  EXPECT_THAT(killed.cause, HasSubstr("rank 1 was killed before it had saved"));
  const Outcome unbegun = judge(
      {{.rank = 1, .signal = SIGTERM}, {.rank = 0, .signal = SIGKILL, .by_us = true}}, SIGTERM);
  EXPECT_EQ(unbegun.exit_code, 143);
  EXPECT_THAT(unbegun.cause, HasSubstr("rank 1 had not begun when SIGTERM came"));
}

TEST(Verdict, WhoDidNotAnswerIsBlamedAndNotWhoSaysSo) {
  const Outcome outcome = judge({{.rank = 0, .code = kLost, .lost = 1, .doing = "step 7"}}, 0);
  EXPECT_EQ(outcome.exit_code, kLost);
  EXPECT_EQ(outcome.rank, 1);
  EXPECT_THAT(outcome.cause, HasSubstr("rank 1 did not answer rank 0"));
  const std::vector<RankEnd> both = {{.rank = 0, .code = kLost, .lost = 1},
                                     {.rank = 1, .signal = SIGSEGV}};
  EXPECT_EQ(judge(both, 0).signal, SIGSEGV) << "it is an echo still";
}

TEST(Verdict, AKillForLackOfMemoryIsNamed) {
  const Outcome outcome = judge({{.rank = 1, .signal = SIGKILL, .starved = true}}, 0);
  EXPECT_EQ(outcome.exit_code, 6) << "the same command would fail again";
  EXPECT_THAT(outcome.cause, HasSubstr("the kernel killed rank 1 for lack of memory"));
}

TEST(Verdict, ZeroIsNoEndForARankThatOthersNeed) {
  using Early = RankEnd::Early;
  const auto of = [](Early early) { return judge({{.rank = 1, .early = early}}, 0); };
  EXPECT_EQ(of(Early::kNot).exit_code, 0);
  EXPECT_EQ(of(Early::kAtWork).exit_code, 4);
  EXPECT_THAT(of(Early::kAtWork).cause, HasSubstr("rank 1 ended with exit code 0 in the midst"));
  EXPECT_THAT(of(Early::kAlone).cause, HasSubstr("before it had met the others"));
}

TEST(Verdict, ARankThatWeKilledIsNotTheCause) {
  const Outcome outcome =
      judge({{.rank = 2, .code = 4}, {.rank = 0, .signal = SIGKILL, .by_us = true}}, 0);
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.rank, 2);
}

}  // namespace
}  // namespace trireme::elastic::launch_test
