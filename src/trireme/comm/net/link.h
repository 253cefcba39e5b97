// SocketLink: one process's streams to other ranks, and the thread that moves messages over them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/comm/bell.h"
#include "trireme/comm/net/mesh.h"
#include "trireme/comm/net/peer.h"
#include "trireme/comm/network.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

class SocketLink final : public Network, public std::enable_shared_from_this<SocketLink> {
 public:
  struct Options {
    bool tls = false;                 // needs config.agent_token
    int streams = net::kDataStreams;  // to each rank, besides the one of control messages
  };
  // Connects to every other rank; all ranks must call it with the same options. Throws as Mesh.
  SocketLink(std::shared_ptr<Rendezvous> rendezvous, const Options& options);
  ~SocketLink();

  std::string_view via() const override { return tls_ != nullptr ? "TLS 1.3" : "TCP"; }
  std::unique_ptr<Transport> transport(const std::string& key, std::size_t others) override;
  std::vector<algorithm::Server> servers() const override { return servers_; }
  void announce(const std::string& key, const std::vector<int>& ranks) override;
  std::optional<algorithm::Links> links(const std::vector<int>& ranks) const override;
  // Bytes of messages and of what frames them, without those of TLS.
  std::int64_t bytes_sent() const override { return bytes_sent_; }
  void abort(const std::string& cause) override { rendezvous_->abort(cause); }
  std::optional<std::string> cause() const override { return rendezvous_->cause(); }
  void check_current() override { rendezvous_->check_current(); }

  // The functions below are called by the threads that send and receive; they do not block.

  // Whether the stream of control messages has taken so many bytes of those to the rank.
  bool has_written(int rank, std::uint64_t bytes) const {
    return peers_.at(rank)->written.load() >= bytes;
  }
  // Announces the message; its chunks leave when the peer has granted them.
  void post(Departure& departure);
  void withdraw(Departure& departure);
  void expect(Arrival& arrival);
  void forget(Arrival& arrival);
  // Allows the peer to send chunks before `upto`, to which `arrival` gives places.
  void grant(Arrival& arrival, std::size_t upto);
  // Sends a chunk, or the small payload, back to where it came from.
  void send_back(Arrival& arrival, std::size_t chunk);

  // Blocks until ready(), which reads what the link writes atomically. Throws Lost for the rank.
  template <typename Ready>
  void wait(int rank, Ready ready) {
    const Stopwatch watch;
    const Peer& peer = *peers_.at(rank);
    const auto over = [&] { return ready() || peer.broken.load() || aborted_.load(); };
    const auto patience = std::chrono::duration_cast<Bell::Clock::duration>(
        std::chrono::duration<double>(rendezvous_->config().timeout_s));
    const bool ended = bell_.wait(over, Bell::Clock::now() + patience);
    if (ready()) return;
    if (!ended) rendezvous_->lost_in_silence(rank, watch.seconds());
    rendezvous_->lost(rank, watch.seconds(), why(rank));
  }

 private:
  using Peer = net::Peer;
  using Channel = net::Channel;

  // Nothing more can leave.
  static bool settled(const Peer& peer) {
    return peer.broken.load() || peer.written.load() == peer.posted;
  }
  void run();
  void wake();
  // Nothing is read from or written to the memory of the message any more.
  void drop(Peer& peer, const net::MessageId& id, bool incoming);
  void handle(Channel& channel, std::uint32_t events);
  // Whether anything was read.
  bool read_control(Channel& channel);
  bool read_data(Channel& channel);
  void take(Peer& peer, const net::Control& control, const net::Small& small);
  void announce(Arrival& arrival, const net::Control& control, const net::Small& small);
  std::byte* destination(Peer& peer, const net::Piece& piece);
  void land(Peer& peer, const net::Piece& piece);

  void send_control(Peer& peer, const net::Control& control, const std::byte* small);
  void flush_controls(Peer& peer);
  // Sends chunks while streams have space; again after one of them has got some.
  void pump(Peer& peer);
  void pump_again(Channel& channel);
  Channel* emptiest(Peer& peer);
  void fill(Channel& channel);
  // Whether the segment has been sent completely.
  bool advance(Channel& channel, net::Outbound& out);
  void await_room(Channel& channel, bool wanted);
  // Another connection is asked for where the channel's is cut.
  void look_after(Channel& channel);
  void keep_connected();
  void end(Channel& channel, const std::string& why);
  void shut(Peer& peer, const std::string& why);
  std::string why(int rank);

  std::shared_ptr<Rendezvous> rendezvous_;
  std::vector<algorithm::Server> servers_;
  std::vector<int>
      places_;  // of each rank's host in the measured links; empty where they are unknown
  std::unique_ptr<Tls> tls_;
  std::map<int, std::unique_ptr<Peer>> peers_;
  std::set<std::uint64_t> claimed_;
  std::atomic<std::int64_t> bytes_sent_ = 0;
  std::atomic<bool> aborted_ = false, stopping_ = false;
  std::unique_ptr<Mesh> mesh_;
  Bell bell_;                   // rung at every change that wait() could be about
  std::mutex mutex_;            // of everything below peers_
  std::set<Channel*> pending_;  // their streams hold bytes that were read from the socket
  net::Small unwanted_{};       // target for data without a reader
  os::Descriptor poll_, wake_;
  std::thread thread_;
};

// The link's part in transport(); `channel` is the group's, equal on all its ranks.
std::unique_ptr<Transport> make_socket_transport(std::shared_ptr<SocketLink> link,
                                                 std::uint64_t channel, std::size_t others);

}  // namespace trireme::comm
