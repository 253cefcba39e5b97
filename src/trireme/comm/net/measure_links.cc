#include "trireme/comm/net/measure_links.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/net/mesh.h"
#include "trireme/comm/net/wire.h"

namespace trireme::comm {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr int kPings = 12;
constexpr double kSilence = 60;  // seconds without any byte after which a measurement has failed
using Block = std::array<std::byte, kBlock>;

// One way of a stream: blocks, of which the first byte says whether it is the last.
class Flow {
 public:
  Flow(Stream& stream, bool sends, bool receives)
      : stream_(stream), sending_(sends), receiving_(receives) {}

  bool over() const { return !sending_ && !receiving_; }
  // Whether bytes moved. After `until` seconds the block that is sent is the last.
  bool advance(const Stopwatch& watch, double until) {
    bool moved = false;
    if (sending_) {
      // Once: TLS may have taken a block of which it reports nothing yet.
      if (!begun_) out_[0] = std::byte{watch.seconds() >= until};
      begun_ = true;
      const std::size_t n = stream_.write(out_.data() + sent_, kBlock - sent_);
      moved |= n > 0;
      sent_ += n;
      if (sent_ == kBlock) {
        sent_ = 0;
        begun_ = false;
        sending_ = out_[0] == std::byte{0};
      }
    }
    if (receiving_) {
      const std::size_t n = stream_.read(in_.data() + got_, kBlock - got_);
      moved |= n > 0;
      got_ += n;
      count(n, watch.seconds(), until);
      if (got_ == kBlock) {
        got_ = 0;
        receiving_ = in_[0] == std::byte{0};
      }
    }
    return moved;
  }
  pollfd waits_for() const {
    const bool out = sending_ && stream_.waits_for_space(true);
    return {stream_.descriptor(), static_cast<short>((out ? POLLOUT : 0) | POLLIN), 0};
  }
  bool is_ready() const { return receiving_ && stream_.has_pending(); }
  // Bytes a second of what came after the first quarter of the time, in which windows grow and buffers fill.
  double rate() const { return last_ > first_ ? bytes_ / (last_ - first_) : 0; }

 private:
  void count(std::size_t bytes, double now, double until) {
    if (bytes == 0 || now < until / 4) return;
    if (first_ < 0) {
      first_ = now;
    } else {
      bytes_ += static_cast<double>(bytes);
    }
    last_ = now;
  }

  Stream& stream_;
  bool sending_, receiving_, begun_ = false;
  Block out_{}, in_{};
  std::size_t sent_ = 0, got_ = 0;
  double bytes_ = 0, first_ = -1, last_ = -1;
};

// Moves all until every flow has had its last block.
void run(const std::vector<std::unique_ptr<Flow>>& flows, double seconds) {
  const Stopwatch watch;
  double moved_at = 0;
  for (;;) {
    bool moved = false, ready = false;
    std::vector<pollfd> waiting;
    for (const auto& flow : flows) {
      if (flow->over()) continue;
      moved |= flow->advance(watch, seconds);
      ready |= flow->is_ready();
      if (!flow->over()) waiting.push_back(flow->waits_for());
    }
    if (waiting.empty()) return;
    if (moved) moved_at = watch.seconds();
    if (watch.seconds() - moved_at > kSilence) throw std::runtime_error("no byte for 60 s");
    if (!moved && !ready) ::poll(waiting.data(), waiting.size(), 100);
  }
}

void move_byte(Stream& stream, bool out) {
  const Stopwatch watch;
  std::byte byte{};
  while ((out ? stream.write(&byte, 1) : stream.read(&byte, 1)) == 0) {
    if (watch.seconds() > kSilence) throw std::runtime_error("no answer for 60 s");
    const bool space = stream.waits_for_space(out);
    pollfd waiting{stream.descriptor(), static_cast<short>(space ? POLLIN | POLLOUT : POLLIN), 0};
    ::poll(&waiting, 1, 100);
  }
}

// Seconds of a byte there and back, at best.
double ping(Stream& stream, bool begins) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kPings; ++i) {
    const Stopwatch watch;
    move_byte(stream, begins);
    move_byte(stream, !begins);
    least = std::min(least, watch.seconds());
  }
  return least;
}

class LinkMeasurement {
 public:
  LinkMeasurement(Rendezvous& rendezvous, double seconds)
      : rendezvous_(rendezvous),
        own_(rendezvous.config().rank),
        size_(rendezvous.config().size),
        seconds_(seconds) {}

  algorithm::Links measure() {
    for (int rank = 0; rank < size_; ++rank) {
      const std::string name = rendezvous_.text_of(rank, "link", rendezvous_.config().link_name);
      if (std::ranges::find(links_.hosts, name, &algorithm::HostLink::name) != links_.hosts.end())
        fail(ErrorKind::kUsage,
             "two hosts are called {}; give each its own name in the environment variable "
             "TRIREME_HOST",
             name);
      links_.hosts.push_back({.name = name});
    }
    std::optional<Tls> tls;
    if (!rendezvous_.config().agent_token.empty()) tls.emplace(rendezvous_.config().agent_token);
    std::vector<int> others;
    for (int rank = 0; rank < size_; ++rank)
      if (rank != own_) others.push_back(rank);
    // As many as training has: a stream that loses packets does not fill a link.
    mesh_ = std::make_unique<Mesh>(rendezvous_, others, net::kDataStreams, tls ? &*tls : nullptr);
    streams_ = mesh_->connect();
    for (int from = 0; from < size_; ++from)
      for (int to = 0; to < size_; ++to)
        if (from != to) links_.pairs.push_back(alone(from, to));
    for (int rank = 0; rank < size_; ++rank) rendezvous_.text_of(rank, "all at once", "ready");
    at_once();
    return links_;
  }

 private:
  using Flows = std::vector<std::unique_ptr<Flow>>;

  // Adds flows on all streams of the rank.
  void add_flows(Flows& flows, int rank, bool sends, bool receives) {
    for (const auto& stream : streams_.at(rank))
      flows.push_back(std::make_unique<Flow>(*stream, sends, receives));
  }
  static double rate(std::span<const std::unique_ptr<Flow>> flows) {
    double rate = 0;
    for (const auto& flow : flows) rate += flow->rate();
    return rate;
  }

  // The receiver knows the rate, and all read it: a pair begins when the one before has ended.
  algorithm::PairLink alone(int from, int to) {
    std::string found;
    if (own_ == from || own_ == to) {
      const int other = own_ == from ? to : from;
      const double there_and_back = ping(*streams_.at(other).front(), own_ == from);
      Flows flows;
      add_flows(flows, other, own_ == from, own_ == to);
      run(flows, seconds_);
      found =
          fmt::format("{} {} {}", rate(flows), there_and_back / 2, mesh_->relayed(other) ? 1 : 0);
    }
    const std::string text = rendezvous_.text_of(to, fmt::format("pair from {}", from), found);
    algorithm::PairLink pair{.from = from, .to = to};
    std::istringstream(text) >> pair.rate >> pair.latency_s >> pair.relayed;
    for (const int host : {from, to})
      links_.hosts[host].latency_s = std::max(links_.hosts[host].latency_s, pair.latency_s);
    links_.hosts[from].up = std::max(links_.hosts[from].up, pair.rate);
    links_.hosts[to].down = std::max(links_.hosts[to].down, pair.rate);
    return pair;
  }

  void at_once() {
    Flows flows;
    for (const auto& [rank, streams] : streams_) add_flows(flows, rank, true, true);
    run(flows, seconds_);
    std::map<int, double> from;
    for (std::span<const std::unique_ptr<Flow>> rest = flows;
         const auto& [rank, streams] : streams_) {
      from[rank] = rate(rest.first(streams.size()));
      rest = rest.subspan(streams.size());
    }
    std::vector<double> up(links_.hosts.size());
    for (int to = 0; to < size_; ++to) {
      std::string mine;
      for (int rank = 0; rank < size_; ++rank)
        mine += fmt::format("{} ", to == own_ && rank != own_ ? from.at(rank) : 0.0);
      std::istringstream rates(rendezvous_.text_of(to, "rates at once", mine));
      double down = 0;
      for (int rank = 0; rank < size_; ++rank) {
        double rate = 0;
        rates >> rate;
        down += rate;
        up[rank] += rate;
        for (const algorithm::PairLink& pair : links_.pairs)
          if (pair.from == rank && pair.to == to && pair.relayed) links_.relay += rate;
      }
      links_.hosts[to].down = std::max(links_.hosts[to].down, down);
    }
    for (int rank = 0; rank < size_; ++rank)
      links_.hosts[rank].up = std::max(links_.hosts[rank].up, up[rank]);
  }

  Rendezvous& rendezvous_;
  int own_, size_;
  double seconds_;
  std::unique_ptr<Mesh> mesh_;
  Streams streams_;
  algorithm::Links links_;
};

}  // namespace

algorithm::Links measure_links(Rendezvous& rendezvous, double seconds) {
  try {
    return LinkMeasurement(rendezvous, seconds).measure();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(ErrorKind::kPeerLost, "rank {}: links could not be measured: {}", rendezvous.config().rank,
         error.what());
  }
}

}  // namespace trireme::comm
