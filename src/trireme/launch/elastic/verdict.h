// Verdict: what the ends of a host's ranks mean together. Pure: knows no processes and no clock.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::elastic {

inline const int kLost = exit_code(ErrorKind::kPeerLost);
inline constexpr int kSignalled = 128;  // exit codes above: ended by that signal, in order

// How one rank ended: with an exit code, or killed by `signal` (nonzero).
struct RankEnd {
  // It ended with 0 during its work, or before it had met the others, which cannot continue without it.
  enum class Early { kNot, kAtWork, kAlone };
  int rank = 0;
  int code = 0;
  int signal = 0;
  bool by_us = false;    // we killed it because others had failed
  bool starved = false;  // the kernel killed it for lack of memory
  double at_s = 0;       // since the launch
  Early early = Early::kNot;
  int lost = -1;        // the rank that did not answer it; -1: none
  std::string doing{};  // what it was at
  std::string cause{};  // why, where somebody else than the rank knows: of one that never began
};

// The end of all ranks as one exit code. `cause` is one line, empty if the code is 0 or if the deciding rank has
// printed its reason itself.
struct Outcome {
  int exit_code = 0;
  int rank = -1;  // the rank that decided, or that did not answer it; -1: none failed
  std::string cause;
  int signal = 0;       // that killed it, else 0
  std::string doing{};  // what that rank was at, where it is known
  bool operator==(const Outcome&) const = default;
};

// Whether after a rank's end the others cannot continue. `interrupt` is the signal that was forwarded to the ranks, or
// 0.
bool is_failure(const RankEnd& end, int interrupt);

// Judges the ends, given in the order in which they happened. The first failure decides, except that exit code 4 (peer
// lost) yields to another cause: it is an echo. A rank killed by a signal that was not forwarded is exit code 4. One
// that the kernel killed for lack of memory is exit code 6 (the same command would fail again). Without a failure an
// interrupt decides: 128 + signal if the ranks ended by themselves or had not begun, os::kEndedUnsaved if we killed one
// first. Ranks that we killed without an interrupt are exit code 4.
Outcome judge(const std::vector<RankEnd>& ends, int interrupt);

}  // namespace trireme::elastic
