#include "trireme/planner/network.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "trireme/base/error.h"

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

// How many members of a group are among `span` neighbouring ranks, where all groups lie alike.
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

double bytes_per_s(const Tier& tier) { return tier.rate * tier.efficiency; }

}  // namespace

Network::Network(const Cluster& cluster, const mesh::Mesh& mesh) : cluster_(cluster), mesh_(mesh) {
  if (mesh.world() > cluster.gpus())
    fail(ErrorKind::kUsage,
         "cluster {} has {} hosts of {} = {} GPUs, the layout needs {}; take fewer ranks or more "
         "hosts",
         cluster.name, cluster.hosts, cluster.gpus_per_host, cluster.gpus(), mesh.world());
  for (const Tier& tier : cluster.tiers)
    if (tier.span == 0 || tier.span >= mesh.world()) return;
  if (mesh.world() > 1)
    fail(ErrorKind::kUsage, "cluster {}: no tier joins {} ranks; give the outermost span: 0",
         cluster.name, mesh.world());
}

std::vector<Network::Hop> Network::make_hops(mesh::AxisSet axes) const {
  std::vector<Hop> hops;
  std::vector<std::vector<int>> groups;
  int inner = 1;
  for (const Tier& tier : cluster_.tiers) {
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

double Network::seconds(plan::Exchange kind, mesh::AxisSet axes, double bytes) const {
  const int size = mesh_.degree(axes);
  if (size == 1) return 0;
  if (kind == plan::Exchange::kSendRecv) {
    const Tier& outer = *hops(axes).back().tier;
    return bytes / outer.rate + outer.latency_s;
  }
  // A ring through all tiers is as slow as the slowest; each member's links carry its share.
  double slowest = 0, latency = 0;
  for (const Hop& hop : hops(axes)) {
    slowest = std::max(slowest, 1 / (bytes_per_s(*hop.tier) * hop.links));
    const double ring = hop.members - 1, tree = 2 * std::ceil(std::log2(hop.members));
    latency += hop.tier->latency_s * std::min(ring, tree);
  }
  const double share = (size - 1.0) / size;
  switch (kind) {
    case plan::Exchange::kAllReduce: return 2 * (share * bytes * slowest + latency);
    case plan::Exchange::kAllToAll: {
      const Hop& outer = hops(axes).back();
      return share * bytes / bytes_per_s(*outer.tier) + latency;
    }
    default: return share * bytes * slowest + latency;
  }
}

double Network::transfer(double bytes) const {
  return seconds(plan::Exchange::kSendRecv, mesh::Axis::kPp, bytes);
}

}  // namespace trireme::planner
