// Outer steps: islands that train apart and merge. Their oracles are Lookahead, data parallelism and formulas.
#include "trireme/plan/outer_steps.h"

#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "tests/exec/outer_subject.h"
#include "tests/harness/counting_world.h"
#include "tests/harness/ranks.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/saved.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/simulate/cost.h"

namespace trireme::exec::outer_steps_test {
namespace {

// By unit: the checkpoint's parameters, which are the outer weights where there are islands.
using Params = std::map<plan::UnitId, std::vector<double>>;

Params params_of(const Units& units) {
  Params params;
  for (const StateSlice& slice : units.local_slices()) {
    if (slice.kind != "param") continue;
    const at::Tensor values = units.read(slice).to(at::kDouble).contiguous();
    params[slice.unit].assign(values.data_ptr<double>(), values.data_ptr<double>() + slice.count);
  }
  return params;
}

// Runs rank 0's session of a layout without shards, with `after` between its steps.
Params train(const Subject& run, const Layout& one, int steps,
             const std::function<void(Units&, int step)>& after = {}) {
  Params params;
  comm::run_local_ranks(mesh::Mesh(one.degrees).world(), 60, [&](comm::World& world) {
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                    *optimizer);
    const std::optional<OuterSteps>& outer = one.recipe.outer;
    for (int step = 0; step < steps; ++step) {
      session.step({.step = step,
                    .loss_scale = run.loss_scale,
                    .island_share = outer ? 1.0 / outer->islands : 1,
                    .update = {.lr = 0.05, .step = step + 1},
                    .clip = run.clip,
                    .outer = outer ? plan::outer_work(*outer, step + 1, step + 1 == steps)
                                   : plan::OuterWork(),
                    .load = [&](int mb) {
                      return run.batch(step, plan::micro_batch_id(session.plan().mesh, one.recipe,
                                                                  world.rank(), mb));
                    }});
      if (after) after(session.units(), step + 1);
    }
    if (world.rank() == 0) params = params_of(session.units());
  });
  return params;
}

// One island's outer steps as Streaming DiLoCo describes them, on the parameters of a plain session.
class Reference {
 public:
  Reference(const OuterSteps& outer, int steps) : outer_(outer), steps_(steps) {}

  void operator()(Units& units, int step) {
    for (const StateSlice& slice : units.local_slices()) {
      if (slice.kind != "param") continue;
      State& state = states_.at(slice.unit);
      const int fragment = slice.unit % outer_.fragments;
      const std::int64_t first = fragment * outer_.every / outer_.fragments;
      const auto sent = [&](int at) {
        return at >= outer_.every && (at - first) % outer_.every == 0;
      };
      const bool last = step == steps_;
      bool waiting = outer_.delay > 0 && sent(step - outer_.delay);
      for (int at = step - outer_.delay; last && at < step; ++at) waiting = waiting || sent(at);
      if (waiting) apply(units, slice, state);
      if (last || sent(step)) {
        state.mean = state.weights - units.read(slice);
        if (last || outer_.delay == 0) apply(units, slice, state);
      }
    }
  }
  void begin(const Units& units) {
    for (const StateSlice& slice : units.local_slices())
      if (slice.kind == "param") {
        State& state = states_[slice.unit];
        state.weights = units.read(slice).clone();
        state.velocity = at::zeros_like(state.weights);
      }
  }
  Params params() const {
    Params params;
    for (const auto& [unit, state] : states_) {
      const at::Tensor values = state.weights.to(at::kDouble);
      params[unit].assign(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
    }
    return params;
  }

 private:
  struct State {
    at::Tensor weights, velocity, mean;
  };
  void apply(Units& units, const StateSlice& slice, State& state) const {
    state.velocity = state.velocity * outer_.momentum + state.mean;
    state.weights = state.weights - (state.velocity * outer_.momentum + state.mean) * outer_.lr;
    units.write(slice, units.read(slice) * outer_.blend + state.weights * (1 - outer_.blend));
    units.refresh();
  }

  OuterSteps outer_;
  int steps_;
  std::map<plan::UnitId, State> states_;
};

Params reference(const Subject& run, const OuterSteps& outer, int steps) {
  Reference expected(outer, steps);
  comm::run_local_ranks(1, 60, [&](comm::World& world) {
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    const Layout one = layout(std::nullopt);
    Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                    *optimizer);
    expected.begin(session.units());
  });
  train(run, layout(std::nullopt), steps, [&](Units& units, int step) { expected(units, step); });
  return expected.params();
}

TEST(OuterSteps, OneIslandWithoutMomentumIsLookahead) {
  const Subject run = subject(DType::kF32, 0.5);
  // Zhang et al. 2019: slow weights move by a share of the way of fast ones, which restart from them.
  const OuterSteps outer{.islands = 1, .every = 3, .lr = 0.5, .momentum = 0};
  EXPECT_EQ(train(run, layout(outer), 7), reference(run, outer, 7));
  EXPECT_NE(train(run, layout(outer), 7), train(run, layout(std::nullopt), 7));
}

TEST(OuterSteps, OneIslandFollowsTheFormulasWithMomentumFragmentsAndDelay) {
  const Subject run = subject(DType::kF32, 0.5);
  // One island's mean has its norm already.
  for (const OuterSteps& outer :
       {OuterSteps{.every = 3}, OuterSteps{.every = 3, .direction = true},
        OuterSteps{.every = 4, .fragments = 2},
        OuterSteps{.every = 4, .fragments = 4, .delay = 1, .blend = 0.5, .lr = 0.4},
        OuterSteps{.every = 5, .fragments = 2, .delay = 2, .blend = 0.25}})
    for (const int steps : {9, 10, 11, 12})
      EXPECT_EQ(train(run, layout(outer), steps), reference(run, outer, steps))
          << outer.every << " " << outer.fragments << " " << outer.delay << " " << steps;
}

// By hand, from the weights of both islands: a layer moves along the mean difference, as far as islands do on average.
TEST(OuterSteps, MeansOfLayersGetTheMeanNormOfIslands) {
  const Subject run = subject(DType::kF32, 0.5);
  const OuterSteps outer{.islands = 2, .every = 2, .lr = 1, .momentum = 0, .direction = true};
  const Layout one = layout(outer);
  std::map<plan::UnitId, at::Tensor> differences[2], moved[2];
  std::vector<std::string> names;
  comm::run_local_ranks(2, 60, [&](comm::World& world) {
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                    *optimizer);
    const int island = world.rank();
    session.step({.loss_scale = run.loss_scale,
                  .update = {.lr = 0.05 * (1 + island), .step = 1},
                  .load = [&](int mb) { return run.batch(0, island * kGlobal / 2 + mb); }});
    Units& units = session.units();
    const auto read = [&](plan::UnitId unit, const std::string& kind) {
      for (const StateSlice& slice : units.local_slices())
        if (slice.unit == unit && slice.kind == kind)
          return units.read(slice).to(at::kDouble).clone();
      ADD_FAILURE() << kind;
      return at::Tensor();
    };
    for (plan::UnitId unit = 0; unit < 4; ++unit) {
      const at::Tensor before = read(unit, "param");
      differences[island][unit] = before - read(unit, fmt::format("island{}.param", island));
      units.outer_reduce_begin(unit, {});
      units.outer_step(unit, /*at_once=*/false);
      moved[island][unit] = before - read(unit, "param");
      if (island == 0) names.push_back(session.plan().program.units[unit].name);
    }
  });
  const auto norm = [](const at::Tensor& values) { return values.norm().item<double>(); };
  for (plan::UnitId unit = 0; unit < 4; ++unit) {
    const at::Tensor mean = (differences[0][unit] + differences[1][unit]) / 2;
    const double norms = (norm(differences[0][unit]) + norm(differences[1][unit])) / 2;
    EXPECT_GT(norms, 1.01 * norm(mean));
    const at::Tensor wanted = names[unit] == "last" ? mean : mean * (norms / norm(mean));
    EXPECT_LT(norm(moved[0][unit] - wanted), 1e-4 * norms) << names[unit];
    EXPECT_EQ(norm(moved[0][unit] - moved[1][unit]), 0) << names[unit];
  }
}

TEST(OuterSteps, MergingEveryStepWithoutMomentumIsDataParallelism) {
  const Subject run = subject(DType::kF64, 0);
  const OuterSteps outer{.islands = 4, .every = 1, .lr = 1, .momentum = 0};
  const Params islands = train(run, layout(outer, 1, 0, DType::kF64), 5);
  const Params dense = train(run, layout(std::nullopt, 1, 0, DType::kF64), 5);
  ASSERT_EQ(islands.size(), dense.size());
  for (const auto& [unit, values] : dense)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(islands.at(unit)[i], values[i], 1e-12) << unit << " " << i;
}

TEST(OuterSteps, LayoutsInsideAnIslandGiveTheSameBits) {
  const Subject run = subject(DType::kF32, 0.05);
  for (const OuterSteps& outer :
       {OuterSteps{.islands = 2, .every = 2},
        OuterSteps{.islands = 2, .every = 2, .direction = true},
        OuterSteps{.islands = 2, .every = 4, .fragments = 3, .delay = 1, .blend = 0.5},
        OuterSteps{.islands = 2, .every = 4, .delay = 1, .blend = 0.5, .direction = true}}) {
    const Trace whole = run_layout(run, layout(outer), 7);
    EXPECT_NE(whole, run_layout(run, layout(std::nullopt, 2), 7));
    for (const int zero : {0, 1, 2, 3})
      EXPECT_EQ(run_layout(run, layout(outer, 2, zero), 7), whole) << zero;
    for (const int zero : {0, 1, 3})  // two replicas of two shards
      EXPECT_EQ(run_layout(run, layout(outer, 2, zero, DType::kF32, 2), 7), whole) << zero;
  }
}

TEST(OuterSteps, IslandsAsThreadsAndAsProcessesGiveTheSameBits) {
  const Subject run = subject(DType::kF32, 0.05);
  const OuterSteps outer{.islands = 2, .every = 4, .fragments = 2, .delay = 1, .blend = 0.5};
  const Trace threads = run_layout(run, layout(outer), 6);
  using harness::Backend;
  for (const Backend backend : {Backend::kShm, Backend::kGloo, Backend::kTcp, Backend::kHosts}) {
    Trace trace;
    harness::run_ranks(backend, 2, 60, [&](comm::World& world) {
      Trace mine = harness::run_rank(run, layout(outer), 6, world);
      if (world.rank() == 0) trace = std::move(mine);
    });
    EXPECT_EQ(trace, threads) << harness::name(backend);
  }
}

// Gradients of a step of one island that are not finite stop or skip all of them: steps stay in step.
TEST(OuterSteps, AnIslandThatIsNotFiniteStopsAll) {
  Subject run = subject(DType::kF32, 0.5);
  run.batch = [inner = run.batch](std::int64_t step, std::int64_t micro_batch) {
    std::vector<at::Tensor> batch = inner(step, micro_batch);
    if (step == 1 && micro_batch == kGlobal - 1)
      batch[0][0][0] = std::numeric_limits<float>::quiet_NaN();
    return batch;
  };
  try {
    run_layout(run, layout(OuterSteps{.islands = 2, .every = 2}), 3);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  }
}

TEST(OuterSteps, BytesOfARoundAreThoseOfTheFormula) {
  const std::int64_t elements = 4 * plan::shard_numel(kWidth * (kWidth + 1), 1);
  const Subject run = subject(DType::kF32, 0.5);
  for (const int islands : {2, 4})
    for (const int fragments : {1, 4}) {
      const OuterSteps outer{.islands = islands, .every = 4, .fragments = fragments};
      const Layout one = layout(outer);
      comm::run_local_ranks(islands, 60, [&](comm::World& inner) {
        harness::CountingWorld world(inner);
        const std::unique_ptr<Optimizer> optimizer = run.optimizer();
        Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                        *optimizer);
        double priced = 0;
        std::int64_t sent = 0;
        const auto round = [&](int from) {
          for (int step = from; step < from + 4; ++step) {
            const plan::OuterWork work = plan::outer_work(outer, step, /*last=*/false);
            session.step({.step = step,
                          .update = {.lr = 0.01, .step = step},
                          .outer = work,
                          .load = [&](int mb) { return run.batch(step, mb); }});
            sent += world.take_bytes_sent("island");
            for (const plan::Instr& line : session.plan(work).list(world.rank()))
              if (line.verb == plan::Verb::kOuterReduce)
                priced += simulate::sent_bytes(session.plan(work), line);
          }
        };
        round(1);
        sent = 0;
        priced = 0;
        round(5);
        EXPECT_EQ(sent, 2 * elements * 4 * (islands - 1) / islands);
        EXPECT_DOUBLE_EQ(priced, static_cast<double>(sent));
      });
    }
}

TEST(OuterSteps, MemoryIsWhatThePlanPredicted) {
  for (const int delay : {0, 1})
    for (const int zero : {0, 1, 3}) {
      const OuterSteps outer{.islands = 2, .every = 2, .delay = delay};
      const Layout one = layout(outer, zero > 0 ? 2 : 1, zero, DType::kF32, zero == 1 ? 2 : 1);
      const Subject run = subject(DType::kF32, 0.5);
      comm::run_local_ranks(mesh::Mesh(one.degrees).world(), 60, [&](comm::World& world) {
        const std::unique_ptr<Optimizer> optimizer = run.optimizer();
        Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                        *optimizer);
        const plan::OuterWork work = plan::outer_work(outer, 2, /*last=*/true);
        session.step({.update = {.lr = 0.01}, .outer = work, .load = [&](int mb) {
                        return run.batch(0, mb);
                      }});
        std::int64_t peak = 0;
        const plan::MemoryAccount account = plan::memory_account(session.plan(work), world.rank());
        for (const plan::MemoryPoint& point : account.at_line) {
          std::int64_t sum = 0;
          for (int kind = 0; kind < plan::kMemoryKinds; ++kind)
            if (kind != static_cast<int>(plan::MemoryKind::kActivations)) sum += point[kind];
          peak = std::max(peak, sum);
        }
        EXPECT_EQ(session.units().memory().peak, peak) << one.name() << " delay " << delay;
        std::int64_t persistent = 0;
        for (const std::int64_t bytes : account.persistent) persistent += bytes;
        EXPECT_EQ(session.units().memory().live, persistent) << one.name();
        std::int64_t saved = 0;
        for (const StateSlice& slice : session.units().owned_slices())
          saved += slice.count * static_cast<std::int64_t>(size_of(slice.type));
        EXPECT_EQ(saved, plan::saved_bytes(session.plan(), world.rank())) << one.name();
      });
    }
}

}  // namespace
}  // namespace trireme::exec::outer_steps_test
