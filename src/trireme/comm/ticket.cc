#include "trireme/comm/ticket.h"

#include <utility>

namespace trireme::comm {

bool Ticket::ended() const {
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

Runner* Ticket::runner() const {
  std::lock_guard lock(state_->mutex);
  return state_->done ? nullptr : state_->runner;
}

void Ticket::wait() const {
  if (!state_) return;
  const watch::Waiting waiting(state_->flight.get());
  if (Runner* runner = this->runner()) runner->help([this] { return ended(); });
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->done; });
  if (state_->failure) throw Error(state_->failure->kind, state_->failure->message);
}

bool Ticket::done() const {
  if (!state_) return true;
  if (Runner* runner = this->runner()) runner->help([] { return true; });
  return ended();
}

void Pledge::end(std::optional<Ticket::Failure> failure) {
  Ticket::State& state = *ticket_.state_;
  {
    std::lock_guard lock(state.mutex);
    TRIREME_CHECK(!state.done, "an operation ended twice");
    state.failure = std::move(failure);
    state.done = true;
  }
  // Without the lock, which the woken thread would only run into.
  state.changed.notify_all();
}

}  // namespace trireme::comm
