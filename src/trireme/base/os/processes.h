// Child processes, as an interface: nothing blocks, and changes are reported as events.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace trireme::os {

struct Spawn {
  std::vector<std::string> command;      // an absolute path and its arguments
  std::vector<std::string> environment;  // "KEY=VALUE"
  bool capture = false;                  // its output comes as lines; else it goes where ours does
  std::vector<int> keep{};               // descriptors that it has under the same numbers
};

struct ProcessEvent {
  enum class Kind { kLine, kEnded, kSignal };
  Kind kind = Kind::kEnded;
  int pid = 0;         // of kLine and kEnded
  std::string line{};  // without its newline
  int code = 0;        // of kEnded
  int signal = 0;      // of kEnded: that killed it, else 0; of kSignal: a stop signal, sent to us
};

// Children get SIGKILL when the thread that started them ends. They have process groups of their own and accept all
// stop signals. The terminal's Ctrl-C reaches them through us, once, and signals that we ignore do not reach them.
class Processes {
 public:
  virtual ~Processes() = default;

  // Throws Error{kUsage} when it cannot be started. A child that is stopped for a second before it has become its
  // program shows its failure later: it ends with 127 then.
  virtual int spawn(const Spawn& what) = 0;
  // To a child that has ended: nothing.
  virtual void signal(int pid, int number) = 0;

  // Events since the last call; a child's lines come before its end.
  virtual std::vector<ProcessEvent> take() = 0;
  // Can be read when take() would return something.
  virtual int descriptor() const = 0;
};

// Processes of the kernel. While it lives stop signals (os::stop_signals) and SIGCHLD are events of it alone; the
// process must have one thread when it is made. The destructor kills and awaits children that still run.
std::unique_ptr<Processes> make_processes();

}  // namespace trireme::os
