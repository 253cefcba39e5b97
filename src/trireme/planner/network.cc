#include "trireme/planner/network.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

// Ranks between neighbours of a group along its innermost axis, and the members' span in ranks: a group over several
// axes has neighbours as near as the innermost of them.
int stride_of(const mesh::Mesh& mesh, mesh::AxisSet axes) {
  int stride = 1;
  for (const mesh::Axis axis : mesh::kAllAxes) {
    if (axes.contains(axis) && mesh.degree(axis) > 1) return stride;
    stride *= mesh.degree(axis);
  }
  return stride;
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

std::vector<Network::Hop> Network::hops(mesh::AxisSet axes) const {
  const int size = mesh_.degree(axes), stride = stride_of(mesh_, axes);
  std::vector<Hop> hops;
  int joined = 1;  // members that inner tiers have joined
  for (const Tier& tier : cluster_.tiers) {
    const int reach = tier.span == 0 ? size : std::clamp(tier.span / stride, 1, size);
    if (reach <= joined) continue;
    hops.push_back(
        {.members = reach / joined, .links = static_cast<double>(joined), .tier = &tier});
    joined = reach;
    if (joined == size) break;
  }
  return hops;
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
      const Hop outer = hops(axes).back();
      return share * bytes / bytes_per_s(*outer.tier) + latency;
    }
    default: return share * bytes * slowest + latency;
  }
}

double Network::transfer(double bytes) const {
  return seconds(plan::Exchange::kSendRecv, mesh::Axis::kPp, bytes);
}

}  // namespace trireme::planner
