// Exchanges of a model's nodes as planned and as counted.
#pragma once

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tests/harness/counting_world.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"
#include "trireme/train/job_session.h"

namespace trireme::extending {

// Times and bytes, by kind of exchange.
using Exchanged = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;

inline void add(Exchanged& all, const std::string& kind, std::int64_t times, std::int64_t bytes) {
  if (times == 0) return;
  all[kind].first += times;
  all[kind].second += times * bytes;
}

// Rank 0's plan of exchanges within nodes.
inline Exchanged planned_exchanges(const plan::PlanSet& plan) {
  Exchanged all;
  for (const plan::Instr& line : plan.lists[0]) {
    if (line.node < 0) continue;
    const plan::Node& node = plan.program.nodes[line.node];
    for (const plan::NodeExchange& one : node.exchanges)
      add(all, std::string(name(one.kind)), plan::times(node, one, line.verb), one.bytes);
  }
  return all;
}

// In the second step every rank exchanges what the plan says.
inline void expect_exchanged(const config::Job& job, const blocks::OwnModel& own) {
  const int ranks = job.parallel.tp * job.parallel.cp;
  const config::Job resolved = config::resolve(job, ranks, {});
  std::mutex mutex;
  comm::run_local_ranks(ranks, 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    train::JobSession session(resolved, world, blocks::build(resolved, world, own));
    const train::JobSession::Load load([&](std::int64_t) {
      const at::Tensor tokens = at::zeros({resolved.run.micro_batch, resolved.model.seq_len},
                                          at::TensorOptions().dtype(at::kLong));
      return std::vector{tokens, tokens};
    });
    session.train(0, false, load);
    world.take("");
    session.train(1, false, load);
    Exchanged counted;
    for (const comm::CountingGroup::Entry& entry : world.take("layers."))
      if (entry.verb != comm::Verb::kRecv)
        add(counted,
            entry.verb == comm::Verb::kSend ? "send_recv" : std::string(comm::name(entry.verb)), 1,
            entry.count * static_cast<std::int64_t>(size_of(entry.type)));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(counted, planned_exchanges(session.session().plan())) << "rank " << inner.rank();
  });
}

}  // namespace trireme::extending
