#include "trireme/base/os/processes.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/harness/needs.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/os/wait.h"

namespace trireme::os::processes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = ProcessEvent::Kind;

Spawn shell(const std::string& script) {
  return {.command = {"/bin/sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin", "WORD=hello"},
          .capture = true};
}

// What happens up to and with the next event of this kind.
std::vector<ProcessEvent> until(Processes& processes, Kind kind) {
  std::vector<ProcessEvent> all;
  for (;;) {
    wait({processes.descriptor()}, 60);
    for (ProcessEvent& event : processes.take()) all.push_back(std::move(event));
    for (const ProcessEvent& event : all)
      if (event.kind == kind) return all;
  }
}

TEST(Processes, LinesComeBeforeTheEnd) {
  const auto processes = make_processes();
  const int pid = processes->spawn(shell("echo $WORD; echo second >&2; printf unfinished; exit 7"));
  const auto events = until(*processes, Kind::kEnded);
  std::vector<std::string> lines;
  for (const ProcessEvent& event : events) {
    EXPECT_EQ(event.pid, pid);
    if (event.kind == Kind::kLine) lines.push_back(event.line);
  }
  EXPECT_THAT(lines, ElementsAre("hello", "second", "unfinished"));
  EXPECT_EQ(events.back().kind, Kind::kEnded);
  EXPECT_EQ(events.back().code, 7);
  EXPECT_EQ(events.back().signal, 0);
}

TEST(Processes, TellsWhatKilledAChild) {
  const auto processes = make_processes();
  const int pid = processes->spawn(shell("exec sleep 60"));
  processes->signal(pid, SIGKILL);
  EXPECT_EQ(until(*processes, Kind::kEnded).back().signal, SIGKILL);
  processes->signal(pid, SIGKILL);  // its number may be somebody else's by now
}

TEST(Processes, SignalsToUsAreEventsAndNotThoseOfChildren) {
  const auto processes = make_processes();
  ::raise(SIGTERM);
  EXPECT_EQ(until(*processes, Kind::kSignal).back().signal, SIGTERM);
  // The child has the mask of before: it dies.
  const int pid = processes->spawn(shell("exec sleep 60"));
  processes->signal(pid, SIGTERM);
  EXPECT_EQ(until(*processes, Kind::kEnded).back().signal, SIGTERM);
}

// Stops every process that `parent` forks, before its first instruction, and lets go of all when it is killed. Empty, or
// why it cannot.
std::string stop_forks_of(pid_t parent) {
  if (::ptrace(PTRACE_SEIZE, parent, nullptr, PTRACE_O_TRACEFORK) != 0)
    return fmt::format("ptrace: {}", std::strerror(errno));
  return "";
}

// A parent must not wait for a child that somebody has stopped before it could become its program.
TEST(Processes, AChildThatIsStoppedBeforeItsProgramHoldsUpNobody) {
  const auto processes = make_processes();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t parent = ::getpid();
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    const std::string refused = stop_forks_of(parent);
    const char begun = refused.empty() ? 'y' : 'n';
    (void)!::write(ends[1], &begun, 1);
    int status = 0;
    // The parent goes on after its fork; what it forks is never let go.
    while (::waitpid(parent, &status, 0) == parent && WIFSTOPPED(status))
      ::ptrace(PTRACE_CONT, parent, nullptr,
               status >> 16 != 0 ? 0 : static_cast<long>(WSTOPSIG(status)));
    ::_exit(0);
  }
  char begun = 'n';
  ASSERT_EQ(::read(ends[0], &begun, 1), 1);
  ::prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  TRIREME_NEEDS("ptrace of children", begun == 'y' ? "" : "a process may not trace its parent");
  const Stopwatch watch;
  const int pid = processes->spawn(shell("exit 7"));
  EXPECT_LT(watch.seconds(), 10);
  EXPECT_THAT(processes->take(), ::testing::IsEmpty());
  ::kill(tracer, SIGKILL);
  const auto events = until(*processes, Kind::kEnded);
  EXPECT_EQ(events.back().pid, pid);
  EXPECT_EQ(events.back().code, 7) << "it goes on as any other";
  for (const int fd : ends) ::close(fd);
  ::waitpid(tracer, nullptr, 0);
}

TEST(Processes, AKeptDescriptorIsThere) {
  const auto processes = make_processes();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  ::fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  ASSERT_EQ(::write(ends[1], "secret\n", 7), 7);
  const std::string read = "read x < /proc/self/fd/" + std::to_string(ends[0]) + " && echo got $x";
  Spawn without = shell(read), with = without;
  with.keep = {ends[0]};
  processes->spawn(without);
  EXPECT_THAT(until(*processes, Kind::kEnded).back().code, ::testing::Ne(0)) << "no such number";
  processes->spawn(with);
  EXPECT_EQ(until(*processes, Kind::kEnded).front().line, "got secret");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Processes, WhatCannotRunIsAnErrorAndNobodyIsLeft) {
  {
    const auto processes = make_processes();
    processes->spawn(shell("exec sleep 60"));
    Spawn missing = shell("");
    missing.command = {"/nowhere/program"};
    try {
      processes->spawn(missing);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("/nowhere/program: No such file"));
    }
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace trireme::os::processes_test
