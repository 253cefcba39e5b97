#include "interrupts.h"

#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace trireme::app {
namespace {

sigset_t watched() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

Interrupts::~Interrupts() {
  done_ = true;
  thread_.join();
}

void Interrupts::watch() {
  const sigset_t set = watched();
  constexpr timespec kLook{0, 50'000'000};  // how often done_ is looked at
  while (!done_) {
    const int signal = ::sigtimedwait(&set, nullptr, &kLook);
    if (signal <= 0) continue;
    int none = 0;
    if (!first_.compare_exchange_strong(none, signal) && signal == SIGINT) ::_exit(128 + SIGINT);
  }
}

}  // namespace trireme::app
