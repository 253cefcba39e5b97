// A file system of which the nth call goes wrong.
#pragma once

#include <atomic>
#include <cerrno>
#include <limits>
#include <optional>

#include "trireme/launch/faults/faulty_files.h"

namespace trireme::harness {

enum class FileFault {
  kError,    // fails with an errno
  kShort,    // a write takes one byte; other calls are cut short by a signal
  kLie,      // a write says that it took all, and took nothing; other calls are as they should be
  kTurnBit,  // a write takes another bit than it was given; other calls are as they should be
  kKill,     // this one and all after it do nothing, as if the process had died before
};

// Counts the calls that change something, but those that close. Any thread may use it.
class FailingFiles : public faults::FaultyFiles {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  explicit FailingFiles(os::FileSystem& inner)
      : FaultyFiles(
            inner, [this](faults::DiskCall call) { return decide(call); },
            [](const faults::Fault&) {}) {}

  // The nth call from now, from 0.
  void fail(int nth, FileFault fault, int error = EIO) {
    using faults::Action;
    const auto to = [](Action action, int amount) {
      return faults::Fault{.action = action, .amount = amount};
    };
    of_writes_ = fault == FileFault::kShort     ? to(Action::kShort, 1)
                 : fault == FileFault::kLie     ? to(Action::kLie, 0)
                 : fault == FileFault::kTurnBit ? to(Action::kFlip, 0)
                 : fault == FileFault::kKill    ? to(Action::kError, EIO)
                                                : to(Action::kError, error);
    of_others_ = fault == FileFault::kShort ? to(Action::kError, EINTR) : of_writes_;
    kills_ = fault == FileFault::kKill;
    calls_ = 0;
    nth_ = nth;
  }
  int calls() const { return calls_; }

 private:
  const faults::Fault* decide(faults::DiskCall call) {
    if (call == faults::DiskCall::kClose) return nullptr;
    const int number = calls_++;
    if (number < nth_ || (number > nth_ && !kills_)) return nullptr;
    if (call == faults::DiskCall::kWrite) return &of_writes_;
    return of_others_.action == faults::Action::kError ? &of_others_ : nullptr;
  }

  std::atomic<int> calls_ = 0;
  std::atomic<int> nth_ = kNever;
  bool kills_ = false;
  faults::Fault of_writes_, of_others_;
};

}  // namespace trireme::harness
