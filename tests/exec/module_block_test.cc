// Modules of the user: frozen ones are no one's to train, half-frozen ones are refused.
#include "trireme/exec/module_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <map>
#include <mutex>

#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"

namespace trireme::exec::module_block_test {
namespace {

using harness::Layout;
using harness::MomentumSgd;
using harness::Subject;
using harness::Trace;

;

void freeze(torch::nn::Module& module) {
  for (at::Tensor& param : module.parameters()) param.set_requires_grad(false);
}

// A frozen encoder before everything trainable, and a frozen layer between two that train.
Model partly_frozen(bool frozen) {
  static std::mutex
      one_generator;  // ranks are threads, torch::nn draws from the process's generator
  const std::lock_guard lock(one_generator);
  at::manual_seed(3);
  torch::nn::Linear encoder(5, 16), first(16, 16), between(16, 16), last(16, 2);
  if (frozen) {
    freeze(*encoder);
    freeze(*between);
  }
  ModuleModel model("partly_frozen");
  model.input("x");
  model.input("y");
  model.add("encoder", encoder.ptr(), {"x"},
            [=](const auto& in) mutable { return encoder(in[0]).tanh(); });
  model.add("first", first.ptr(), {"encoder"},
            [=](const auto& in) mutable { return first(in[0]).tanh(); });
  model.add("between", between.ptr(), {"first"},
            [=](const auto& in) mutable { return between(in[0]).tanh(); });
  model.add("last", last.ptr(), {"between"}, [=](const auto& in) mutable { return last(in[0]); });
  model.loss("loss", {"last", "y"}, [](const auto& in) { return (in[0] - in[1]).square().sum(); });
  return std::move(model).build();
}

Subject subject(bool frozen) {
  return {.model = [=] { return partly_frozen(frozen); },
          .optimizer = [] { return std::make_unique<MomentumSgd>(); },
          .batch =
              [](std::int64_t step, std::int64_t micro_batch) {
                const BlockContext key{.seed = 4, .step = step, .micro_batch = micro_batch};
                return std::vector<at::Tensor>{
                    at::empty({6, 5}, at::kFloat).normal_(0, 1, key.generator(0)),
                    at::empty({6, 2}, at::kFloat).normal_(0, 1, key.generator(1))};
              },
          .loss_scale = 1.0 / 24};
}

Layout layout(int ranks, int zero) {
  return {.degrees = {.dp_shard = ranks},
          .recipe = {.zero = zero, .micro_batches = 4 / ranks, .optimizer_states = 1}};
}

// Bytes of parameters by unit, and how many optimizer states there are, after some steps on one rank.
struct Ending {
  std::map<std::string, std::vector<float>> params;
  std::map<std::string, int> states;
};

Ending train(bool frozen, int steps) {
  Ending ending;
  const Subject run = subject(frozen);
  comm::run_local_ranks(1, 60, [&](comm::World& world) {
    MomentumSgd optimizer;
    Session session(run.model(), {.mesh = mesh::Mesh{}, .recipe = layout(1, 0).recipe, .seed = 1},
                    world, optimizer);
    for (int step = 0; step < steps; ++step)
      session.step({.step = step,
                    .loss_scale = run.loss_scale,
                    .update = {.lr = 1e-2, .step = step + 1},
                    .load = [&](int mb) { return run.batch(step, mb); }});
    for (const StateSlice& slice : session.units().owned_slices()) {
      const std::string& unit = session.plan().program.units[slice.unit].name;
      const float* values = session.units().read(slice).data_ptr<float>();
      if (slice.kind == "param")
        ending.params[unit].assign(values, values + slice.count);
      else
        ++ending.states[unit];
    }
  });
  return ending;
}

TEST(FrozenModules, KeepTheirBitsAndHaveNoStates) {
  const Ending before = train(true, 0), after = train(true, 3), control = train(false, 3);
  for (const char* unit : {"encoder", "between"}) {
    EXPECT_EQ(before.params.at(unit), after.params.at(unit)) << unit;
    EXPECT_NE(before.params.at(unit), control.params.at(unit)) << unit;
    EXPECT_EQ(after.states.count(unit), 0) << unit;
    EXPECT_EQ(control.states.at(unit), 1) << unit;
  }
  for (const char* unit : {"first", "last"}) {  // the gradient passes through what is frozen
    EXPECT_NE(before.params.at(unit), after.params.at(unit)) << unit;
    EXPECT_EQ(after.states.at(unit), 1) << unit;
  }
}

TEST(FrozenModules, GiveTheSameBitsUnderEveryRowOfTheTable) {
  const Subject run = subject(true);
  const Trace reference = run_layout(run, layout(1, 0), 3);
  EXPECT_NE(reference, run_layout(subject(false), layout(1, 0), 3));
  for (int ranks : {1, 2, 4})
    for (int zero : {0, 1, 2, 3})
      EXPECT_EQ(run_layout(run, layout(ranks, zero), 3), reference)
          << ranks << " ranks, zero " << zero;
}

TEST(ModuleModel, RefusesAModuleThatIsHalfFrozen) {
  torch::nn::Linear half(4, 4);
  half->bias.set_requires_grad(false);
  ModuleModel model("half");
  model.input("x");
  try {
    model.add("half", half.ptr(), {"x"}, [=](const auto& in) mutable { return half(in[0]); });
    FAIL() << "a half-frozen module was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_THAT(e.what(), testing::HasSubstr("trains weight but not bias"));
  }
}

}  // namespace
}  // namespace trireme::exec::module_block_test
