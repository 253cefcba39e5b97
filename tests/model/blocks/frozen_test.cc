// What nodes say of a backward in which not everything trains, against what it keeps, exchanges and leaves.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <barrier>
#include <map>

#include "tests/harness/bound_model.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/counting_world.h"
#include "tests/harness/relatives.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/instr.h"

namespace trireme::blocks::frozen_test {
namespace {

using config::Family;
using plan::Verb;
using Sets = std::vector<std::string>;
using Tensors = std::vector<at::Tensor>;

// A family, or a relative of one.
struct Kind {
  Family family;
  Sets own{};
};
const std::vector<Kind> kKinds = [] {
  std::vector<Kind> all = {{Family::kGpt}, {Family::kLlama}, {Family::kNeox}};
  for (const auto& [name, own] : harness::kRelatives) all.push_back({Family::kLlama, own});
  return all;
}();

// From embed to head: all kinds of what comes before and trains itself.
const std::vector<Sets> kTraining = {{"model.frozen=embed"},
                                     {"model.frozen=embed,block.0"},
                                     {"model.frozen=block.*"},
                                     {"model.frozen=head", "model.tied=false"},
                                     {"lora.rank=8"},
                                     {"lora.rank=8", "lora.targets=attention"},
                                     {"lora.rank=8", "lora.targets=mlp"},
                                     {"lora.rank=8", "lora.also=block.1,head"},
                                     {"lora.rank=8", "lora.also=embed"},
                                     {"lora.rank=8", "lora.dora=true"},
                                     {"lora.rank=8", "lora.dora=true", "lora.targets=mlp"},
                                     {"lora.rank=8", "lora.dora=true", "lora.also=block.1,head"}};

const std::vector<Sets> kLayouts = {{},
                                    {"parallel.tp=2"},
                                    {"parallel.tp=2", "parallel.sequence_parallel=false"},
                                    {"parallel.cp=2"},
                                    {"parallel.cp=2", "data.documents=true"}};

// Families meet every training and layout, a relative every third pair: together relatives meet all.
bool chosen(std::size_t kind, std::size_t training, std::size_t layout) {
  return kKinds[kind].own.empty() || (kind + training + layout) % 3 == 0;
}

// Calls body with every chosen kind, training and one of `layouts`.
void for_chosen(const std::vector<Sets>& layouts,
                const std::function<void(const Kind&, const Sets&, const Sets&)>& body) {
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind)
    for (std::size_t training = 0; training < kTraining.size(); ++training)
      for (std::size_t layout = 0; layout < layouts.size(); ++layout)
        if (chosen(kind, training, layout))
          body(kKinds[kind], kTraining[training], layouts[layout]);
}

config::Job job_of(const Kind& kind, const Sets& training, const Sets& layout,
                   const Sets& more = {}) {
  config::Job job;
  job.model = {.family = kind.family,
               .layers = 2,
               .hidden = 128,
               .heads = 8,
               .kv_heads = kind.family == Family::kLlama ? 4 : 8,
               .ffn = 320,
               .vocab = 192,
               .seq_len = 160};
  job.run.micro_batch = job.run.global_batch = 3;
  for (const Sets* sets : {&kind.own, &training, &layout, &more})
    for (const std::string& set : *sets) config::apply_set(job, set);
  return config::resolve(job, job.parallel.tp * job.parallel.cp, {});
}

std::string text(const Kind& kind, const Sets& training, const Sets& layout) {
  return testing::PrintToString(std::tuple(config::name(kind.family), kind.own, training, layout));
}

// How many from the first on are equal: with the same bits, or absent in both.
std::int64_t equal_tensors(const Tensors& a, const Tensors& b) {
  std::int64_t i = 0;
  while (i < std::min(std::ssize(a), std::ssize(b)) && a[i].defined() == b[i].defined() &&
         (!a[i].defined() || at::equal(a[i], b[i])))
    ++i;
  return i;
}

class RankModel {
 public:
  RankModel(const config::Job& job, comm::World& world)
      : bound_(build(job, world), at::kFloat, 1,
               model::mesh_of(job).coordinate(world.rank(), mesh::Axis::kTp), job.parallel.tp),
        flow_(plan::gradient_flow(program())),
        tokens_(at::randint(
            job.model.vocab, {job.run.micro_batch, job.model.seq_len / job.parallel.cp},
            at::make_generator<at::CPUGeneratorImpl>(7), at::TensorOptions().dtype(at::kLong))),
        positions_(at::zeros_like(tokens_)) {
    const at::NoGradGuard no_grad;
    inputs_ = {tokens_};
    for (std::size_t node = 0; node + 1 < program().nodes.size(); ++node)
      inputs_.push_back(bound_.block(node).forward(node_inputs(node), {})[0].detach());
  }

  const plan::Program& program() const { return bound_.model().spec.program; }
  const exec::Model& model() const { return bound_.model(); }
  const plan::GradientFlow& flow() const { return flow_; }
  bool splits(std::size_t node) const {
    return plan::splits_backward(program(), flow_, static_cast<plan::NodeId>(node));
  }
  void clear_gradients() {
    for (const auto& [name, param] : bound_.params()) param.mutable_grad().reset();
  }

  // Calls after(verb, y) behind each part, y being what is not the node's to keep. Gradients of the input and of all
  // parameters.
  Tensors run(
      std::size_t node, bool halves,
      const std::function<void(Verb, std::int64_t)>& after = [](Verb, std::int64_t) {}) {
    clear_gradients();
    const auto gradients = halves ? std::make_shared<ops::WeightGradients>() : nullptr;
    Tensors in = node_inputs(node);
    in[0].set_requires_grad(flow_.value_has_grad[program().nodes[node].reads[0]]);
    at::Tensor y = bound_.block(node).forward(in, {.seed = 3, .weight_gradients = gradients})[0];
    after(Verb::kForward, static_cast<std::int64_t>(y.nbytes()));
    if (halves) gradients->defer();
    torch::autograd::backward({y}, {at::ones_like(y)});
    y.reset();
    Tensors all = {in[0].grad()};
    in.clear();
    if (halves) {
      after(Verb::kBackwardInput, static_cast<std::int64_t>(all[0].nbytes()));
      gradients->run();
      after(Verb::kBackwardWeight, 0);
    } else {
      after(Verb::kBackward, 0);
    }
    for (const auto& [name, param] : bound_.params()) all.push_back(param.grad());
    return all;
  }

 private:
  Tensors node_inputs(std::size_t node) const {
    Tensors in = {inputs_[node].detach()};
    const plan::Node& one = program().nodes[node];
    if (one.reads.size() > 1) in.push_back(one.loss ? tokens_ : positions_);
    return in;
  }

  harness::BoundModel bound_;
  plan::GradientFlow flow_;
  at::Tensor tokens_;
  at::Tensor positions_;
  Tensors inputs_;
};

void for_nodes(const config::Job& job,
               const std::function<void(RankModel&, std::size_t, harness::CountingWorld&)>& body) {
  comm::run_local_ranks(job.parallel.tp * job.parallel.cp, 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    RankModel model(job, world);
    for (std::size_t node = 0; node < model.program().nodes.size(); ++node)
      if (model.flow().node_has_backward[node]) body(model, node, world);
  });
}

// All ranks together, from forward to backward and from half to half.
TEST(Frozen, NodesKeepWhatTheySay) {
  for_chosen(kLayouts, [](const Kind& kind, const Sets& training, const Sets& layout) {
    SCOPED_TRACE(text(kind, training, layout));
    const config::Job job = job_of(kind, training, layout);
    const int ranks = job.parallel.tp * job.parallel.cp;
    std::barrier together(ranks);
    const harness::CountAllocations count;
    std::int64_t before = 0;
    for_nodes(job, [&](RankModel& model, std::size_t node, harness::CountingWorld& world) {
      const auto alone = [&](const std::function<void()>& body) {
        together.arrive_and_wait();
        if (world.rank() == 0) body();
        together.arrive_and_wait();
      };
      const plan::Node& each = model.program().nodes[node];
      const bool halves = model.splits(node);
      model.run(node, halves);  // what is made once lasts
      model.clear_gradients();
      alone([&] { before = count.live_bytes(); });
      model.run(node, halves, [&](Verb verb, std::int64_t bytes) {
        const bool first = verb == Verb::kForward;
        if (!first && verb != Verb::kBackwardInput) return;
        alone([&] {
          const auto kept = static_cast<double>(count.live_bytes() - before - ranks * bytes);
          const auto said = static_cast<double>(
              ranks * (first ? each.saved_bytes
                             : each.split->kept_bytes - harness::kept_input(model.model(), node)));
          EXPECT_NEAR(kept, said, 0.01 * said) << each.name << " " << name(verb);
        });
      });
      together.arrive_and_wait();
    });
  });
}

// What is computed again in backward is not kept, with the same bits.
TEST(Frozen, PartsAreLeftOutWithTheSameBits) {
  const std::vector<Sets> parts = {{"recompute.parts=norms"},
                                   {"recompute.parts=mlp"},
                                   {"recompute.parts=attention,mlp"},
                                   {"recompute.parts=norms,attention,mlp"}};
  // What a kind of training keeps nothing of cannot be left out: an error (arch/recompute_test).
  const auto refused = [](const config::Job& job) {
    try {
      return model::describe(job), false;
    } catch (const Error&) {
      return true;
    }
  };
  const auto results = [](const config::Job& job) {
    std::vector<Tensors> all;
    const harness::CountAllocations count;
    for_nodes(job, [&](RankModel& model, std::size_t node, harness::CountingWorld&) {
      const plan::Node& each = model.program().nodes[node];
      model.run(node, false);
      model.clear_gradients();
      const std::int64_t before = count.live_bytes();
      all.push_back(model.run(node, false, [&](Verb verb, std::int64_t bytes) {
        if (verb != Verb::kForward) return;
        const auto kept = static_cast<double>(count.live_bytes() - before - bytes);
        const auto said = static_cast<double>(plan::kept_bytes(each));
        EXPECT_NEAR(kept, said, 0.01 * static_cast<double>(each.saved_bytes)) << each.name;
      }));
    });
    return all;
  };
  int compared = 0, possible = 0;
  for_chosen({{}}, [&](const Kind& kind, const Sets& training, const Sets& none) {
    const std::vector<Tensors> kept = results(job_of(kind, training, none));
    for (Sets recomputed : parts) {
      recomputed.push_back("recompute.policy=selective");
      SCOPED_TRACE(text(kind, training, recomputed));
      ++possible;
      const config::Job job = job_of(kind, training, none, recomputed);
      if (refused(job)) continue;
      ++compared;
      const std::vector<Tensors> computed = results(job);
      ASSERT_EQ(kept.size(), computed.size());
      for (std::size_t node = 0; node < kept.size(); ++node)
        EXPECT_EQ(equal_tensors(kept[node], computed[node]), std::ssize(kept[node])) << node;
    }
  });
  EXPECT_GT(compared, possible / 2);
}

// By kind: how often, and bytes in all.
using Sums = std::map<std::string, std::pair<int, std::int64_t>>;

TEST(Frozen, NodesExchangeWhatTheySay) {
  const std::vector<Sets> layouts(kLayouts.begin() + 1, kLayouts.end() - 1);
  for_chosen(layouts, [](const Kind& kind, const Sets& training, const Sets& layout) {
    SCOPED_TRACE(text(kind, training, layout));
    const config::Job job = job_of(kind, training, layout);
    const bool tp = job.parallel.tp > 1;
    for_nodes(job, [&](RankModel& model, std::size_t node, harness::CountingWorld& world) {
      const plan::Node& each = model.program().nodes[node];
      const auto compare = [&](Verb verb, std::int64_t) {
        Sums counted, said;
        for (const comm::CountingGroup::Entry& entry : world.take(tp ? "layers.tp" : "")) {
          auto& [times, bytes] = counted[std::string(comm::name(entry.verb))];
          ++times;
          bytes += entry.count * static_cast<std::int64_t>(size_of(entry.type));
        }
        for (const plan::NodeExchange& one : each.exchanges) {
          if (!tp) continue;
          const int times = plan::times(each, one, verb);
          if (times == 0) continue;
          auto& [all_times, bytes] = said[std::string(name(one.kind))];
          all_times += times;
          bytes += times * one.bytes;
        }
        const bool attends = std::ranges::any_of(
            each.exchanges, [&](const auto& one) { return plan::times(each, one, verb) > 0; });
        if (tp) {
          EXPECT_EQ(counted, said) << each.name << " " << name(verb);
        } else {
          EXPECT_EQ(!counted.empty(), attends) << each.name << " " << name(verb);
        }
      };
      world.take("");
      model.run(node, false, compare);
      if (model.splits(node)) model.run(node, true, compare);
    });
  });
}

TEST(Frozen, HalvesGiveTheBitsOfTheWhole) {
  for_chosen(
      {kLayouts[0], kLayouts[1]}, [](const Kind& kind, const Sets& training, const Sets& layout) {
        SCOPED_TRACE(text(kind, training, layout));
        const Sets dropout = training[0].starts_with("lora") ? Sets{"lora.dropout=0.2"} : Sets{};
        const config::Job job = job_of(kind, training, layout, dropout);
        for_nodes(job, [&](RankModel& model, std::size_t node, harness::CountingWorld&) {
          if (!model.splits(node)) return;
          const Tensors whole = model.run(node, false);
          const Tensors halves = model.run(node, true);
          EXPECT_GT(std::ranges::count_if(whole, &at::Tensor::defined), 1);
          EXPECT_EQ(equal_tensors(whole, halves), std::ssize(whole))
              << model.program().nodes[node].name;
        });
      });
}

// The formulas are those of our kernels.
TEST(Frozen, NodesHoldWhileTheyRunWhatTheySay) {
  for (const Kind& kind : kKinds)
    for (const Sets& training : kTraining) {
      SCOPED_TRACE(text(kind, training, {}));
      const bool lora = training[0].starts_with("lora");
      const config::Job job = job_of(kind, training, {}, lora ? Sets{"lora.dropout=0.1"} : Sets{});
      harness::BoundModel bound(build(job), at::kFloat);
      for (const auto& [name, param] : bound.params())
        if (param.requires_grad()) at::Tensor(param).mutable_grad() = at::zeros_like(param);
      const harness::CountAllocations count;
      const plan::Program& program = bound.model().spec.program;
      const plan::GradientFlow flow = plan::gradient_flow(program);
      const at::Tensor tokens = at::zeros({3, 160}, at::TensorOptions().dtype(at::kLong));
      at::Tensor x = tokens;
      for (std::size_t n = 0; n < program.nodes.size(); ++n) {
        const plan::Node& node = program.nodes[n];
        const std::int64_t out = program.values[node.writes[0]].bytes;
        const bool input = flow.value_has_grad[node.reads[0]];
        const auto run = [&] {
          Tensors in = {x.detach()};
          in[0].set_requires_grad(input);
          if (node.loss) in.push_back(tokens);
          return bound.block(n).forward(in, {.seed = 1, .node = static_cast<int>(n)})[0];
        };
        {
          const at::NoGradGuard no_grad;
          run();  // what is made once lasts
        }
        at::Tensor y;
        const auto expect = [&](std::int64_t measured, std::int64_t said, const char* what) {
          const auto most = static_cast<double>(std::max(said, std::int64_t{3 * 160 * 128 * 4}));
          EXPECT_NEAR(static_cast<double>(measured), static_cast<double>(said), 0.03 * most)
              << node.name << " " << what;
        };
        if (flow.node_has_backward[n]) {
          expect(count.peak_of([&] { y = run(); }), out + node.saved_bytes + node.work.forward,
                 "forward");
          const torch::autograd::edge_list roots = {torch::autograd::impl::gradient_edge(y)};
          x = y.detach();
          y = at::Tensor();
          const torch::autograd::variable_list seeds = {at::ones_like(x)};
          expect(count.peak_of([&] {
            torch::autograd::Engine::get_default_engine().execute(roots, seeds, false, false, true);
          }),
                 (input ? 3 * 160 * 128 * 4 : 0) + node.work.backward, "backward");
        } else {
          const at::NoGradGuard no_grad;
          x = run();
        }
      }
    }
}

}  // namespace
}  // namespace trireme::blocks::frozen_test
