// What blocks exchange over tp and cp is what the plan says, and what Megatron exchanges.
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/harness/counting_world.h"
#include "tests/harness/relatives.h"
#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/train/job_session.h"

namespace trireme::train::exchange_test {
namespace {

using comm::Verb;
using harness::Sets;
using harness::operator+;
using plan::Exchange;

struct Sum {
  int times = 0;
  std::int64_t bytes = 0;
  bool operator==(const Sum&) const = default;
};
using Sums = std::map<std::string, Sum>;  // by kind
std::ostream& operator<<(std::ostream& out, const Sum& sum) {
  return out << sum.times << " times, " << sum.bytes << " bytes";
}

config::Job job_of(config::Family family, const std::vector<std::string>& sets) {
  config::Job job;
  job.model = {.family = family,
               .layers = 3,
               .hidden = 48,
               .heads = 4,
               .ffn = 64,
               .vocab = 96,
               .seq_len = 48};
  if (family == config::Family::kNeox) job.neox.rotary_fraction = 0.5;
  job.run.micro_batch = 2;
  job.run.global_batch = 4;
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

// By the program: lines of a rank's list times what their node exchanges.
Sums planned(const plan::PlanSet& plan, mesh::Axis axis) {
  Sums sums;
  for (const plan::Instr& line : plan.lists[0]) {
    if (line.node < 0) continue;
    const plan::Node& node = plan.program.nodes[line.node];
    for (const plan::NodeExchange& one : node.exchanges) {
      if (one.axes != mesh::AxisSet(axis)) continue;
      const int times = plan::times(node, one, line.verb);
      if (times == 0) continue;
      Sum& sum = sums[std::string(name(one.kind))];
      sum.times += times;
      sum.bytes += times * one.bytes;
    }
  }
  return sums;
}

Sums counted(harness::CountingWorld& world, const std::string& groups) {
  Sums sums;
  for (const comm::CountingGroup::Entry& entry : world.take(groups)) {
    if (entry.verb == Verb::kRecv) continue;
    Sum& sum = sums[entry.verb == Verb::kSend ? "send_recv" : std::string(comm::name(entry.verb))];
    ++sum.times;
    sum.bytes += entry.count * static_cast<std::int64_t>(size_of(entry.type));
  }
  return sums;
}

// The plan, and what each rank exchanged in the second step.
struct Exchanged {
  plan::PlanSet plan;
  std::vector<Sums> tp, cp;
};

Exchanged run(const config::Job& job) {
  const int ranks = job.parallel.tp * job.parallel.cp;
  const config::SyntheticSource* const synthetic = config::synthetic_source(job.data.source);
  const config::Job resolved =
      config::resolve(job, ranks, synthetic != nullptr ? synthetic->facts : config::DatasetFacts{});
  const loaders::Sources sources =
      synthetic != nullptr ? loaders::open_sources(resolved, {}) : loaders::Sources{};
  Exchanged result{.plan = {}, .tp = std::vector<Sums>(ranks), .cp = std::vector<Sums>(ranks)};
  comm::run_local_ranks(ranks, 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    JobSession session(resolved, world);
    const auto load = [&](std::int64_t first) {
      if (sources.train != nullptr) return sources.train->batch(first, resolved.run.micro_batch);
      const at::Tensor tokens = at::zeros({resolved.run.micro_batch, resolved.model.seq_len},
                                          at::TensorOptions().dtype(at::kLong));
      std::vector<at::Tensor> batch = {tokens, tokens};
      if (resolved.data.documents) batch.push_back(tokens);
      return batch;
    };
    session.train(0, false, load);
    world.take("");
    session.train(1, false, load);
    const auto rank = static_cast<std::size_t>(inner.rank());
    result.tp[rank] = counted(world, "layers.tp");
    result.cp[rank] = counted(world, "layers.cp");
    if (rank == 0) result.plan = session.session().plan();
  });
  return result;
}

// Every rank's counts equal the plan's; returns the plan.
plan::PlanSet expect_planned(const config::Job& job) {
  const Exchanged result = run(job);
  EXPECT_THAT(result.tp, testing::Each(planned(result.plan, mesh::Axis::kTp)));
  EXPECT_THAT(result.cp, testing::Each(planned(result.plan, mesh::Axis::kCp)));
  return result.plan;
}

Sums largest(const std::vector<Sums>& ranks) {
  Sums all;
  for (const Sums& rank : ranks)
    for (const auto& [kind, sum] : rank) {
      Sum& most = all[kind];
      most = {std::max(most.times, sum.times), std::max(most.bytes, sum.bytes)};
    }
  return all;
}

TEST(Exchanges, AreThoseOfThePlan) {
  for (config::Family family :
       {config::Family::kGpt, config::Family::kLlama, config::Family::kNeox})
    for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
             {"parallel.tp=2"},
             {"parallel.tp=2", "parallel.sequence_parallel=false"},
             {"parallel.tp=4", "recompute.policy=full"},
             {"parallel.cp=2"},
             {"parallel.cp=4", "precision.compute=bf16"},
             {"parallel.cp=2", "parallel.context=all_gather", "precision.compute=bf16"},
             {"parallel.cp=4", "parallel.context=ulysses"},
             {"parallel.cp=4", "parallel.context=hierarchical"},
             {"parallel.cp=2", "data.documents=true"},
             {"parallel.cp=4", "parallel.context=ulysses", "data.documents=true"},
             {"parallel.cp=4", "parallel.context=hierarchical", "data.documents=true"},
             {"parallel.tp=2", "parallel.cp=2"},
             {"parallel.tp=2", "recompute.policy=selective", "recompute.parts=norms,mlp"},
             {"parallel.tp=2", "parallel.cp=2", "recompute.policy=selective"},
             {"parallel.cp=4", "recompute.policy=selective"},
             {"parallel.cp=2", "parallel.context=all_gather", "recompute.policy=selective"},
             {"parallel.cp=4", "parallel.context=ulysses", "recompute.policy=selective"},
             {"parallel.cp=4", "parallel.context=hierarchical", "recompute.policy=selective"}}) {
      std::string text;
      for (const std::string& set : layout) text += set + " ";
      SCOPED_TRACE(text);
      expect_planned(job_of(family, layout));
    }
}

// Norms over the heads of all ranks add a number a token.
TEST(Exchanges, OfLlamasRelativesAreThoseOfThePlan) {
  for (const auto& [name, own] : harness::kRelatives)
    for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
             {"parallel.tp=2"},
             {"parallel.tp=2", "parallel.sequence_parallel=false", "precision.compute=bf16"},
             {"parallel.tp=2", "parallel.cp=2", "recompute.policy=full"}}) {
      SCOPED_TRACE(name + testing::PrintToString(layout));
      std::vector<std::string> sets = own;
      sets.insert(sets.end(), layout.begin(), layout.end());
      expect_planned(job_of(config::Family::kLlama, sets));
    }
}

// A key-value head goes to every rank that reads it.
TEST(Exchanges, OfSharedKeyValueHeadsAreThoseOfThePlan) {
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"model.kv_heads=2", "parallel.cp=4", "parallel.context=ulysses"},
           {"model.kv_heads=1", "parallel.cp=2", "parallel.context=ulysses"},
           {"model.kv_heads=1", "parallel.cp=4", "parallel.context=hierarchical"},
           {"model.kv_heads=1", "parallel.tp=2", "parallel.cp=2", "parallel.context=ulysses"},
           {"model.kv_heads=2", "parallel.cp=4"}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    expect_planned(job_of(config::Family::kLlama, layout));
  }
}

// The plan speaks of the rank with most heads.
TEST(Exchanges, OfUnevenHeadsAreThePlansAtMost) {
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"model.heads=5", "model.hidden=40", "parallel.cp=3", "parallel.context=ulysses"},
           {"model.heads=5", "model.kv_heads=1", "model.hidden=40", "parallel.cp=3",
            "parallel.context=ulysses"},
           {"model.heads=6", "model.kv_heads=2", "parallel.cp=4", "parallel.context=ulysses"},
           {"model.heads=5", "model.hidden=40", "parallel.cp=4", "parallel.context=hierarchical"},
           {"model.heads=5", "model.hidden=40", "parallel.tp=2", "parallel.cp=2",
            "parallel.context=ulysses"}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const Exchanged result = run(job_of(config::Family::kLlama, layout));
    EXPECT_EQ(largest(result.tp), planned(result.plan, mesh::Axis::kTp));
    EXPECT_EQ(largest(result.cp), planned(result.plan, mesh::Axis::kCp));
  }
}

// Of families other than decoders: where the number of rows varies, the plan speaks of the most there can be.
TEST(Exchanges, OfSharedRowsAreThoseOfThePlan) {
  const Sets small = {"vision.image=16", "vision.patch=4",     "vision.hidden=24",
                      "vision.heads=4",  "vision.layers=2",    "run.micro_batch=2",
                      "data.samples=64", "run.global_batch=4", "parallel.dp_shard=1"};
  const Sets clips = {"vision.frames=4",         "vision.tubelet=2",    "vision.heads=2",
                      "vision.positions=rotary", "data.source=squares", "jepa.layers=1",
                      "jepa.hidden=16",          "jepa.heads=2"};
  struct Spread {
    std::string family;
    Sets sets;
    bool varies = true;
  };
  for (const Spread& spread :
       std::vector<Spread>{{"vit", {"data.source=stripes", "vision.pooling=attention"}, false},
                           {"jepa", clips},
                           {"hvjepa", clips + Sets{"chunk.hidden=16", "chunk.heads=2"}},
                           {"clip",
                            {"data.source=scenes", "model.seq_len=56", "model.hidden=16",
                             "model.heads=4", "contrastive.width=12", "run.global_batch=2"},
                            false}})
    for (const Sets& layout :
         {Sets{"parallel.cp=2"}, Sets{"parallel.cp=2", "recompute.policy=full"},
          Sets{"parallel.cp=2", "model.frozen=*block.0"}}) {
      SCOPED_TRACE(spread.family + testing::PrintToString(layout));
      config::Job job;
      for (const Sets& sets : {Sets{"model.family=" + spread.family}, small, spread.sets, layout})
        for (const std::string& set : sets) config::apply_set(job, set);
      const Exchanged result = run(job);
      const Sums most = planned(result.plan, mesh::Axis::kCp);
      EXPECT_GT(most.at("all_gather").times, 4);
      for (const Sums& sums : result.cp)
        for (const auto& [kind, sum] : most) {
          EXPECT_EQ(sums.at(kind).times, sum.times) << kind;
          if (spread.varies)
            EXPECT_LE(sums.at(kind).bytes, sum.bytes) << kind;
          else
            EXPECT_EQ(sums.at(kind).bytes, sum.bytes) << kind;
        }
    }
}

// anchors.md: a layer has two all-reduces forward and two backward; with sequence parallelism all-gather and
// reduce-scatter in their place, and for weights what a column-parallel layer read is gathered again; a ring passes keys
// and values on ranks - 1 times.
TEST(Exchanges, AreMegatrons) {
  const auto block = [](const std::vector<std::string>& sets) {
    const plan::PlanSet plan = expect_planned(job_of(config::Family::kGpt, sets));
    std::vector<plan::NodeExchange> exchanges = plan.program.nodes[1].exchanges;
    std::erase_if(exchanges, [](const plan::NodeExchange& one) { return !one.part.empty(); });
    return exchanges;
  };
  const std::int64_t activation = 2 * 48 * 48 * 4;
  const mesh::AxisSet tp = mesh::Axis::kTp;
  EXPECT_THAT(block({"parallel.tp=2", "parallel.sequence_parallel=false"}),
              testing::ElementsAre(plan::NodeExchange{Exchange::kAllReduce, tp, activation, 2, 2}));
  EXPECT_THAT(
      block({"parallel.tp=2"}),
      testing::ElementsAre(plan::NodeExchange{Exchange::kAllGather, tp, activation, 2, 2, 2},
                           plan::NodeExchange{Exchange::kReduceScatter, tp, activation, 2, 2}));
  const auto ring = block({"parallel.cp=4"});
  ASSERT_FALSE(ring.empty());
  EXPECT_EQ(ring[0].kind, Exchange::kSendRecv);
  EXPECT_EQ(ring[0].forward, 3);
  EXPECT_EQ(ring[0].bytes, 2 * activation / 4);
}

}  // namespace
}  // namespace trireme::train::exchange_test
