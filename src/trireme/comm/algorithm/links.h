// Measured links between hosts, and what follows from them for collectives: order of a ring, shares of owners, algorithm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"

namespace trireme::algorithm {

// Rates are bytes a second.
struct HostLink {
  std::string name;
  double up = 0, down = 0;  // to and from all other hosts together
  double latency_s = 0;     // of a message to or from the farthest
  bool operator==(const HostLink&) const = default;
};
struct PairLink {
  int from = 0, to = 0;  // hosts
  double rate = 0;       // while no other pair sends
  double latency_s = 0;
  bool relayed = false;  // its bytes pass through the relay
  bool operator==(const PairLink&) const = default;
};
struct Links {
  std::vector<HostLink> hosts;
  std::vector<PairLink> pairs;  // those without one have what their hosts have
  double relay = 0;             // rate of the relay's link, each way; 0: unknown
  bool operator==(const Links&) const = default;

  PairLink pair(int from, int to) const;
  // The same of these hosts, which take the numbers 0, 1, ...
  Links of(const std::vector<int>& chosen) const;
};

using Matrix = std::vector<std::vector<double>>;

// Seconds in which all hosts, at the same time, send each other bytes[from][to].
double seconds(const Links& links, const Matrix& bytes);

// A closed way through all hosts, from host 0 on, for costs[from][to] of each edge: the dearest edge is as cheap as can be,
// and of such ways the sum is least. Exact up to 12 hosts, above that a local optimum.
inline constexpr int kExactRing = 12;
std::vector<int> ring_order(const Matrix& costs);
// Of the links: an edge costs the seconds of a chunk.
std::vector<int> ring_order(const Links& links);

// Share of each host in the sums that owners make directly, for `sent` bytes an element to the owner and `returned` bytes
// from it: the host that is done last is done as early as can be. Their sum is 1.
std::vector<double> owner_shares(const Links& links, double sent = 1, double returned = 1);
// Seconds of one element under these shares.
double owned_seconds(const Links& links, const std::vector<double>& shares, double sent = 1,
                     double returned = 1);
// `count` elements by shares: whole blocks of kServed, but the last.
std::vector<std::int64_t> split(std::int64_t count, const std::vector<double>& shares);

// How hosts with these links add and gather large buffers.
struct Route {
  Kind kind = Kind::kDirect;
  std::vector<int> order;      // of a ring; else empty
  std::vector<double> shares;  // of the owners of direct sums; else empty
  double seconds = 0;          // of an all-reduce of kRouted bytes
};
inline constexpr double kRouted = 16 << 20;
// Seconds of an all-reduce of so many bytes; refusal() must allow `kind`.
double all_reduce_seconds(const Links& links, const Route& route, double bytes);
// The same of a scatter of sums to slices, or of a gather of these, which owners share equally.
double one_way_seconds(const Links& links, const Route& route, double bytes, bool gathers);
// By reduction servers of this rate each: hosts send and receive every byte once, over their own links.
double served_seconds(const Links& links, int servers, double rate, double bytes);
// The fastest for all-reduces; sums of a ring only where they need not be canonical.
Route choose(const Links& links, bool canonical);
// As the fastest way to run a given algorithm.
Route routed(const Links& links, Kind kind);

}  // namespace trireme::algorithm
