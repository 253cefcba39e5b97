#include "before_training.h"

#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "trireme/base/os/stop.h"

namespace trireme::app {
namespace {

// Only calls that are safe in a handler.
void end_before_training(int number) {
  const auto piece = [](std::string_view text) {
    return iovec{const_cast<char*>(text.data()), text.size()};
  };
  const std::array<iovec, 3> line = {piece("trireme: interrupted: SIG"),
                                     piece(::sigabbrev_np(number)),
                                     piece(" came before training began; nothing new was saved\n")};
  (void)!::writev(2, line.data(), static_cast<int>(line.size()));
  ::_exit(128 + number);
}

}  // namespace

void end_on_stop_signals() {
  const sigset_t taken = os::stop_signals();
  struct sigaction action {};
  action.sa_handler = end_before_training;
  ::sigfillset(&action.sa_mask);
  for (int number = 1; number < NSIG; ++number)
    if (::sigismember(&taken, number) == 1) ::sigaction(number, &action, nullptr);
}

void hold_stop_signals() {
  const sigset_t taken = os::stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &taken, nullptr);
}

}  // namespace trireme::app
