// Network: the seconds of collectives and transfers, from where the ranks of a group are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/program.h"
#include "trireme/planner/hardware/hardware.h"

namespace trireme::planner {

// Ranks of a mesh on the hosts of a cluster, in rank order. All groups over the same axes communicate at the same time:
// the members of a group on a host get their share of its links. The slowest group counts: that over most hosts, or
// with fewest members on one.
class Network {
 public:
  // Throws Error{kUsage} where the cluster has fewer processors than the mesh has ranks, or no tier joins them all.
  // `algorithm`: of data-parallel groups between hosts; kAuto: a ring, or a tree for few bytes.
  Network(const Cluster& cluster, const mesh::Mesh& mesh,
          algorithm::Kind algorithm = algorithm::Kind::kAuto, bool canonical = true);

  // `bytes` as in plan::NodeExchange: the whole that is reduced, gathered or scattered; for all_to_all and send_recv
  // the bytes that a rank gives. A ring within each tier, over the hosts through all links that the group has on each.
  // For few bytes a tree, whose latency grows with the logarithm of the ranks.
  double seconds(plan::Exchange kind, mesh::AxisSet axes, double bytes) const;

  // Between neighbouring stages of a pipeline.
  double transfer(double bytes) const;

  // Share of the processor that a collective takes from overlapped computation, relative to one over the fastest links.
  // NCCL opens channels, each with a unit of its own, until the links are busy.
  double channels(mesh::AxisSet axes) const;

  // A collective by itself, as a benchmark times it: from the host's call on, and by the protocol of NCCL that is soonest
  // done. In a step hosts are ahead, and what is sent is long.
  double alone(plan::Exchange kind, mesh::AxisSet axes, double bytes) const;

  const mesh::Mesh& mesh() const { return mesh_; }

 private:
  // Seconds of the bytes and of the messages, by a ring or with sums in the switches that support them.
  struct Parts {
    double bytes_s = 0;
    double messages_s = 0;
  };
  Parts parts(plan::Exchange kind, mesh::AxisSet axes, double bytes, bool in_switch) const;
  // Seconds between all hosts by their measured links or by reduction servers; nothing where there are none, or the group
  // is on some hosts only.
  std::optional<double> between_hosts(plan::Exchange kind, mesh::AxisSet axes, double bytes) const;
  // A tier as a group sees it: how many of its members the tier joins into one, and what each brings.
  struct Hop {
    int members = 1;   // that meet here
    double links = 1;  // of the tier's, for each of them
    const NetworkTier* tier = nullptr;
  };
  const std::vector<Hop>& hops(mesh::AxisSet axes) const;
  std::vector<Hop> make_hops(mesh::AxisSet axes) const;

  const Cluster& cluster_;
  mesh::Mesh mesh_;
  algorithm::Kind algorithm_;
  std::optional<algorithm::Route> route_;                  // by measured links
  mutable std::map<std::uint8_t, std::vector<Hop>> hops_;  // by the bits of axes
};

}  // namespace trireme::planner
