#include "trireme/env/processes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/base/error.h"
#include "trireme/env/wait.h"

namespace trireme::env::processes_test {
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
}  // namespace trireme::env::processes_test
