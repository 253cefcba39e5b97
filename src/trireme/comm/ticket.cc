#include "trireme/comm/ticket.h"

#include <utility>

namespace trireme::comm {

void Ticket::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [this] { return state_->done; });
  if (state_->failure) throw Error(state_->failure->kind, state_->failure->message);
}

bool Ticket::done() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->done;
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
  state.ended.notify_all();
}

}  // namespace trireme::comm
