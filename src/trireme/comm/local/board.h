// Board of a group of threads: a rank shows its memory to another, which reads and writes it there.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/bell.h"
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

// The memory of one message. The sender may take it back only while no other rank uses it.
struct alignas(64) Notice {
  enum class State : std::uint32_t { kFree, kPosted, kInUse, kDone, kWithdrawn };
  std::atomic<State> state{State::kFree};
  Stamp stamp;
  std::byte* data = nullptr;
};

// Ranks are positions in the group, except where they are named.
class Board {
 public:
  // `ranks`: the group's, in order.
  Board(std::shared_ptr<LocalFate> fate, std::vector<int> ranks);
  LocalFate& fate() { return *fate_; }
  std::size_t size() const { return ranks_.size(); }
  // The place of a rank in the group, and the rank in a place.
  int position(int rank) const;
  int rank(int position) const { return ranks_[position]; }
  void wake_all();

  // The place of the pair's message of this number; its ranks count for themselves.
  Notice& notice(int from, int to, std::uint64_t number);
  void ring(int rank) { bells_[rank].ring(); }
  // Blocks `self` until ready(), which waits for `peer`. Throws Lost.
  template <typename Ready>
  void wait(int self, int peer, Ready ready);
  // Throws Lost.
  [[noreturn]] void gave_up(int peer) const;
  // Blocks `self` for as long as somebody uses what it has posted, however long.
  void wait_unused(int self, const Notice& notice);

 private:
  // Operations end before the next begins, and none posts more than two messages to one peer.
  static constexpr std::size_t kPlaces = 4;

  std::shared_ptr<LocalFate> fate_;
  std::vector<int> ranks_;
  std::vector<Bell> bells_;
  std::vector<std::array<Notice, kPlaces>> notices_;  // by pair
};

// The transport of the thread at `position` of the group.
std::unique_ptr<Transport> make_local_transport(std::shared_ptr<Board> board, int position,
                                                std::function<void(const std::string&)> abort);

}  // namespace trireme::comm
