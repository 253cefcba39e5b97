#include "trireme/comm/algorithm/links.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace trireme::algorithm {
namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();
constexpr double kEdge = 256 << 10;  // bytes of a chunk, for which the edges of a ring are compared

Matrix square(std::size_t size) { return Matrix(size, std::vector<double>(size, 0)); }

double latency(const Links& links) {
  double most = 0;
  for (const HostLink& host : links.hosts) most = std::max(most, host.latency_s);
  return most;
}

// What a way costs: its dearest edge first.
struct WayCost {
  double dearest = 0, sum = 0;
  auto operator<=>(const WayCost&) const = default;
};
WayCost cost_of(const Matrix& costs, const std::vector<int>& way) {
  WayCost cost;
  for (std::size_t at = 0; at < way.size(); ++at) {
    const double edge = costs[way[at]][way[(at + 1) % way.size()]];
    cost.dearest = std::max(cost.dearest, edge);
    cost.sum += edge;
  }
  return cost;
}

// Held-Karp over ways from host 0, `join`ing the costs of edges that are at most `most`.
template <typename Join>
std::vector<int> best_way(const Matrix& costs, double most, Join join) {
  const std::size_t others = costs.size() - 1, sets = std::size_t{1} << others;
  const auto edge = [&](std::size_t from, std::size_t to) {
    return costs[from][to] <= most ? costs[from][to] : kNoWay;
  };
  // Of the ways from host 0 through a set of others that end at one of them: the cost, and the host before the last.
  std::vector<std::vector<double>> least(sets, std::vector<double>(others, kNoWay));
  std::vector<std::vector<int>> before(sets, std::vector<int>(others, -1));
  for (std::size_t last = 0; last < others; ++last)
    least[std::size_t{1} << last][last] = edge(0, last + 1);
  for (std::size_t set = 1; set < sets; ++set)
    for (std::size_t last = 0; last < others; ++last) {
      if (least[set][last] == kNoWay) continue;
      for (std::size_t next = 0; next < others; ++next) {
        if ((set >> next & 1) != 0) continue;
        const std::size_t with = set | std::size_t{1} << next;
        const double cost = join(least[set][last], edge(last + 1, next + 1));
        if (cost >= least[with][next]) continue;
        least[with][next] = cost;
        before[with][next] = static_cast<int>(last);
      }
    }
  std::size_t end = 0;
  double cost = kNoWay;
  for (std::size_t last = 0; last < others; ++last) {
    const double closed = join(least[sets - 1][last], edge(last + 1, 0));
    if (closed >= cost) continue;
    cost = closed;
    end = last;
  }
  std::vector<int> way;
  for (std::size_t set = sets - 1; set != 0;) {
    way.push_back(static_cast<int>(end) + 1);
    const int previous = before[set][end];
    set &= ~(std::size_t{1} << end);
    if (previous < 0) break;
    end = static_cast<std::size_t>(previous);
  }
  way.push_back(0);
  std::ranges::reverse(way);
  return way;
}

// From the nearest neighbours on, a host is moved or a part reversed for as long as that helps.
std::vector<int> improved_way(const Matrix& costs) {
  const std::size_t size = costs.size();
  std::vector<int> way = {0};
  std::vector<bool> passed(size);
  passed[0] = true;
  while (way.size() < size) {
    int nearest = -1;
    for (std::size_t next = 0; next < size; ++next)
      if (!passed[next] && (nearest < 0 || costs[way.back()][next] < costs[way.back()][nearest]))
        nearest = static_cast<int>(next);
    passed[nearest] = true;
    way.push_back(nearest);
  }
  WayCost least = cost_of(costs, way);
  for (bool better = true; better;) {
    better = false;
    const auto take = [&](std::vector<int> other) {
      const WayCost cost = cost_of(costs, other);
      if (!(cost < least)) return;
      least = cost;
      way = std::move(other);
      better = true;
    };
    for (std::size_t i = 1; i < size; ++i)
      for (std::size_t j = 1; j < size; ++j) {
        if (i == j) continue;
        std::vector<int> moved = way;
        const int host = moved[i];
        moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(i));
        moved.insert(moved.begin() + static_cast<std::ptrdiff_t>(j), host);
        take(std::move(moved));
        if (i > j) continue;
        std::vector<int> reversed = way;
        std::reverse(reversed.begin() + static_cast<std::ptrdiff_t>(i),
                     reversed.begin() + static_cast<std::ptrdiff_t>(j) + 1);
        take(std::move(reversed));
      }
  }
  return way;
}

// Bytes of a way of slices around a ring.
double around(const Links& links, const std::vector<int>& order, double bytes) {
  Matrix sent = square(order.size());
  const auto hosts = static_cast<double>(order.size());
  for (std::size_t at = 0; at < order.size(); ++at)
    sent[order[at]][order[(at + 1) % order.size()]] = bytes * (hosts - 1) / hosts;
  return seconds(links, sent) + (hosts - 1) * latency(links);
}

// Sums to their owners.
double to_owners(const Links& links, const std::vector<double>& shares, double bytes) {
  Matrix sent = square(shares.size());
  for (std::size_t from = 0; from < shares.size(); ++from)
    for (std::size_t to = 0; to < shares.size(); ++to)
      if (from != to) sent[from][to] = bytes * shares[to];
  return seconds(links, sent) + latency(links);
}

double by_halving(const Links& links, double bytes) {
  const std::size_t hosts = links.hosts.size();
  double all = 0;
  for (std::size_t distance = 1; distance < hosts; distance *= 2) {
    Matrix sent = square(hosts);
    for (std::size_t host = 0; host < hosts; ++host)
      sent[host][host ^ distance] = bytes / static_cast<double>(2 * distance);
    all += 2 * (seconds(links, sent) + latency(links));  // there and back
  }
  return all;
}

double by_tree(const Links& links, double bytes) {
  const auto hosts = static_cast<int>(links.hosts.size());
  Matrix up = square(links.hosts.size()), down = up;
  int depth = 0;
  for (int host = 0; host < hosts; ++host)
    for (const int half : {0, 1}) {
      const TreeRole role = tree_role(hosts, host, half);
      depth = std::max(depth, role.depth);
      if (role.leaf_to >= 0 && role.leaf_to != host) up[host][role.leaf_to] += bytes / 2;
      if (role.up >= 0) up[host][role.up] += bytes / 2;
      for (const int to : role.down_to) down[host][to] += bytes / 2;
    }
  return seconds(links, up) + seconds(links, down) + 2 * depth * latency(links);
}

}  // namespace

PairLink Links::pair(int from, int to) const {
  for (const PairLink& one : pairs)
    if (one.from == from && one.to == to) return one;
  return {.from = from,
          .to = to,
          .rate = std::min(hosts[from].up, hosts[to].down),
          .latency_s = std::max(hosts[from].latency_s, hosts[to].latency_s)};
}

Links Links::of(const std::vector<int>& chosen) const {
  Links some;
  some.relay = relay;
  const auto place = [&](int host) {
    const auto found = std::ranges::find(chosen, host);
    return found == chosen.end() ? -1 : static_cast<int>(found - chosen.begin());
  };
  for (const int host : chosen) some.hosts.push_back(hosts[host]);
  for (PairLink one : pairs) {
    one.from = place(one.from);
    one.to = place(one.to);
    if (one.from >= 0 && one.to >= 0) some.pairs.push_back(one);
  }
  return some;
}

double seconds(const Links& links, const Matrix& bytes) {
  double slowest = 0, relayed = 0;
  for (std::size_t host = 0; host < bytes.size(); ++host) {
    double out = 0, in = 0;
    for (std::size_t other = 0; other < bytes.size(); ++other) {
      out += bytes[host][other];
      in += bytes[other][host];
      if (bytes[host][other] == 0) continue;
      const PairLink pair = links.pair(static_cast<int>(host), static_cast<int>(other));
      slowest = std::max(slowest, bytes[host][other] / pair.rate);
      if (pair.relayed) relayed += bytes[host][other];
    }
    slowest = std::max({slowest, out / links.hosts[host].up, in / links.hosts[host].down});
  }
  return links.relay > 0 ? std::max(slowest, relayed / links.relay) : slowest;
}

std::vector<int> ring_order(const Matrix& costs) {
  const auto size = static_cast<int>(costs.size());
  std::vector<int> way(costs.size());
  std::iota(way.begin(), way.end(), 0);
  if (size <= 2) return way;
  if (size > kExactRing) return improved_way(costs);
  const auto dearer = [](double a, double b) { return std::max(a, b); };
  const double most = cost_of(costs, best_way(costs, kNoWay, dearer)).dearest;
  return best_way(costs, most, [](double a, double b) { return a + b; });
}

std::vector<int> ring_order(const Links& links) {
  Matrix costs = square(links.hosts.size());
  for (std::size_t from = 0; from < costs.size(); ++from)
    for (std::size_t to = 0; to < costs.size(); ++to) {
      const PairLink link = links.pair(static_cast<int>(from), static_cast<int>(to));
      costs[from][to] = from == to ? 0 : link.latency_s + kEdge / link.rate;
    }
  return ring_order(costs);
}

double owned_seconds(const Links& links, const std::vector<double>& shares, double sent,
                     double returned) {
  const double others = static_cast<double>(shares.size()) - 1;
  double slowest = 0;
  for (std::size_t host = 0; host < shares.size(); ++host) {
    const double f = shares[host];
    slowest = std::max({slowest, (sent * (1 - f) + returned * others * f) / links.hosts[host].up,
                        (sent * others * f + returned * (1 - f)) / links.hosts[host].down});
  }
  return slowest;
}

// Water is filled into all hosts up to one level of seconds. At a level each host takes shares of an interval, since what
// it sends and receives is linear in its share; the least level is sought at which some shares have the sum 1.
std::vector<double> owner_shares(const Links& links, double sent, double returned) {
  const std::size_t hosts = links.hosts.size();
  const double others = static_cast<double>(hosts) - 1;
  std::vector<double> low(hosts), high(hosts);
  const auto fits = [&](double level) {
    double least = 0, most = 0;
    for (std::size_t host = 0; host < hosts; ++host) {
      low[host] = 0;
      high[host] = 1;
      // base + slope f <= bytes that leave, or arrive, within the level
      const auto limit = [&](double base, double slope, double bytes) {
        const double f = (bytes - base) / slope;
        if (slope > 0) high[host] = std::min(high[host], f);
        if (slope < 0) low[host] = std::max(low[host], f);
        if (slope == 0 && base > bytes) high[host] = -1;
      };
      limit(sent, returned * others - sent, level * links.hosts[host].up);
      limit(returned, sent * others - returned, level * links.hosts[host].down);
      if (low[host] > high[host]) return false;
      least += low[host];
      most += high[host];
    }
    return least <= 1 && most >= 1;
  };
  std::vector<double> equal(hosts, 1 / static_cast<double>(hosts));
  double below = 0, above = owned_seconds(links, equal, sent, returned);
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (below + above) / 2;
    (fits(middle) ? above : below) = middle;
  }
  if (!fits(above)) return equal;
  double least = 0, most = 0;
  for (std::size_t host = 0; host < hosts; ++host) {
    least += low[host];
    most += high[host];
  }
  const double part = most > least ? (1 - least) / (most - least) : 0;
  std::vector<double> shares;
  shares.reserve(hosts);
  for (std::size_t host = 0; host < hosts; ++host)
    shares.push_back(low[host] + part * (high[host] - low[host]));
  return shares;
}

std::vector<std::int64_t> split(std::int64_t count, const std::vector<double>& owners) {
  std::vector<Server> servers;
  servers.reserve(owners.size());
  for (const double share : owners) servers.push_back({.rate = share});
  return shares(count, servers);
}

double all_reduce_seconds(const Links& links, const Route& route, double bytes) {
  const std::size_t hosts = links.hosts.size();
  if (hosts < 2) return 0;
  const std::vector<double> equal(hosts, 1 / static_cast<double>(hosts));
  switch (route.kind) {
    case Kind::kHalving: return by_halving(links, bytes);
    case Kind::kTree: return by_tree(links, bytes);
    case Kind::kRing: return 2 * around(links, route.order, bytes);
    case Kind::kRingGather:
      return to_owners(links, equal, bytes) + around(links, route.order, bytes);
    case Kind::kAuto:
    case Kind::kDirect:
    case Kind::kHierarchical: break;
  }
  // Chunks return while others are on their way: up and down carry both ways at once.
  const std::vector<double>& shares = route.shares.empty() ? equal : route.shares;
  Matrix sent = square(hosts);
  for (std::size_t from = 0; from < hosts; ++from)
    for (std::size_t to = 0; to < hosts; ++to)
      if (from != to) sent[from][to] = bytes * (shares[from] + shares[to]);
  return seconds(links, sent) + 2 * latency(links);
}

double one_way_seconds(const Links& links, const Route& route, double bytes, bool gathers) {
  const std::size_t hosts = links.hosts.size();
  if (hosts < 2) return 0;
  if (route.kind == Kind::kHalving) return by_halving(links, bytes) / 2;
  if (route.kind == Kind::kRing || (route.kind == Kind::kRingGather && gathers))
    return around(links, route.order, bytes);
  // A gather sends what sums to owners bring, the other way: each host its part to all.
  const std::vector<double> equal(hosts, 1 / static_cast<double>(hosts));
  return to_owners(links, equal, bytes);
}

double served_seconds(const Links& links, int servers, double rate, double bytes) {
  double slowest = bytes * static_cast<double>(links.hosts.size()) / (servers * rate);
  for (const HostLink& host : links.hosts)
    slowest = std::max(slowest, bytes / std::min(host.up, host.down));
  return slowest + 2 * latency(links);
}

Route routed(const Links& links, Kind kind) {
  Route route{.kind = kind};
  if (kind == Kind::kRing || kind == Kind::kRingGather) route.order = ring_order(links);
  if (kind == Kind::kAuto || kind == Kind::kDirect || kind == Kind::kHierarchical)
    route.shares = owner_shares(links);
  route.seconds = all_reduce_seconds(links, route, kRouted);
  return route;
}

Route choose(const Links& links, bool canonical) {
  const auto hosts = static_cast<int>(links.hosts.size());
  Route best = routed(links, Kind::kAuto);
  for (const Kind kind : {Kind::kTree, Kind::kHalving, Kind::kRingGather, Kind::kRing}) {
    if (!refusal({.kind = kind, .canonical = canonical}, hosts).empty()) continue;
    if (kind == Kind::kRing && canonical) continue;
    // What is simpler is kept unless another is clearly faster.
    constexpr double kClearly = 0.95;
    if (const Route other = routed(links, kind); other.seconds < kClearly * best.seconds)
      best = other;
  }
  return best;
}

}  // namespace trireme::algorithm
