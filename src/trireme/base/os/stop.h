// Stop signals: SIGINT, SIGTERM, SIGHUP (a closed terminal) and SIGUSR1 (the notice of Slurm's --signal=USR1) ask a program
// to save and end.
#pragma once

#include <signal.h>

#include <string>

namespace trireme::os {

// The stop signals that this process takes. A signal that was ignored when the process began stays ignored, as nohup and
// scripts with jobs in the background want it.
sigset_t stop_signals();
// In a child between fork and exec: the child takes all of them, whatever its parent ignores.
void restore_stop_signals();

// "SIGTERM".
std::string signal_name(int number);

// Exit code of a run that ended without the checkpoint that a stop signal asks for, as of a process that SIGKILL ended.
inline constexpr int kEndedUnsaved = 128 + SIGKILL;

// Requests of stop signals. Pure: it receives no signals and reads no clock.
class StopRequest {
 public:
  enum class Means { kNothing, kSave, kAtOnce };
  // SIGINTs closer together than this are one: terminals and wrappers may deliver one Ctrl-C twice.
  static constexpr double kSame_s = 1;

  // The first signal asks to save and end. A later SIGINT asks to end at once; all others change nothing.
  Means take(int number, double now_s);
  // The first signal; 0: none.
  int signal() const { return signal_; }
  bool at_once() const { return at_once_; }
  // Explains to users the effect of the first signal.
  std::string note() const;

 private:
  int signal_ = 0;
  bool at_once_ = false;
  double since_s_ = 0;
};

}  // namespace trireme::os
