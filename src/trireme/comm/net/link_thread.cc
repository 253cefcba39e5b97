#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "trireme/base/os/unsent.h"
#include "trireme/comm/net/link.h"

// The link's thread: receives, and sends when a socket has space.
namespace trireme::comm {

using net::bytes_of_chunk;
using net::chunk_size;
using net::chunks_of;
using net::Control;
using net::Inbound;
using net::kInline;
using net::kMostChunk;
using net::Outbound;
using net::Piece;

namespace {

constexpr double kEnding = 2;  // seconds without data between the ends of a peer's streams
constexpr const char* kNonsense = "it sent what no rank sends";

void check_return(const Stamp& stamp) {
  if (stamp.way != Way::kThereAndBack || stamp.bytes == 0) throw std::runtime_error(kNonsense);
}

void check_announcement(const net::Peer& peer, const Control& control) {
  constexpr std::size_t kFarAhead = std::size_t{1} << 18;
  const Stamp& stamp = control.stamp;
  const auto arrival = peer.arrivals.find(control.id);
  const bool known = arrival != peer.arrivals.end() && arrival->second->announced;
  if (known || peer.early.contains(control.id) ||
      control.bytes != (stamp.bytes <= kInline ? stamp.bytes : 0) || stamp.verb > Verb::kBarrier ||
      stamp.reduce > Reduce::kAvg || stamp.way > Way::kThereAndBack || stamp.type > DType::kU8)
    throw std::runtime_error(kNonsense);
  if (peer.early.size() >= kFarAhead)
    throw std::runtime_error("it is more than 262144 messages ahead");
}

}  // namespace

void SocketLink::run() {
  constexpr int kLook = 500, kMost = 64;
  epoll_event events[kMost];
  const auto read_ahead = [this] {
    std::lock_guard lock(mutex_);
    return pending_;
  };
  while (!stopping_) {
    const int count = ::epoll_wait(poll_.get(), events, kMost, read_ahead().empty() ? kLook : 0);
    if (stopping_) return;
    const std::set<Channel*> pending = read_ahead();
    for (Channel* channel : pending) handle(*channel, EPOLLIN);
    for (int i = 0; i < count; ++i) {
      std::uint64_t wakes = 0;
      if (events[i].data.ptr != nullptr)
        handle(*static_cast<Channel*>(events[i].data.ptr), events[i].events);
      else if (::read(wake_.get(), &wakes, sizeof wakes) < 0)
        continue;
    }
    std::lock_guard lock(mutex_);
    for (auto& [rank, peer] : peers_)
      if (peer->ending && peer->ending->seconds() > kEnding) shut(*peer, peer->why);
  }
}

void SocketLink::handle(Channel& channel, std::uint32_t events) {
  constexpr int kReads = 16;  // of one stream before others are looked at
  for (int i = 0; i < kReads && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0; ++i) {
    std::lock_guard lock(mutex_);
    if (channel.ended) break;
    try {
      if (!(channel.control ? read_control(channel) : read_data(channel))) break;
    } catch (const std::runtime_error& error) {
      end(channel, error.what());
    }
  }
  std::lock_guard lock(mutex_);
  if (!channel.ended && channel.stream->has_pending()) {
    pending_.insert(&channel);
  } else {
    pending_.erase(&channel);
  }
  if (channel.ended) return;
  look_after(channel);
  // Acknowledgements may have made space for further bytes.
  const bool waits = channel.resumable != nullptr && channel.awaits_room;
  if ((events & EPOLLOUT) == 0 && !waits) {
    // An acknowledgement may have found no space.
    if (!channel.awaits_room) await_room(channel, false);
    return;
  }
  channel.control ? flush_controls(*channel.peer) : pump_again(channel);
}

bool SocketLink::read_control(Channel& channel) {
  Inbound& in = channel.in;
  const bool header = in.got < sizeof(Control);
  std::byte* const into = header ? reinterpret_cast<std::byte*>(&in.control) + in.got
                                 : in.small.data() + (in.got - sizeof(Control));
  const std::size_t wanted =
      sizeof(Control) + (header ? std::size_t{0} : in.control.bytes) - in.got;
  if (wanted > 0) {
    const std::size_t n = channel.stream->read(into, wanted);
    if (n == 0) return false;
    in.got += n;
  }
  if (in.got < sizeof(Control)) return true;
  if (in.control.bytes > kInline) throw std::runtime_error(kNonsense);
  if (in.got < sizeof(Control) + in.control.bytes) return true;
  in.got = 0;
  take(*channel.peer, in.control, in.small);
  return true;
}

bool SocketLink::read_data(Channel& channel) {
  Inbound& in = channel.in;
  if (in.got < sizeof(Piece)) {
    const std::size_t n = channel.stream->read(reinterpret_cast<std::byte*>(&in.piece) + in.got,
                                               sizeof(Piece) - in.got);
    if (n == 0) return false;
    if ((in.got += n) == sizeof(Piece)) in.into = destination(*channel.peer, in.piece);
    return true;
  }
  const std::size_t done = in.got - sizeof(Piece);
  std::byte* const into = in.into == nullptr ? unwanted_.data() : in.into + done;
  const std::size_t most = in.into == nullptr ? unwanted_.size() : kMostChunk;
  const std::size_t n = channel.stream->read(into, std::min(most, in.piece.bytes - done));
  if (n == 0) return false;
  in.got += n;
  if (channel.peer->ending) channel.peer->ending.emplace();  // data still comes
  if (done + n < in.piece.bytes) return true;
  in.got = 0;
  if (std::exchange(in.into, nullptr) != nullptr) land(*channel.peer, in.piece);
  in.piece = {};
  return true;
}

void SocketLink::take(Peer& peer, const Control& control, const net::Small& small) {
  const auto departure = peer.departures.find(control.id);
  const bool sends = departure != peer.departures.end();
  switch (control.kind) {
    case Control::Kind::kAnnounce:
      check_announcement(peer, control);
      if (const auto found = peer.arrivals.find(control.id); found != peer.arrivals.end())
        return announce(*found->second, control, small);
      peer.early[control.id] = {control, small};
      return;
    case Control::Kind::kGrant: {
      if (!sends) return;
      Departure& message = *departure->second;
      const std::size_t upto = std::min<std::size_t>(control.upto, chunks_of(message.stamp.bytes));
      for (; message.queued < upto; ++message.queued) {
        const std::size_t chunk = message.queued;
        const auto bytes = static_cast<std::uint32_t>(bytes_of_chunk(message.stamp, chunk));
        peer.pieces.push_back({.piece = {message.id, static_cast<std::uint32_t>(chunk), bytes},
                               .data = message.data + chunk * chunk_size(message.stamp.bytes),
                               .left = &message.left});
      }
      return pump(peer);
    }
    case Control::Kind::kBack:
      if (!sends) return;
      check_return(departure->second->stamp);
      if (control.bytes != departure->second->stamp.bytes) throw std::runtime_error(kNonsense);
      std::memcpy(departure->second->data, small.data(), control.bytes);
      departure->second->returned.mark(0);
      bell_.ring();
      return;
  }
  throw std::runtime_error(kNonsense);
}

void SocketLink::announce(Arrival& arrival, const Control& control, const net::Small& small) {
  arrival.stamp = control.stamp;
  std::memcpy(arrival.small.data(), small.data(), control.bytes);
  arrival.announced = true;
  bell_.ring();
}

std::byte* SocketLink::destination(Peer& peer, const Piece& piece) {
  const auto fits = [&](const Stamp& stamp, std::size_t chunks) {
    if (piece.chunk >= chunks || piece.bytes != bytes_of_chunk(stamp, piece.chunk))
      throw std::runtime_error(kNonsense);
  };
  if (piece.bytes > kMostChunk) throw std::runtime_error(kNonsense);
  if (piece.back != 0) {
    const auto found = peer.departures.find(piece.id);
    if (found == peer.departures.end()) return nullptr;
    check_return(found->second->stamp);
    fits(found->second->stamp, found->second->queued);
    return found->second->data + piece.chunk * chunk_size(found->second->stamp.bytes);
  }
  const auto found = peer.arrivals.find(piece.id);
  if (found == peer.arrivals.end()) return nullptr;
  fits(found->second->stamp, found->second->granted);
  return found->second->place(piece.chunk);
}

void SocketLink::land(Peer& peer, const Piece& piece) {
  if (piece.back != 0) {
    if (const auto found = peer.departures.find(piece.id); found != peer.departures.end())
      found->second->returned.mark(piece.chunk);
  } else if (const auto found = peer.arrivals.find(piece.id); found != peer.arrivals.end()) {
    found->second->arrived.mark(piece.chunk);
  }
  bell_.ring();
}

void SocketLink::send_control(Peer& peer, const Control& control, const std::byte* small) {
  peer.posted += sizeof control + control.bytes;
  peer.controls.append(reinterpret_cast<const char*>(&control), sizeof control);
  if (control.bytes > 0) peer.controls.append(reinterpret_cast<const char*>(small), control.bytes);
  if (!peer.channels.front().awaits_room) flush_controls(peer);
}

void SocketLink::flush_controls(Peer& peer) {
  Channel& channel = peer.channels.front();
  if (channel.ended) return;
  try {
    constexpr std::size_t kCompact = std::size_t{64} << 10;
    const std::size_t n =
        channel.stream->write(reinterpret_cast<const std::byte*>(peer.controls.data()) + peer.gone,
                              peer.controls.size() - peer.gone);
    bytes_sent_ += static_cast<std::int64_t>(n);
    peer.written += n;
    peer.gone += n;
    if (peer.gone == peer.controls.size() || peer.gone > kCompact)
      peer.controls.erase(0, std::exchange(peer.gone, 0));
    if (n > 0) bell_.ring();
    await_room(channel, !peer.controls.empty());
  } catch (const std::runtime_error& error) {
    end(channel, error.what());
  }
}

// Chunks are added in their order, so the stream with the least on its way takes the next one.
net::Channel* SocketLink::emptiest(Peer& peer) {
  Channel* found = nullptr;
  std::pair<bool, std::size_t> least;
  for (Channel& channel : peer.channels) {
    if (channel.control || channel.ended || channel.awaits_room) continue;
    if (!channel.out && peer.pieces.empty()) continue;
    const std::pair load(channel.is_cut, channel.stream->backlog());
    if (found != nullptr && load >= least) continue;
    found = &channel;
    least = load;
  }
  return found;
}

void SocketLink::pump(Peer& peer) {
  // Others are looked at before the next ones leave.
  constexpr int kPieces = 8;
  Channel* next = nullptr;
  for (int i = 0; i < kPieces && (next = emptiest(peer)) != nullptr; ++i) fill(*next);
  for (Channel& channel : peer.channels) {
    if (channel.control || channel.ended || channel.awaits_room) continue;
    channel.rests = channel.out || !peer.pieces.empty();
    await_room(channel, channel.rests);
  }
}

void SocketLink::pump_again(Channel& channel) {
  channel.awaits_room = false;
  os::keep_little_unsent(channel.stream->descriptor());
  for (Channel& other : channel.peer->channels)
    if (std::exchange(other.rests, false)) other.awaits_room = false;
  pump(*channel.peer);
}

void SocketLink::fill(Channel& channel) {
  Peer& peer = *channel.peer;
  try {
    if (!channel.out) {
      channel.out = peer.pieces.front();
      peer.pieces.pop_front();
    }
    if (!advance(channel, *channel.out)) return await_room(channel, true);
    channel.out->left->mark(channel.out->piece.chunk);
    channel.out.reset();
    bell_.ring();
  } catch (const std::runtime_error& error) {
    end(channel, error.what());
  }
}

bool SocketLink::advance(Channel& channel, Outbound& out) {
  const std::size_t total = sizeof(Piece) + out.piece.bytes;
  out.offered = true;
  while (out.sent < total) {
    const bool header = out.sent < sizeof(Piece);
    const std::size_t n =
        header ? channel.stream->write(reinterpret_cast<const std::byte*>(&out.piece) + out.sent,
                                       sizeof(Piece) - out.sent, true)
               : channel.stream->write(out.data + (out.sent - sizeof(Piece)), total - out.sent);
    if (n == 0) return false;
    bytes_sent_ += static_cast<std::int64_t>(n);
    out.sent += n;
  }
  return true;
}

void SocketLink::await_room(Channel& channel, bool wanted) {
  channel.awaits_room = wanted;
  const bool keeps = !channel.stream->flush();
  look_after(channel);
  const bool watches = keeps || (wanted && channel.stream->accepts());
  if (channel.is_cut || channel.watches_space == watches) return;
  channel.watches_space = watches;
  epoll_event event{.events = static_cast<std::uint32_t>(watches ? EPOLLIN | EPOLLOUT : EPOLLIN),
                    .data = {.ptr = &channel}};
  ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, channel.stream->descriptor(), &event);
}

void SocketLink::look_after(Channel& channel) {
  if (channel.resumable == nullptr || channel.is_cut || !channel.resumable->is_cut()) return;
  channel.is_cut = true;
  const auto place = &channel - channel.peer->channels.data();
  mesh_->reconnect(channel.peer->rank, static_cast<int>(place));
}

void SocketLink::end(Channel& channel, const std::string& why) {
  Peer& peer = *channel.peer;
  channel.ended = true;
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, channel.stream->descriptor(), nullptr);
  if (!peer.ending) {
    peer.ending.emplace();
    peer.why = why;
  }
  // The others may hold data yet that was sent before.
  if (std::ranges::all_of(peer.channels, &Channel::ended)) shut(peer, peer.why);
}

void SocketLink::shut(Peer& peer, const std::string& why) {
  if (peer.broken) return;
  peer.why = why;
  for (Channel& channel : peer.channels) {
    if (!channel.ended)
      ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, channel.stream->descriptor(), nullptr);
    channel.ended = true;
    channel.out.reset();
    channel.stream->shut();
  }
  peer.pieces.clear();
  peer.ending.reset();
  peer.broken = true;
  bell_.ring();
}

}  // namespace trireme::comm
