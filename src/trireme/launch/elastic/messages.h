// Messages between agents and ranks. Reports and orders contain a state, not a change. One that comes late, twice or
// never does no harm as long as a later one comes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/launch/elastic/verdict.h"
#include "trireme/launch/watch/state.h"

namespace trireme::elastic {

inline constexpr std::size_t kLongestKey = 8 << 10, kLongestValue = 8 << 20;

using HostId = std::uint64_t;  // random for every agent that starts

// Where a host's ranks stand in the world of a generation.
struct Assignment {
  std::uint64_t generation = 0;
  std::uint64_t world = 0;
  std::uint64_t first_rank = 0;
  std::uint64_t hosts = 0;
  std::uint64_t servers = 0;  // reduction servers, numbered after the ranks
  bool operator==(const Assignment&) const = default;
};

// Message of the leader to a host. Later orders are greater by generation, then by kind.
struct Order {
  enum class What { kRun, kInterrupt, kKill, kFinish };
  HostId host = 0;
  std::uint64_t heard = 0;  // sequence of the newest report that came
  Assignment assignment{};
  What what = What::kKill;
  Outcome outcome{};  // of kFinish: how the whole run ended
  bool operator==(const Order&) const = default;
};

// Message of a host's agent to the leader.
struct Report {
  enum class Ranks { kNone, kAlive, kGone };  // of `generation`
  HostId host = 0;
  std::uint64_t sequence = 0;  // counts up
  std::string name{};          // for people
  std::string run_id{};
  std::uint64_t slots = 1;       // ranks that it starts; 0: it is a reduction server
  std::uint64_t place = 0;       // hosts are numbered in this order, then as they came
  std::uint64_t generation = 0;  // the newest that it started
  Ranks ranks = Ranks::kNone;
  std::uint64_t ordered = 0;  // the generation of the newest order that it has, and what that says
  Order::What what = Order::What::kKill;
  Outcome outcome{};  // of them, up to now
  std::uint64_t leaving =
      0;  // the signal that asked it to leave, or 0: it starts no further generation
  bool operator==(const Report&) const = default;
};

// Request of a rank to the store of its generation.
struct StoreRequest {
  enum class Kind { kSet, kGet, kAdd, kCompareSet, kDelete, kCheck, kWait, kCount };
  std::uint64_t id = 0;  // comes back in the reply
  std::uint64_t generation = 0;
  Kind kind = Kind::kCheck;
  std::string key{};
  std::string value{};      // kAdd: none
  std::string expected{};   // of kCompareSet; empty: also where the key is missing
  std::int64_t amount = 0;  // of kAdd
  bool operator==(const StoreRequest&) const = default;
};

struct StoreReply {
  std::uint64_t id = 0;
  bool served = true;  // false: the generation of the request is over
  std::int64_t number = 0;
  std::string value{};
  bool operator==(const StoreReply&) const = default;
};

// Which ranks of a host do nothing any more, and what they were at; again and again while it is so.
struct Silence {
  struct Rank {
    watch::State state{};  // with `same` its rank alone
    double seconds = 0;
    bool in_step = false;   // of which it is known how long its lines take
    std::string details{};  // lines for people, once
    bool same = false;      // the state is the one that was reported last
    bool operator==(const Rank&) const = default;
  };
  HostId host = 0;
  std::uint64_t generation = 0;
  std::vector<Rank> ranks{};
  bool operator==(const Silence&) const = default;
};

using Message = std::variant<Report, Order, StoreRequest, StoreReply, Silence>;

std::string encode(const Message& message);
// Throws Error{kPeerLost} for what encode() does not write.
Message decode(std::string_view bytes);

}  // namespace trireme::elastic
