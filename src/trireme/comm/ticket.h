// Ticket: the promise that an asynchronous communication will end, well or with a named Error.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/launch/watch/recorder.h"

namespace trireme::comm {

// Runs an operation.
class Runner {
 public:
  virtual ~Runner() = default;
  // Begins a submitted operation now, whether or not a thread waits for it.
  virtual void begin() = 0;
  // As begin(); the calling thread may do the work itself until ended().
  virtual void help(const std::function<bool()>& ended) = 0;
};

// Handle of an operation, returned by a Group. Copyable; copies refer to the same operation. The operation uses its
// buffers until wait() has returned or thrown. Before that do not write its inputs, do not touch its outputs, and free
// neither.
class Ticket {
 public:
  // A ticket that is done already.
  Ticket() = default;

  // Blocks until the operation has ended; throws its Error (every time) if it failed.
  void wait() const;

  // True once wait() would not block.
  bool done() const;

 private:
  friend class Pledge;
  struct Failure {
    ErrorKind kind;
    std::string message;
  };
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::optional<Failure> failure;
    Runner* runner = nullptr;                 // lives until done at least
    std::shared_ptr<watch::Recorder> flight;  // of the rank that waits; may be null
  };
  bool ended() const;
  Runner* runner() const;
  std::shared_ptr<State> state_;
};

// The side of a ticket that a back end keeps: it ends the operation exactly once.
class Pledge {
 public:
  explicit Pledge(Runner* runner = nullptr, std::shared_ptr<watch::Recorder> flight = nullptr) {
    ticket_.state_ = std::make_shared<Ticket::State>();
    ticket_.state_->runner = runner;
    ticket_.state_->flight = std::move(flight);
  }
  const Ticket& ticket() const { return ticket_; }
  void keep() { end(std::nullopt); }
  void fail(const Error& error) { end(Ticket::Failure{error.kind(), error.what()}); }

 private:
  void end(std::optional<Ticket::Failure> failure);
  Ticket ticket_;
};

}  // namespace trireme::comm
