#include "trireme/base/os/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "tests/harness/needs.h"

namespace trireme::os::stack_test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::atomic<bool> never{false};

// Not inlined, and it comes back: its frame stays.
__attribute__((noinline)) void stuck_in_user_code() {
  while (!never) ::usleep(1000);
  ::raise(SIGABRT);
}

class Child {
 public:
  Child() : process_(::fork()) {
    if (process_ != 0) return;
    stuck_in_user_code();
    ::_exit(0);
  }
  ~Child() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  int process() const { return process_; }

 private:
  pid_t process_;
};

#ifdef TRIREME_DW
std::string refusal(const std::vector<std::string>& lines) {
  const bool refused = std::ranges::any_of(lines, [](const std::string& line) {
    return line.find("Operation not permitted") != std::string::npos;
  });
  return refused ? "this machine does not allow it (Yama, seccomp); runs where it does" : "";
}
#endif

TEST(Stack, NamesWhereAProcessIs) {
  const Child child;
  ::usleep(20'000);
  const auto lines = stacks(child.process());
#ifdef TRIREME_DW
  TRIREME_NEEDS("ptrace of children", refusal(lines));
  EXPECT_THAT(lines, Contains(HasSubstr("stuck_in_user_code()")));
#else
  EXPECT_THAT(lines, ElementsAre(HasSubstr("without libdw")));
#endif
  EXPECT_THAT(std::string("RS"), HasSubstr(std::string(1, process_state(child.process()))))
      << "it goes on afterwards";
}

// Which cannot tell anything by itself.
TEST(Stack, OfAStoppedProcess) {
  const Child child;
  ::usleep(20'000);
  ::kill(child.process(), SIGSTOP);
  ::waitpid(child.process(), nullptr, WUNTRACED);
  EXPECT_EQ(process_state(child.process()), 'T');
#ifdef TRIREME_DW
  const auto lines = stacks(child.process());
  TRIREME_NEEDS("ptrace of children", refusal(lines));
  EXPECT_THAT(lines, Contains(HasSubstr("stuck_in_user_code()")));
#endif
  ::usleep(100'000);
  EXPECT_EQ(process_state(child.process()), 'T') << "it does not go on";
}

TEST(Stack, OfNobody) {
  int gone = 0;
  {
    const Child child;
    gone = child.process();
  }
  EXPECT_EQ(process_state(gone), 'X');
  EXPECT_THAT(stacks(gone), ElementsAre(HasSubstr("no stack of process")));
}

}  // namespace
}  // namespace trireme::os::stack_test
