#include "trireme/base/os/fork_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string_view>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/os/processes.h"
#include "trireme/base/os/wait.h"

namespace trireme::os::fork_server_test {
namespace {

using ::testing::ElementsAre;
using Kind = ProcessEvent::Kind;

// The server of these tests: its copies execute what they are asked to, with a variable that says that they are copies.
int execute(const Copy& copy) {
  std::vector<char*> words, entries;
  for (const std::string& word : copy.command) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : copy.environment)
    entries.push_back(const_cast<char*>(entry.c_str()));
  std::string mark = "COPIED=yes";
  entries.push_back(mark.data());
  words.push_back(nullptr);
  entries.push_back(nullptr);
  ::execve(words[0], words.data(), entries.data());
  return 99;
}

Spawn server() {
  return {.command = {"/proc/self/exe", "serve-forks"}, .environment = {}, .serves_forks = true};
}

Spawn shell(const std::string& script, int copy_of) {
  return {.command = {"/bin/sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin", "WORD=hello = you"},
          .capture = true,
          .copy_of = copy_of};
}

struct Ending {
  std::vector<std::string> lines;
  int code = 0, signal = 0;
};

Ending end_of(Processes& processes, int pid) {
  Ending ending;
  for (;;) {
    wait({processes.descriptor()}, 60);
    for (const ProcessEvent& event : processes.take()) {
      if (event.pid != pid) continue;
      if (event.kind == Kind::kLine) ending.lines.push_back(event.line);
      if (event.kind != Kind::kEnded) continue;
      ending.code = event.code;
      ending.signal = event.signal;
      return ending;
    }
  }
}

// Until copies of `pid` begin as such.
void await(Processes& processes, int pid) {
  for (;;) {
    const int copy = processes.spawn(shell("test \"$COPIED\" = yes", pid));
    if (end_of(processes, copy).code == 0) return;
  }
}

TEST(ForkServer, ACopyIsAChildLikeAnyOther) {
  const auto processes = make_processes();
  const int pid = processes->spawn(server());
  await(*processes, pid);
  const int copy = processes->spawn(
      shell("echo $COPIED $WORD; echo $PPID $$ >&2; cut -d' ' -f5 /proc/$$/stat; exit 7", pid));
  const Ending ending = end_of(*processes, copy);
  EXPECT_THAT(ending.lines, ElementsAre("yes hello = you",
                                        std::to_string(::getpid()) + " " + std::to_string(copy),
                                        std::to_string(copy)));
  EXPECT_EQ(ending.code, 7);
  const int sleeper = processes->spawn(shell("exec sleep 60", pid));
  processes->signal(sleeper, SIGTERM);
  EXPECT_EQ(end_of(*processes, sleeper).signal, SIGTERM);
}

TEST(ForkServer, ACopyHasTheDescriptorsThatAreKeptAndNoOthers) {
  const auto processes = make_processes();
  const int pid = processes->spawn(server());
  await(*processes, pid);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::dup3(ends[0], 17, O_CLOEXEC), 17);
  ASSERT_EQ(::write(ends[1], "secret\nsecret\n", 14), 14);
  Spawn with = shell("read x < /proc/self/fd/17; echo got $x; cd /proc/$$/fd; echo *", pid);
  with.keep = {17};
  const Ending ending = end_of(*processes, processes->spawn(with));
  EXPECT_EQ(ending.lines.at(0), "got secret");
  with.copy_of = 0;
  EXPECT_EQ(ending.lines, end_of(*processes, processes->spawn(with)).lines);
  for (const int fd : {ends[0], ends[1], 17}) ::close(fd);
}

TEST(ForkServer, WhereItIsGoneOrStoppedAProcessBeginsByItself) {
  const auto processes = make_processes();
  const std::string say = "echo ${COPIED:-no}";
  const int early = processes->spawn(server());
  processes->signal(early, SIGKILL);
  EXPECT_THAT(end_of(*processes, processes->spawn(shell(say, early))).lines, ElementsAre("no"));
  const int stopped = processes->spawn(server());
  await(*processes, stopped);
  processes->signal(stopped, SIGSTOP);
  EXPECT_THAT(end_of(*processes, processes->spawn(shell(say, stopped))).lines, ElementsAre("no"));
  EXPECT_NE(::kill(stopped, 0), 0) << "of no use any more";
}

bool is_there(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return stat >> number >> name >> state && state != "Z";
}

TEST(ForkServer, CopiesEndWithWhoAskedForThem) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    const auto processes = make_processes();
    const int pid = processes->spawn(server());
    await(*processes, pid);
    const int copy = processes->spawn(shell("exec sleep 60", pid));
    const int both[] = {pid, copy};
    (void)!::write(ends[1], both, sizeof both);
    ::raise(SIGKILL);
  }
  ::close(ends[1]);
  int both[2] = {0, 0};
  ASSERT_EQ(::read(ends[0], both, sizeof both), static_cast<ssize_t>(sizeof both));
  ::close(ends[0]);
  ::waitpid(agent, nullptr, 0);
  for (int look = 0; look < 1000 && (is_there(both[0]) || is_there(both[1])); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_there(both[0]));
  EXPECT_FALSE(is_there(both[1]));
}

// A child of a copy that outlives it is waited for by nobody else.
TEST(ForkServer, OrphansAreReaped) {
  const auto processes = make_processes();
  const int pid = processes->spawn(server());
  await(*processes, pid);
  const int parent = processes->spawn(shell("sleep 0.3 >/dev/null 2>&1 & echo $!", pid));
  const int orphan = std::stoi(end_of(*processes, parent).lines.at(0));
  for (int look = 0; look < 1000 && ::kill(orphan, 0) == 0; ++look) {
    wait({processes->descriptor()}, 0.01);
    processes->take();
  }
  EXPECT_NE(::kill(orphan, 0), 0);
}

}  // namespace
}  // namespace trireme::os::fork_server_test

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == std::string_view("serve-forks")) {
    const auto copy = trireme::os::serve_forks(std::stoi(argv[2]));
    return copy ? trireme::os::fork_server_test::execute(*copy) : 0;
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
