// Mailboxes of a group of threads: where senders put parcels and receivers find them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/transport.h"

namespace trireme::comm {

// The fate of a world of threads: healthy until somebody aborts it.
class LocalFate {
 public:
  explicit LocalFate(double timeout_s) : timeout_s_(timeout_s) {}
  double timeout_s() const { return timeout_s_; }
  bool aborted() const { return aborted_; }
  std::optional<std::string> cause() const;
  // True for the first cause.
  bool abort(const std::string& cause);

 private:
  double timeout_s_;
  mutable std::mutex mutex_;
  std::optional<std::string> cause_;
  std::atomic<bool> aborted_ = false;
};

// The memory of one message. The sender may take it back only while nobody reads it.
struct Parcel {
  enum class State { kPosted, kReading, kDone, kWithdrawn };
  Stamp stamp;
  const std::byte* data = nullptr;
  State state = State::kPosted;  // under the sender's box mutex
};

// The mailboxes of one group. Each rank's thread waits on its own box only.
class Mailboxes {
 public:
  Mailboxes(std::shared_ptr<LocalFate> fate, int size);
  LocalFate& fate() { return *fate_; }
  void wake_all();

  std::shared_ptr<Parcel> post(int from, int to, const Stamp& stamp, const std::byte* data);
  // The next parcel of the pair; blocks. Throws Lost.
  std::shared_ptr<Parcel> take(int from, int to);
  // False if the sender has withdrawn it.
  bool begin_reading(int from, Parcel& parcel);
  void end_reading(int from, Parcel& parcel);
  // Blocks until the receiver has read it. Throws Lost.
  void wait_read(int from, int to, Parcel& parcel);
  // Afterwards nobody reads the parcel's memory.
  void withdraw(int from, Parcel& parcel);

 private:
  struct Box {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::deque<std::shared_ptr<Parcel>>> inbox;  // by sender
  };
  template <typename Ready>
  void wait(Box& box, std::unique_lock<std::mutex>& lock, int peer, Ready ready);
  Box& box(int rank) { return boxes_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<LocalFate> fate_;
  std::vector<Box> boxes_;
};

// The transport of rank `rank` of a group of threads.
std::unique_ptr<Transport> make_local_transport(std::shared_ptr<Mailboxes> mailboxes, int rank,
                                                std::function<void(const std::string&)> abort);

}  // namespace trireme::comm
