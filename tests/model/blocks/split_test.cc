// Backwards of blocks and heads in halves, on one rank and over several: the bits of the whole, what each half
// exchanges, and what is held in between.
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <barrier>
#include <map>

#include "tests/harness/bound_model.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/counting_world.h"
#include "tests/harness/relatives.h"
#include "trireme/base/cpu.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/instr.h"

namespace trireme::blocks::split_test {
namespace {

using config::Family;
using plan::Verb;
using Tensors = std::vector<at::Tensor>;

constexpr Family kFamilies[] = {Family::kGpt, Family::kLlama, Family::kNeox};

config::Job job_of(Family family, const std::vector<std::string>& sets) {
  config::Job job;
  job.model = {.family = family,
               .layers = 1,
               .hidden = 128,
               .heads = 8,
               .kv_heads = family == Family::kLlama ? 4 : 8,
               .ffn = 320,
               .vocab = 192,
               .seq_len = 160};
  job.run.micro_batch = 3;
  job.run.global_batch = 3;
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, job.parallel.tp * job.parallel.cp, {});
}

// One rank's model with inputs for each of its nodes.
class RankModel {
 public:
  RankModel(const config::Job& job, comm::World& world)
      : bound_(build(job, world), type_of(job.precision.compute), 1,
               model::mesh_of(job).coordinate(world.rank(), mesh::Axis::kTp), job.parallel.tp),
        tokens_(at::randint(
            job.model.vocab, {job.run.micro_batch, job.model.seq_len / job.parallel.cp},
            at::make_generator<at::CPUGeneratorImpl>(7), at::TensorOptions().dtype(at::kLong))) {
    inputs_ = {tokens_};
    for (std::size_t node = 0; node + 1 < program().nodes.size(); ++node)
      inputs_.push_back(bound_.block(node).forward(node_inputs(node), context({}))[0].detach());
  }

  const plan::Program& program() const { return bound_.model().spec.program; }
  const exec::Model& model() const { return bound_.model(); }

  void clear_gradients() {
    for (const auto& [name, param] : bound_.params()) param.mutable_grad().reset();
  }

  // Calls after(verb) behind each part. Gradients of the input and of all parameters.
  Tensors run(std::size_t node, bool halves, const std::function<void(Verb)>& after = {}) {
    const auto done = [&](Verb verb) {
      if (after) after(verb);
    };
    clear_gradients();
    const auto gradients = halves ? std::make_shared<ops::WeightGradients>() : nullptr;
    Tensors in = node_inputs(node);
    in[0].set_requires_grad(true);
    at::Tensor y = bound_.block(node).forward(in, context(gradients))[0];
    done(Verb::kForward);
    if (halves) gradients->defer();
    torch::autograd::backward({y}, {seed(y)});
    y.reset();
    Tensors all = {in[0].grad()};
    in.clear();
    if (halves) {
      for (const auto& [name, param] : bound_.params())
        EXPECT_FALSE(param.grad().defined()) << name;
      done(Verb::kBackwardInput);
      gradients->run();
      done(Verb::kBackwardWeight);
    } else {
      done(Verb::kBackward);
    }
    for (const auto& [name, param] : bound_.params()) all.push_back(param.grad());
    return all;
  }

 private:
  static at::ScalarType type_of(DType type) {
    return type == DType::kF64 ? at::kDouble : type == DType::kF32 ? at::kFloat : at::kBFloat16;
  }
  static exec::BlockContext context(ops::WeightGradientsPtr gradients) {
    return {.seed = 3, .weight_gradients = std::move(gradients)};
  }
  static at::Tensor seed(const at::Tensor& y) {
    return at::empty(y.sizes(), at::TensorOptions().dtype(at::kDouble))
        .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(8))
        .to(y.scalar_type());
  }
  Tensors node_inputs(std::size_t node) const {
    Tensors in = {inputs_[node].detach()};
    if (program().nodes[node].reads.size() > 1) in.push_back(tokens_);  // targets
    return in;
  }

  harness::BoundModel bound_;
  at::Tensor tokens_;
  Tensors inputs_;
};

// body(model, node) for every node that splits, on every rank at once.
void for_split_nodes(
    const config::Job& job,
    const std::function<void(RankModel&, std::size_t, harness::CountingWorld&)>& body) {
  comm::run_local_ranks(job.parallel.tp * job.parallel.cp, 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    RankModel model(job, world);
    EXPECT_FALSE(model.program().nodes[0].split);
    for (std::size_t node = 1; node < model.program().nodes.size(); ++node)
      if (model.program().nodes[node].split) body(model, node, world);
  });
}

const std::vector<std::vector<std::string>> kLayouts = {
    {},
    {"parallel.tp=2"},
    {"parallel.tp=2", "parallel.sequence_parallel=false"},
    {"parallel.tp=4"},
    {"parallel.cp=2"},
    {"parallel.cp=2", "parallel.context=all_gather"},
    {"parallel.cp=2", "parallel.context=ulysses"},
    {"parallel.tp=2", "parallel.cp=2"}};

TEST(SplitBackward, HalvesGiveTheBitsOfTheWhole) {
  for (const Family family : kFamilies)
    for (const char* type : {"fp64", "fp32", "bf16"})
      for (std::vector<std::string> sets : kLayouts) {
        sets.push_back("precision.compute=" + std::string(type));
        if (family == Family::kGpt) sets.push_back("model.dropout=0.1");
        SCOPED_TRACE(testing::PrintToString(sets));
        for_split_nodes(job_of(family, sets), [](RankModel& model, std::size_t node, auto&) {
          const Tensors whole = model.run(node, false), halves = model.run(node, true);
          ASSERT_EQ(whole.size(), halves.size());
          int compared = 0;
          for (std::size_t i = 0; i < whole.size(); ++i) {
            ASSERT_EQ(whole[i].defined(), halves[i].defined()) << i;
            if (!whole[i].defined()) continue;  // another node's parameter
            ++compared;
            EXPECT_TRUE(at::equal(whole[i], halves[i])) << model.program().nodes[node].name << i;
          }
          EXPECT_GT(compared, 1);
        });
      }
}

// As `sets` say of recompute.*, in halves and whole.
void expect_bits_of_kept(Family family, const std::vector<std::string>& layout,
                         const std::vector<std::string>& sets) {
  std::vector<std::string> all = layout;
  all.insert(all.end(), sets.begin(), sets.end());
  const config::Job kept_job = job_of(family, layout), recomputed_job = job_of(family, all);
  comm::run_local_ranks(kept_job.parallel.tp * kept_job.parallel.cp, 60, [&](comm::World& world) {
    RankModel kept(kept_job, world), recomputed(recomputed_job, world);
    ASSERT_GT(recompute_flops(recomputed.program().nodes[1]), 0);
    const Tensors expected = kept.run(1, false);
    for (const bool halves : {false, true}) {
      const Tensors actual = recomputed.run(1, halves);
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(expected[i].defined(), actual[i].defined()) << i;
        if (expected[i].defined()) {
          EXPECT_TRUE(at::equal(expected[i], actual[i])) << i << (halves ? " in halves" : "");
        }
      }
    }
  });
}

TEST(PartsComputedAgain, GiveTheBitsOfThoseKept) {
  for (const Family family : kFamilies)
    for (const char* type : {"fp32", "bf16"})
      for (std::vector<std::string> layout : kLayouts) {
        layout.push_back("precision.compute=" + std::string(type));
        if (family == Family::kGpt) layout.push_back("model.dropout=0.1");
        for (const char* parts : {"norms,attention,mlp", "norms", "attention", "mlp"}) {
          if (*type == 'b' && std::string(parts).find(',') == std::string::npos) continue;
          SCOPED_TRACE(testing::PrintToString(layout) + parts);
          expect_bits_of_kept(
              family, layout,
              {"recompute.policy=selective", "recompute.parts=" + std::string(parts)});
        }
      }
}

// By kind: how often, and bytes in all.
using Sums = std::map<std::string, std::pair<int, std::int64_t>>;

Sums planned(const plan::Node& node, Verb verb) {
  Sums sums;
  for (const plan::NodeExchange& one : node.exchanges) {
    const int times = plan::times(node, one, verb);
    if (times == 0) continue;
    auto& [all_times, bytes] = sums[std::string(name(one.kind))];
    all_times += times;
    bytes += times * one.bytes;
  }
  return sums;
}

TEST(SplitBackward, EachHalfExchangesWhatItsNodeSays) {
  for (const Family family : kFamilies)
    for (const std::vector<std::string>& sets : kLayouts) {
      if (sets.empty() || !sets[0].starts_with("parallel.tp")) continue;
      SCOPED_TRACE(testing::PrintToString(sets));
      const config::Job job = job_of(family, sets);
      for_split_nodes(job, [&](RankModel& model, std::size_t node, harness::CountingWorld& world) {
        world.take("");
        plan::Node over_tp = model.program().nodes[node];
        std::erase_if(over_tp.exchanges, [](const plan::NodeExchange& one) {
          return one.axes != mesh::AxisSet(mesh::Axis::kTp);
        });
        const auto compare = [&](Verb verb) {
          Sums counted;
          for (const comm::CountingGroup::Entry& entry : world.take("layers.tp")) {
            auto& [times, bytes] = counted[std::string(comm::name(entry.verb))];
            ++times;
            bytes += entry.count * static_cast<std::int64_t>(size_of(entry.type));
          }
          EXPECT_EQ(counted, planned(over_tp, verb)) << over_tp.name << " " << name(verb);
          const bool gathers = job.parallel.sequence_parallel && verb == Verb::kBackwardWeight;
          if (gathers) {
            EXPECT_EQ(counted.size(), 1U);
          }
        };
        for (const bool halves : {true, false}) model.run(node, halves, compare);
      });
    }
}

// To the byte, but LibTorch's norms give gradients in types of their own.
double tolerance() { return has_own_loops() ? 0 : 0.01; }

// All ranks together.
void expect_held(const config::Job& job) {
  const int ranks = job.parallel.tp * job.parallel.cp;
  std::barrier together(ranks);
  const harness::CountAllocations count;
  std::int64_t before = 0;
  for_split_nodes(job, [&](RankModel& model, std::size_t node, harness::CountingWorld& world) {
    const auto alone = [&](const std::function<void()>& body) {
      together.arrive_and_wait();
      if (world.rank() == 0) body();
      together.arrive_and_wait();
    };
    const plan::Node& each = model.program().nodes[node];
    const std::int64_t dx = model.program().values[each.reads[0]].bytes;
    const std::int64_t elsewhere = harness::kept_input(model.model(), node);
    model.run(node, true);  // what is made once lasts
    model.clear_gradients();
    alone([&] { before = count.live_bytes(); });
    model.run(node, true, [&](Verb verb) {
      if (verb != Verb::kBackwardInput) return;
      alone([&] {
        const auto held = static_cast<double>(count.live_bytes() - before - ranks * dx);
        const auto declared = static_cast<double>(ranks * (each.split->kept_bytes - elsewhere));
        EXPECT_NEAR(held, declared, tolerance() * declared) << each.name;
      });
    });
  });
}

TEST(SplitBackward, HoldsInBetweenWhatItsNodeSays) {
  for (const Family family : kFamilies)
    for (const auto& [type, recomputed] :
         {std::pair("fp32", false), std::pair("bf16", false), std::pair("bf16", true)})
      for (std::vector<std::string> sets : kLayouts) {
        sets.push_back("precision.compute=" + std::string(type));
        if (recomputed)  // then in between it is kept all the same
          sets.insert(sets.end(),
                      {"recompute.policy=selective", "recompute.parts=norms,attention,mlp"});
        SCOPED_TRACE(testing::PrintToString(sets));
        expect_held(job_of(family, sets));
      }
  for (const auto& [name, own] : harness::kRelatives)
    for (std::vector<std::string> sets : kLayouts) {
      sets.insert(sets.end(), own.begin(), own.end());
      SCOPED_TRACE(testing::PrintToString(sets));
      expect_held(job_of(Family::kLlama, sets));
    }
}

// Logits that are computed again leave nothing to keep.
TEST(SplitBackward, IsDeclared) {
  for (const Family family : kFamilies) {
    const config::Job kept = job_of(family, {}),
                      recomputed = job_of(family, {"recompute.logits=true"});
    const plan::Program program = build(kept).spec.program;
    const plan::Node &block = program.nodes[1], &head = program.nodes[2];
    const double tokens = 3 * 160;
    const double weights = family == Family::kLlama ? 2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 320
                                                    : 4 * 128 * 128 + 2 * 128 * 320;
    EXPECT_EQ(block.split->weight_flops, 2 * tokens * weights);
    EXPECT_EQ(block.flops, 2 * tokens * (weights + 160 * 128));
    EXPECT_EQ(head.split->weight_flops, head.flops);
    const plan::Program kept_less = build(recomputed).spec.program;
    const plan::GradientFlow flow = plan::gradient_flow(kept_less);
    EXPECT_FALSE(plan::splits_backward(kept_less, flow, 2));
    EXPECT_TRUE(plan::splits_backward(kept_less, flow, 1));
    EXPECT_TRUE(plan::splits_backward(program, flow, 2));
  }
}

}  // namespace
}  // namespace trireme::blocks::split_test
