// Packets on a slow path: each is held for the path's delay, and some are lost.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "trireme/base/hash.h"

namespace trireme::bench {

using Time = std::chrono::nanoseconds;  // on any monotonic clock

class HeldPackets {
 public:
  struct Path {
    Time delay{};     // one way
    double loss = 0;  // share of packets
    std::uint64_t seed = 1;
    std::size_t bytes = 64u << 20;  // held at most; what exceeds them is dropped
  };
  struct Counts {
    std::int64_t taken = 0, lost = 0, dropped = 0, bytes = 0;
  };

  explicit HeldPackets(const Path& path) : path_(path) {}

  // Takes the next packet from sender `from` to receiver `to`. The draw of its loss depends on the seed, the sender and the
  // packet's number alone.
  void take(std::size_t from, std::size_t to, std::span<const std::byte> packet, Time now) {
    if (counts_.size() <= from) counts_.resize(from + 1);
    Counts& counts = counts_[from];
    const std::uint64_t draw = mix(mix(path_.seed, from), static_cast<std::uint64_t>(counts.taken));
    ++counts.taken;
    counts.bytes += static_cast<std::int64_t>(packet.size());
    if (static_cast<double>(draw >> 11) * 0x1p-53 < path_.loss) {
      ++counts.lost;
    } else if (bytes_ + packet.size() > path_.bytes) {
      ++counts.dropped;
    } else {
      bytes_ += packet.size();
      held_.push_back({to, now + path_.delay, {packet.begin(), packet.end()}});
    }
  }

  bool empty() const { return held_.empty(); }
  Time next_release() const { return held_.front().release; }

  // Gives send(to, bytes) the packets whose time has come, in order of arrival.
  template <typename Send>
  void release(Time now, const Send& send) {
    for (; !held_.empty() && held_.front().release <= now; held_.pop_front()) {
      const Packet& packet = held_.front();
      bytes_ -= packet.bytes.size();
      send(packet.to, std::span<const std::byte>(packet.bytes));
    }
  }

  const std::vector<Counts>& counts() const { return counts_; }  // by sender

 private:
  struct Packet {
    std::size_t to = 0;
    Time release{};
    std::vector<std::byte> bytes;
  };

  Path path_;
  std::size_t bytes_ = 0;
  std::deque<Packet> held_;  // one delay for all, so releases are in order
  std::vector<Counts> counts_;
};

}  // namespace trireme::bench
