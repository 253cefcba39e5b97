// LeaderServer: the leader of elastic islands with its tape and its connections.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/os/address.h"
#include "trireme/base/os/clock.h"
#include "trireme/comm/islands/frames.h"
#include "trireme/comm/net/listener.h"
#include "trireme/launch/islands/leader.h"

namespace trireme::comm {

class LeaderServer {
 public:
  struct Config {
    os::Address address{};
    std::string token{};
    Path tape{};
    islands::Leader::Config leader{};
    std::function<void(const std::string&)> on_note = [](const std::string&) {};
  };
  // Listens. Throws Error{kUsage} where that is not possible.
  explicit LeaderServer(Config config);
  // Until `stop` is set.
  void run(const std::atomic<int>& stop);
  int port() const { return std::stoi(listener_->port()); }

 private:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  struct Sending {
    std::uint64_t key = 0;
    Bytes bytes;
    std::int64_t next = 0;
  };
  struct Connection {
    std::unique_ptr<Frames> frames;
    std::optional<islands::Hello> hello{};
    std::optional<islands::Seek> seek{};  // it takes a state before it says hello
    std::uint64_t state = 0;              // key of that state
    std::set<std::int64_t> fetched{};     // chunks of it that it waits for
    std::set<std::uint64_t> shown{};      // keys of states that it can hand over
    Stopwatch heard{}, pinged{};
    std::int64_t cursor = 0;     // entry to send
    std::int64_t committed = 0;  // as it knows
    std::int64_t copied = 0;     // entries of its copy that are here as well
    std::deque<Sending> sending{};
    bool welcomed = false, refused = false, ended = false;
  };
  // Of a rank of an island's run.
  using Key = std::tuple<int, std::string, int, std::uint64_t>;
  struct Arrival {
    islands::Offer offer;
    islands::Arriving bytes;
  };
  // Codes of a whole fragment of one island.
  struct Gathered {
    std::string run;
    std::int64_t round = -1;
    std::vector<std::byte> bytes;
  };

  void accept();
  void take(os::Descriptor socket);
  void move(Connection& connection);
  void take(Connection& connection, std::string_view frame);
  void take(Connection& connection, const islands::Hello& hello);
  void take(Connection& connection, const islands::Offer& offer);
  void take_piece(Connection& connection, std::string_view frame);
  std::uint64_t line_before(std::int64_t position) const;  // its digest; 0: it is not here
  void take_of_state(Connection& connection, const islands::Message& message);
  void relay(Connection& connection, const islands::Fetch& fetch);
  void relay_piece(const islands::Piece& piece, std::string_view frame);
  void gather(const islands::Hello& hello, const Arrival& arrival);
  void find_lacking();
  // The merge on the tape of which these codes are missing here.
  std::optional<std::int64_t> lacks(const islands::Hello& hello, const islands::Offer& offer) const;
  void keep_lacking(std::int64_t index, const islands::Hello& hello);
  void send_mean(Connection& connection, const islands::Want& want);
  void write_entries();
  void write_merge(islands::Entry& entry);
  void tell(Connection& connection);
  std::vector<std::byte> part_of(const islands::Hello& hello, std::int64_t index);
  void close(Connection& connection, const std::string& why);
  void refuse(Connection& connection, const std::string& why);
  // The island's run has left, or was left out.
  void forget(int island, const std::string& run);

  Config config_;
  os::MonotonicClock clock_;
  Tls tls_;
  elastic::Expected identities_;
  islands::Tape tape_;
  islands::Leader leader_;
  std::optional<Listener> listener_;
  std::optional<Stopwatch> paused_;  // the listener, since then
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<Key, Arrival> arriving_;
  std::map<std::pair<int, int>, Gathered> gathered_;          // by fragment and island
  std::map<std::pair<std::int64_t, int>, Gathered> lacking_;  // by entry and island
  std::set<std::int64_t> no_mean_;                            // merges
  std::map<std::int64_t, std::vector<std::byte>> means_;      // the newest, by entry
};

}  // namespace trireme::comm
