#include "trireme/comm/net/link.h"

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
#include "trireme/comm/rendezvous/host_links.h"
#include "trireme/comm/rendezvous/served_groups.h"
#include "trireme/comm/rendezvous/sockets.h"

namespace trireme::comm {

using net::bytes_of_chunk;
using net::Control;
using net::kInline;
using net::MessageId;
using net::Piece;

namespace {

std::vector<int> all_others(const RendezvousConfig& config) {
  std::vector<int> ranks;
  for (int rank = 0; rank < config.size; ++rank)
    if (rank != config.rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace

SocketLink::SocketLink(std::shared_ptr<Rendezvous> rendezvous, const Options& options)
    : rendezvous_(std::move(rendezvous)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  check_sigpipe();
  if (options.tls) tls_ = std::make_unique<Tls>(rendezvous_->config().agent_token);
  TRIREME_CHECK(poll_.open() && wake_.open(), "epoll: {}", std::strerror(errno));
  mesh_ = std::make_unique<Mesh>(*rendezvous_, all_others(rendezvous_->config()),
                                 1 + options.streams, tls_.get());
  Streams streams = mesh_->connect();
  const bool resumes = rendezvous_->config().resume_s > 0;
  for (auto& [rank, connections] : streams) {
    auto& peer = *(peers_[rank] = std::make_unique<Peer>());
    peer.rank = rank;
    peer.channels.resize(connections.size());
    for (std::size_t i = 0; i < connections.size(); ++i) {
      Channel& channel = peer.channels[i];
      channel.peer = &peer;
      channel.stream = std::move(connections[i]);
      if (resumes) {
        auto resumable = std::make_unique<ResumableStream>(std::move(channel.stream));
        channel.resumable = resumable.get();
        channel.stream = std::move(resumable);
      }
      channel.control = i == 0;
      epoll_event event{.events = EPOLLIN, .data = {.ptr = &channel}};
      ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, channel.stream->descriptor(), &event);
      if (channel.stream->has_pending()) pending_.insert(&channel);
    }
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  servers_ = read_servers(*rendezvous_);
  places_ = places_in_links(*rendezvous_);
  rendezvous_->watch([this] {
    aborted_ = true;
    bell_.ring();
  });
  thread_ = std::thread([this] { run(); });
  if (resumes) keep_connected();
}

void SocketLink::keep_connected() {
  const auto channel_of = [this](int rank, int stream) -> Channel& {
    Peer& peer = *peers_.at(rank);
    if (peer.broken || peer.channels[stream].ended) throw std::runtime_error("the rank has left");
    return peer.channels[stream];
  };
  const auto resume = [this, channel_of](int rank, int stream, std::unique_ptr<Stream> connection,
                                         std::uint64_t arrived) {
    Channel& channel = channel_of(rank, stream);
    channel.resumable->resume(std::move(connection), arrived);
    channel.is_cut = channel.watches_space = false;
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &channel}};
    ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, channel.stream->descriptor(), &event);
    pending_.insert(&channel);
    channel.control ? flush_controls(*channel.peer) : pump_again(channel);
  };
  mesh_->keep({.arrived =
                   [this, channel_of](int rank, int stream) {
                     std::lock_guard lock(mutex_);
                     Channel& channel = channel_of(rank, stream);
                     channel.is_cut = true;
                     mesh_->reconnect(rank, stream);  // lest this one fail
                     return channel.resumable->cut("a new connection took its place");
                   },
               .resumed =
                   [this, resume](int rank, int stream, std::unique_ptr<Stream> connection,
                                  std::uint64_t arrived) {
                     {
                       std::lock_guard lock(mutex_);
                       try {
                         resume(rank, stream, std::move(connection), arrived);
                       } catch (const std::runtime_error& error) {
                         shut(*peers_.at(rank), error.what());
                       }
                     }
                     wake();
                   },
               .gone =
                   [this](int rank, const std::string& why) {
                     std::lock_guard lock(mutex_);
                     Peer& peer = *peers_.at(rank);
                     std::string cause;
                     for (const Channel& channel : peer.channels)
                       if (channel.is_cut && cause.empty()) cause = channel.resumable->why();
                     shut(peer, cause.empty() ? why : cause + "; " + why);
                   }});
}

void SocketLink::wake() {
  const std::uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof one) < 0) bell_.ring();
}

SocketLink::~SocketLink() {
  rendezvous_->leave();
  constexpr std::chrono::seconds kLast{2};
  bell_.wait(
      [this] {
        return std::ranges::all_of(peers_, [](const auto& peer) { return settled(*peer.second); });
      },
      Bell::Clock::now() + kLast);
  stopping_ = true;
  wake();
  thread_.join();
  mesh_.reset();
  const Bell::Clock::time_point latest = Bell::Clock::now() + kLast;
  for (auto& [rank, peer] : peers_)
    for (Channel& channel : peer->channels) {
      if (channel.stream == nullptr) continue;
      while (!peer->broken && !channel.stream->flush() && Bell::Clock::now() < latest)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      channel.stream->shut();
    }
}

std::unique_ptr<Transport> SocketLink::transport(const std::string& key, std::size_t others) {
  const std::uint64_t channel = hash64(key);
  TRIREME_CHECK(claimed_.insert(channel).second,
                "group '{}' hashes like another group of this rank: rename it", key);
  return make_socket_transport(shared_from_this(), channel, others);
}

void SocketLink::announce(const std::string& key, const std::vector<int>& ranks) {
  announce_served(*rendezvous_, key, ranks);
}

std::optional<algorithm::Links> SocketLink::links(const std::vector<int>& ranks) const {
  if (places_.empty()) return std::nullopt;
  std::vector<int> hosts;
  for (const int rank : ranks) hosts.push_back(places_[rank]);
  return rendezvous_->config().links.of(hosts);
}

void SocketLink::post(Departure& departure) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(departure.rank);
  peer.departures[departure.id] = &departure;
  const bool small = departure.stamp.bytes <= kInline;
  Control control{.id = departure.id, .kind = Control::Kind::kAnnounce, .stamp = departure.stamp};
  control.bytes = small ? static_cast<std::uint32_t>(departure.stamp.bytes) : 0;
  send_control(peer, control, departure.data);
  departure.posted = peer.posted;
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
  std::erase_if(peer.pieces,
                [&](const net::Outbound& out) { return in_its_memory(out.piece, true); });
  for (Channel& channel : peer.channels) {
    if (channel.control) continue;
    if (in_its_memory(channel.in.piece, false)) channel.in.into = nullptr;
    if (!channel.out || !in_its_memory(channel.out->piece, true)) continue;
    // The rest of the message would have to be sent from memory that is already freed.
    if (channel.out->offered) return shut(peer, "a message was given up half way");
    channel.out.reset();
  }
}

void SocketLink::grant(Arrival& arrival, std::size_t upto) {
  std::lock_guard lock(mutex_);
  if (upto <= arrival.granted) return;
  arrival.granted = upto;
  send_control(*peers_.at(arrival.rank),
               {.id = arrival.id, .kind = Control::Kind::kGrant, .upto = upto}, nullptr);
}

void SocketLink::send_back(Arrival& arrival, std::size_t chunk) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(arrival.rank);
  if (arrival.stamp.bytes <= kInline) {
    send_control(peer,
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

}  // namespace trireme::comm
