#include "interrupts.h"

#include <unistd.h>

#include <ctime>

#include "apps/guard.h"
#include "trireme/base/os/clock.h"

namespace trireme::app {

Interrupts::Interrupts(std::function<void(const std::string&)> note) : note_(std::move(note)) {
  ::pthread_sigmask(SIG_BLOCK, &watched_, nullptr);
  constexpr timespec kNoWait{0, 0};
  for (int signal; (signal = ::sigtimedwait(&watched_, nullptr, &kNoWait)) > 0;) take(signal);
  thread_ = std::thread([this] { watch(); });
}

Interrupts::~Interrupts() {
  done_ = true;
  thread_.join();
}

void Interrupts::watch() {
  constexpr timespec kLook{0, 50'000'000};  // how often done_ is looked at
  while (!done_)
    if (const int signal = ::sigtimedwait(&watched_, nullptr, &kLook); signal > 0) take(signal);
}

void Interrupts::take(int signal) {
  using Means = os::StopRequest::Means;
  const Means means = request_.take(signal, os::MonotonicClock().seconds());
  if (means == Means::kSave) {
    first_ = signal;
    if (note_) note_(request_.note());
  }
  if (means != Means::kAtOnce) return;
  print_error("interrupted", "a further SIGINT ended the run at once, without saving");
  ::_exit(os::kEndedUnsaved);
}

}  // namespace trireme::app
