#include "trireme/planner/hardware/network.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::planner {
namespace {

// Ranks from one to the next along an axis.
int stride_of(const mesh::Mesh& mesh, mesh::Axis axis) {
  int stride = 1;
  for (const mesh::Axis inner : mesh::kAllAxes) {
    if (inner == axis) break;
    stride *= mesh.degree(inner);
  }
  return stride;
}

// Number of members of a group among `span` neighbouring ranks, if all groups are placed equally.
std::optional<int> alike(const mesh::Mesh& mesh, mesh::AxisSet axes, int span) {
  int members = 1;
  for (const mesh::Axis axis : mesh::kAllAxes) {
    const int degree = mesh.degree(axis), stride = stride_of(mesh, axis);
    if (degree == 1 || stride % span == 0) continue;
    const bool within = span % (stride * degree) == 0;
    if (!within && (span % stride != 0 || stride * degree % span != 0)) return std::nullopt;
    if (axes.contains(axis)) members *= within ? degree : span / stride;
  }
  return members;
}

// What a tier joins of a group: blocks of the tier within it, and the members of each.
struct Met {
  int blocks = 1;  // that meet in one place
  int fewest = 0;  // members of one
};

// Of all groups, the most blocks and the fewest members: what lies worst, all others wait for.
Met meet(const std::vector<std::vector<int>>& groups, int inner, int outer) {
  Met met;
  for (const std::vector<int>& group : groups)
    for (std::size_t first = 0; first < group.size();) {
      std::size_t last = first;
      int blocks = 0, fewest = 0;
      while (last < group.size() && group[last] / outer == group[first] / outer) {
        const std::size_t start = last;
        while (last < group.size() && group[last] / inner == group[start] / inner) ++last;
        const int members = static_cast<int>(last - start);
        fewest = blocks == 0 ? members : std::min(fewest, members);
        ++blocks;
      }
      if (blocks > 1) met.fewest = met.fewest == 0 ? fewest : std::min(met.fewest, fewest);
      met.blocks = std::max(met.blocks, blocks);
      first = last;
    }
  return met;
}

double bytes_per_s(const NetworkTier& tier) { return tier.rate * tier.efficiency; }

// Of one byte.
algorithm::Traffic traffic_of(algorithm::Kind algorithm, plan::Exchange kind, int members) {
  if (kind == plan::Exchange::kAllReduce) return algorithm::all_reduce(algorithm, members, 1);
  return kind == plan::Exchange::kReduceScatter ? algorithm::reduce_scatter(algorithm, members, 1)
                                                : algorithm::all_gather(algorithm, members, 1);
}

// Seconds for a byte of an all-reduce that its switch sums: a rank sends all and receives its part of the sum. Then it
// sends that and receives all.
double switched_s(const NetworkTier& tier, int members) {
  return (1 + 1.0 / members) / (bytes_per_s(tier) * tier.in_switch);
}

// NCCL's protocols for few bytes against the one for many. Flags travel with the data (4 of 8 bytes, 8 of 128), so that
// no rank waits for a fence. Latencies come from its own tables (src/graph/tuning.cc), for a tree over 4 hosts of 8.
struct Protocol {
  double rate, latency;
};
constexpr Protocol kShortProtocols[] = {{0.5, 0.3}, {0.9375, 0.55}};

// From the call to the kernel's begin and back, in PyTorch: from the rows of 32 KiB of network_specs.
constexpr double kLaunch = 30e-6;

}  // namespace

Network::Network(const Cluster& cluster, const mesh::Mesh& mesh, algorithm::Kind algorithm,
                 bool canonical)
    : cluster_(cluster), mesh_(mesh), algorithm_(algorithm) {
  if (cluster.links)
    route_ = algorithm == algorithm::Kind::kAuto ? algorithm::choose(*cluster.links, canonical)
                                                 : algorithm::routed(*cluster.links, algorithm);
  if (mesh.world() > cluster.gpus())
    fail(ErrorKind::kUsage,
         "cluster {} has {} of {} = {}, the layout needs {}; take fewer ranks or more hosts",
         cluster.name, counted(cluster.hosts, "host"), cluster.gpus_per_host,
         counted(cluster.gpus(), cluster.device()), mesh.world());
  for (const NetworkTier& tier : cluster.tiers)
    if (tier.span == 0 || tier.span >= mesh.world()) return;
  if (mesh.world() > 1)
    fail(ErrorKind::kUsage, "cluster {}: no tier joins {} ranks; give the outermost span: 0",
         cluster.name, mesh.world());
}

std::vector<Network::Hop> Network::make_hops(mesh::AxisSet axes) const {
  std::vector<Hop> hops;
  std::vector<std::vector<int>> groups;
  int inner = 1;
  for (const NetworkTier& tier : cluster_.tiers) {
    const int outer = tier.span == 0 ? mesh_.world() : tier.span;
    const std::optional<int> within = alike(mesh_, axes, inner), all = alike(mesh_, axes, outer);
    Met met;
    if (within && all) {
      met = {.blocks = *all / *within, .fewest = *within};
    } else {
      if (groups.empty()) groups = mesh_.groups(axes);
      met = meet(groups, inner, outer);
    }
    if (met.blocks > 1)
      hops.push_back(
          {.members = met.blocks, .links = static_cast<double>(met.fewest), .tier = &tier});
    inner = outer;
  }
  return hops;
}

const std::vector<Network::Hop>& Network::hops(mesh::AxisSet axes) const {
  const auto [at, absent] = hops_.try_emplace(axes.bits());
  if (absent) at->second = make_hops(axes);
  return at->second;
}

Network::Parts Network::parts(plan::Exchange kind, mesh::AxisSet axes, double bytes,
                              bool in_switch) const {
  const int size = mesh_.degree(axes);
  const Hop& outer = hops(axes).back();
  if (kind == plan::Exchange::kSendRecv)
    return {.bytes_s = bytes / (outer.tier->rate * outer.tier->copies),
            .messages_s = outer.tier->latency_s};
  // A ring through all tiers is as slow as the slowest; each member's links carry its share.
  const bool sums = kind == plan::Exchange::kAllReduce;
  const double share = (size - 1.0) / size * (sums ? 2 : 1);
  double slowest = 0, latency = 0, inside = 0, within = 0;
  for (const Hop& hop : hops(axes)) {
    if (&hop == &outer) within = slowest;
    const bool switched = in_switch && hop.tier->in_switch > 0;
    slowest = std::max(slowest, switched ? switched_s(*hop.tier, hop.members) / share
                                         : 1 / (bytes_per_s(*hop.tier) * hop.links));
    const double ring = hop.members - 1, tree = 2 * std::ceil(std::log2(hop.members));
    if (&hop == &outer) inside = latency;
    latency += hop.tier->latency_s * std::min(ring, tree);
  }
  if (const auto between = between_hosts(kind, axes, bytes))
    return {.bytes_s = std::max(share * bytes * within, *between),
            .messages_s = sums ? 2 * inside : inside};
  const bool chosen =
      algorithm_ != algorithm::Kind::kAuto && (axes - mesh::kDp - mesh::Axis::kCp).empty();
  if (chosen && kind != plan::Exchange::kAllToAll) {
    const algorithm::Traffic sent = traffic_of(algorithm_, kind, outer.members);
    const double even = (outer.members - 1.0) / outer.members * (sums ? 2 : 1);
    const double rate = bytes_per_s(*outer.tier) * outer.links;
    return {.bytes_s = share * bytes * std::max(slowest, sent.bytes / even / rate),
            .messages_s = (sums ? 2 * inside : inside) + sent.messages * outer.tier->latency_s};
  }
  if (kind == plan::Exchange::kAllToAll) slowest = 1 / bytes_per_s(*outer.tier);
  return {.bytes_s = share * bytes * slowest, .messages_s = sums ? 2 * latency : latency};
}

std::optional<double> Network::between_hosts(plan::Exchange kind, mesh::AxisSet axes,
                                             double bytes) const {
  const bool sums = kind == plan::Exchange::kAllReduce;
  const Hop& outer = hops(axes).back();
  if (!(axes - mesh::kDp - mesh::Axis::kCp).empty() || kind == plan::Exchange::kAllToAll ||
      outer.tier != &cluster_.tiers.back() || outer.members < 2)
    return std::nullopt;
  // What all groups of a host exchange at the same time.
  const double all = bytes * std::max(1.0, cluster_.gpus_per_host / outer.links);
  const bool served = sums && cluster_.reducers.hosts > 0 && algorithm_ == algorithm::Kind::kAuto;
  algorithm::Links links;
  if (cluster_.links && outer.members == static_cast<int>(cluster_.links->hosts.size())) {
    links = *cluster_.links;
  } else if (served) {
    const double rate = bytes_per_s(*outer.tier) * cluster_.gpus_per_host;
    links.hosts.assign(static_cast<std::size_t>(outer.members),
                       {.up = rate, .down = rate, .latency_s = outer.tier->latency_s});
  } else {
    return std::nullopt;
  }
  if (served)
    return algorithm::served_seconds(links, cluster_.reducers.hosts, cluster_.reducers.rate, all);
  if (!sums)
    return algorithm::one_way_seconds(links, *route_, all, kind == plan::Exchange::kAllGather);
  return algorithm::all_reduce_seconds(links, *route_, all);
}

double Network::seconds(plan::Exchange kind, mesh::AxisSet axes, double bytes) const {
  if (mesh_.degree(axes) == 1) return 0;
  double least = INFINITY;
  for (const bool in_switch : {false, true}) {
    if (in_switch && kind != plan::Exchange::kAllReduce) break;
    const Parts each = parts(kind, axes, bytes, in_switch);
    least = std::min(least, each.bytes_s + each.messages_s);
  }
  return least;
}

double Network::channels(mesh::AxisSet axes) const {
  constexpr double kMost = 16, kEach = 12.5e9;  // channels, and bytes a second of one
  if (mesh_.degree(axes) == 1) return 0;
  double rate = INFINITY;
  for (const Hop& hop : hops(axes)) rate = std::min(rate, hop.tier->rate * hop.links);
  return std::min(1.0, rate / (kMost * kEach));
}

double Network::alone(plan::Exchange kind, mesh::AxisSet axes, double bytes) const {
  if (mesh_.degree(axes) == 1) return kLaunch;
  const Parts ring = parts(kind, axes, bytes, false);
  double least = seconds(kind, axes, bytes);
  for (const Protocol& protocol : kShortProtocols)
    least = std::min(least, ring.bytes_s / protocol.rate + ring.messages_s * protocol.latency);
  return kLaunch + least;
}

double Network::transfer(double bytes) const {
  return seconds(plan::Exchange::kSendRecv, mesh::Axis::kPp, bytes);
}

}  // namespace trireme::planner
