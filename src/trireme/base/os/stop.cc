#include "trireme/base/os/stop.h"

#include <fmt/core.h>
#include <string.h>

namespace trireme::os {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

}  // namespace

sigset_t stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : kStopSignals) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      ::sigaddset(&set, number);
  }
  return set;
}

void restore_stop_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (const int number : kStopSignals) ::sigaction(number, &action, nullptr);
}

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

StopRequest::Means StopRequest::take(int number, double now_s) {
  if (signal_ == 0) {
    signal_ = number;
    since_s_ = now_s;
    return Means::kSave;
  }
  if (at_once_ || number != SIGINT || now_s - since_s_ < kSame_s) return Means::kNothing;
  at_once_ = true;
  return Means::kAtOnce;
}

std::string StopRequest::note() const {
  return fmt::format(
      "{} received: the run finishes its step, saves a checkpoint and ends; a further SIGINT "
      "(Ctrl-C) ends it at once, without saving",
      signal_name(signal_));
}

}  // namespace trireme::os
