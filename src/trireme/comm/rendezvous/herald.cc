#include "trireme/comm/rendezvous/herald.h"

#include <chrono>
#include <utility>
#include <vector>

#include "trireme/comm/rendezvous/agent_store.h"

namespace trireme::comm {
namespace {

using std::chrono::duration;
constexpr auto kPollInterval = std::chrono::milliseconds(100);
constexpr auto kFarewell = std::chrono::seconds(2);
const char* const kCauseKey = "abort";
const char* const kRollCallKey = "roll_call";

std::string present_key(int rank) { return "present/" + std::to_string(rank); }

std::vector<std::uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

Herald::Herald(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
               std::function<void()> on_cause)
    : shared_(std::make_shared<Shared>()) {
  shared_->store = std::move(store);
  shared_->rank = rank;
  shared_->size = size;
  shared_->on_cause = std::move(on_cause);
  thread_ = std::thread([shared = shared_] { shared->run(); });
}

Herald::~Herald() {
  bool stopped = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->on_cause = nullptr;
    shared_->changed.notify_all();
    stopped = shared_->changed.wait_for(lock, kFarewell, [this] { return shared_->stopped; });
  }
  // A thread that is stuck in a hanging store is detached; it owns all it touches.
  stopped ? thread_.join() : thread_.detach();
}

std::optional<std::string> Herald::cause() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->cause;
}

void Herald::publish(const std::string& cause) { shared_->set_cause(cause, true); }

void Herald::await_cause(double seconds) const {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, duration<double>(seconds),
                            [this] { return shared_->cause.has_value(); });
}

std::optional<std::vector<int>> Herald::roll_call(double seconds) {
  std::unique_lock lock(shared_->mutex);
  shared_->calling = true;
  shared_->changed.wait_for(lock, duration<double>(seconds), [this] {
    return shared_->cause.has_value() || (shared_->silent && shared_->silent->empty());
  });
  return shared_->silent;
}

bool Herald::Shared::set_cause(const std::string& text, bool publish) {
  std::function<void()> call;
  {
    std::lock_guard lock(mutex);
    if (cause) return false;
    cause = text;
    unpublished = publish;
    call = on_cause;
    changed.notify_all();
  }
  if (call) call();
  return true;
}

void Herald::Shared::run() {
  std::unique_lock lock(mutex);
  while (!stopping || unpublished) {
    poll(lock);
    if (!unpublished)
      changed.wait_for(lock, kPollInterval, [this] { return stopping || unpublished; });
  }
  lock.unlock();
  try {
    store->add(kLeftKey, 1);
  } catch (const std::exception&) {
    // The store's host left first: there is no one to report to.
  }
  lock.lock();
  stopped = true;
  changed.notify_all();
}

void Herald::Shared::poll(std::unique_lock<std::mutex>& lock) {
  const bool publish = std::exchange(unpublished, false);
  const std::string mine = cause.value_or("");
  const bool call = calling;
  if (cause && !publish) return;
  lock.unlock();
  try {
    if (publish) {
      store->compareSet(kCauseKey, {}, to_bytes(mine));
    } else if (store->check({kCauseKey})) {
      const auto bytes = store->get(kCauseKey);
      set_cause(std::string(bytes.begin(), bytes.end()), false);
    } else {
      answer_roll_call(call);
    }
  } catch (const AgentSilent&) {
    // A rank that waits in vain reports it; this rank's report is sent when the agent continues.
    lock.lock();
    unpublished |= publish;
    return;
  } catch (const std::exception&) {
    set_cause("the key-value store is gone: its host (rank 0, or the launcher) died or left",
              false);
  }
  lock.lock();
}

void Herald::Shared::answer_roll_call(bool call) {
  const std::vector<std::uint8_t> yes = {1};
  if (call && !present) store->set(kRollCallKey, yes);
  if (!present && (call || store->check({kRollCallKey}))) {
    store->set(present_key(rank), yes);
    present = true;
  }
  if (!call) return;
  std::vector<int> absent;
  for (int other = 0; other < size; ++other)
    if (!store->check({present_key(other)})) absent.push_back(other);
  std::lock_guard lock(mutex);
  silent = std::move(absent);
  changed.notify_all();
}

}  // namespace trireme::comm
