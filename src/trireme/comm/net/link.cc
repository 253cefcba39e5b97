#include "trireme/comm/net/link.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::comm {

using net::chunks_of;
using net::Control;
using net::kChunk;
using net::kInline;
using net::MessageId;
using net::Piece;

namespace {

constexpr double kEnding = 2;  // seconds between the ends of a peer's streams

std::vector<int> all_others(const RendezvousConfig& config) {
  std::vector<int> ranks;
  for (int rank = 0; rank < config.size; ++rank)
    if (rank != config.rank) ranks.push_back(rank);
  return ranks;
}

std::size_t bytes_of_chunk(const Stamp& stamp, std::size_t chunk) {
  return std::min<std::size_t>(kChunk, stamp.bytes - chunk * kChunk);
}

// OpenSSL writes to sockets whose other end may be gone.
void check_sigpipe() {
  struct sigaction now {};
  ::sigaction(SIGPIPE, nullptr, &now);
  TRIREME_CHECK(now.sa_handler != SIG_DFL,
                "a lost rank would end this one by SIGPIPE; ignore that before ranks connect");
}

}  // namespace

SocketLink::SocketLink(std::shared_ptr<Rendezvous> rendezvous, const Options& options)
    : rendezvous_(std::move(rendezvous)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  check_sigpipe();
  if (options.tls) tls_ = std::make_unique<Tls>(rendezvous_->config().agent_token);
  TRIREME_CHECK(poll_.open() && wake_.open(), "epoll: {}", std::strerror(errno));
  Streams streams = connect_streams(*rendezvous_, all_others(rendezvous_->config()),
                                    1 + options.streams, tls_.get());
  for (auto& [rank, connections] : streams) {
    auto& peer = *(peers_[rank] = std::make_unique<Peer>());
    peer.rank = rank;
    peer.channels.resize(connections.size());
    for (std::size_t i = 0; i < connections.size(); ++i) {
      Channel& channel = peer.channels[i];
      channel.peer = &peer;
      channel.stream = std::move(connections[i]);
      channel.control = i == 0;
      epoll_event event{.events = EPOLLIN, .data = {.ptr = &channel}};
      ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, channel.stream->descriptor(), &event);
      if (channel.stream->has_pending()) pending_.insert(&channel);
    }
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  rendezvous_->watch([this] {
    aborted_ = true;
    bell_.ring();
  });
  thread_ = std::thread([this] { run(); });
}

SocketLink::~SocketLink() {
  rendezvous_->leave();
  stopping_ = true;
  const std::uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof one) < 0) bell_.ring();
  thread_.join();
  for (auto& [rank, peer] : peers_)
    for (Channel& channel : peer->channels)
      if (channel.stream != nullptr) channel.stream->shut();
}

std::unique_ptr<Transport> SocketLink::transport(const std::string& key, std::size_t others) {
  const std::uint64_t channel = hash64(key);
  TRIREME_CHECK(claimed_.insert(channel).second,
                "group '{}' hashes like another group of this rank: rename it", key);
  return make_socket_transport(shared_from_this(), channel, others);
}

void SocketLink::post(Departure& departure) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(departure.rank);
  peer.departures[departure.id] = &departure;
  const bool small = departure.stamp.bytes <= kInline;
  Control control{.id = departure.id, .kind = Control::Kind::kAnnounce, .stamp = departure.stamp};
  control.bytes = small ? static_cast<std::uint32_t>(departure.stamp.bytes) : 0;
  tell(peer, control, departure.data);
}

void SocketLink::withdraw(Departure& departure) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(departure.rank);
  peer.departures.erase(departure.id);
  drop(peer, departure.id, false);
}

void SocketLink::expect(Arrival& arrival) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(arrival.rank);
  peer.arrivals[arrival.id] = &arrival;
  if (auto early = peer.early.extract(arrival.id))
    announce(arrival, early.mapped().first, early.mapped().second);
}

void SocketLink::forget(Arrival& arrival) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(arrival.rank);
  peer.arrivals.erase(arrival.id);
  drop(peer, arrival.id, true);
}

void SocketLink::drop(Peer& peer, const MessageId& id, bool incoming) {
  // Of an outgoing message chunks leave from its memory and come back into it, of an incoming one the other way round.
  const auto in_its_memory = [&](const Piece& piece, bool leaves) {
    return piece.id == id && (piece.back != 0) == (leaves == incoming);
  };
  std::erase_if(peer.pieces, [&](const Outbound& out) { return in_its_memory(out.piece, true); });
  for (Channel& channel : peer.channels) {
    if (channel.control) continue;
    if (in_its_memory(channel.in.piece, false)) channel.in.into = nullptr;
    if (!channel.out || !in_its_memory(channel.out->piece, true)) continue;
    // What was begun would have to be ended from memory that is no longer there.
    if (channel.out->sent > 0) return shut(peer, "a message was given up half way");
    channel.out.reset();
  }
}

void SocketLink::grant(Arrival& arrival, std::size_t upto) {
  std::lock_guard lock(mutex_);
  if (upto <= arrival.granted) return;
  arrival.granted = upto;
  tell(*peers_.at(arrival.rank), {.id = arrival.id, .kind = Control::Kind::kGrant, .upto = upto},
       nullptr);
}

void SocketLink::send_back(Arrival& arrival, std::size_t chunk) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(arrival.rank);
  if (arrival.stamp.bytes <= kInline) {
    tell(peer,
         {.id = arrival.id,
          .kind = Control::Kind::kBack,
          .bytes = static_cast<std::uint32_t>(arrival.stamp.bytes)},
         arrival.small.data());
    arrival.returned.mark(0);
    return;
  }
  const auto bytes = static_cast<std::uint32_t>(bytes_of_chunk(arrival.stamp, chunk));
  peer.pieces.push_back({.piece = {arrival.id, static_cast<std::uint32_t>(chunk), bytes, 1},
                         .data = arrival.place(chunk),
                         .left = &arrival.returned});
  pump(peer);
}

std::string SocketLink::why(int rank) {
  if (aborted_) return "the world was aborted";
  std::lock_guard lock(mutex_);
  return peers_.at(rank)->why;
}

void SocketLink::run() {
  constexpr int kLook = 500, kMost = 64;
  epoll_event events[kMost];
  while (!stopping_) {
    const int count = ::epoll_wait(poll_.get(), events, kMost, pending_.empty() ? kLook : 0);
    if (stopping_) return;
    const std::set<Channel*> pending = pending_;
    for (Channel* channel : pending) handle(*channel, EPOLLIN);
    for (int i = 0; i < count; ++i)
      if (events[i].data.ptr != nullptr)
        handle(*static_cast<Channel*>(events[i].data.ptr), events[i].events);
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
  if ((events & EPOLLOUT) == 0 || channel.ended) return;
  channel.control ? flush_controls(*channel.peer) : pump(channel);
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
  if (in.control.bytes > kInline) throw std::runtime_error("it sent what no rank sends");
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
  const std::size_t most = in.into == nullptr ? unwanted_.size() : kChunk;
  const std::size_t n = channel.stream->read(into, std::min(most, in.piece.bytes - done));
  if (n == 0) return false;
  in.got += n;
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
                               .data = message.data + chunk * kChunk,
                               .left = &message.left});
      }
      return pump(peer);
    }
    case Control::Kind::kBack:
      if (!sends || control.bytes != departure->second->stamp.bytes) return;
      std::memcpy(departure->second->data, small.data(), control.bytes);
      departure->second->returned.mark(0);
      bell_.ring();
      return;
  }
  throw std::runtime_error("it sent what no rank sends");
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
      throw std::runtime_error("it sent what no rank sends");
  };
  if (piece.bytes > kChunk) throw std::runtime_error("it sent what no rank sends");
  if (piece.back != 0) {
    const auto found = peer.departures.find(piece.id);
    if (found == peer.departures.end()) return nullptr;
    fits(found->second->stamp, found->second->queued);
    return found->second->data + piece.chunk * kChunk;
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

void SocketLink::tell(Peer& peer, const Control& control, const std::byte* small) {
  peer.controls.append(reinterpret_cast<const char*>(&control), sizeof control);
  if (control.bytes > 0) peer.controls.append(reinterpret_cast<const char*>(small), control.bytes);
  flush_controls(peer);
}

void SocketLink::flush_controls(Peer& peer) {
  Channel& channel = peer.channels.front();
  if (channel.ended) return;
  try {
    const std::size_t n = channel.stream->write(
        reinterpret_cast<const std::byte*>(peer.controls.data()), peer.controls.size());
    bytes_sent_ += static_cast<std::int64_t>(n);
    peer.controls.erase(0, n);
    await_room(channel, !peer.controls.empty());
  } catch (const std::runtime_error& error) {
    end(channel, error.what());
  }
}

void SocketLink::pump(Peer& peer) {
  for (Channel& channel : peer.channels)
    if (!channel.control && !channel.ended && !channel.awaits_room) pump(channel);
}

void SocketLink::pump(Channel& channel) {
  Peer& peer = *channel.peer;
  try {
    for (;;) {
      if (!channel.out) {
        if (peer.pieces.empty()) return await_room(channel, false);
        channel.out = peer.pieces.front();
        peer.pieces.pop_front();
      }
      if (!advance(channel, *channel.out)) return await_room(channel, true);
      channel.out->left->mark(channel.out->piece.chunk);
      channel.out.reset();
      bell_.ring();
    }
  } catch (const std::runtime_error& error) {
    end(channel, error.what());
  }
}

bool SocketLink::advance(Channel& channel, Outbound& out) {
  const std::size_t total = sizeof(Piece) + out.piece.bytes;
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
  if (channel.awaits_room == wanted) return;
  channel.awaits_room = wanted;
  epoll_event event{.events = static_cast<std::uint32_t>(EPOLLIN | (wanted ? EPOLLOUT : 0)),
                    .data = {.ptr = &channel}};
  ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, channel.stream->descriptor(), &event);
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
