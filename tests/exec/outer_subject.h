// Layers that islands train, and layouts with islands.
#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/module_block.h"
#include "trireme/plan/outer_steps.h"

namespace trireme::exec::outer_steps_test {

using harness::Layout;
using harness::run_layout;
using harness::Subject;
using harness::Trace;
using plan::OuterSteps;

inline constexpr std::int64_t kWidth = 24;
inline constexpr int kGlobal = 8;  // micro-batches

inline Model layers(std::int64_t width) {
  static std::mutex one_generator;  // ranks are threads, torch::nn draws from the process's
  const std::lock_guard lock(one_generator);
  at::manual_seed(5);
  ModuleModel model("layers");
  model.input("x");
  model.input("y");
  std::string before = "x";
  for (const char* name : {"layer0", "layer1", "layer2", "last"}) {
    torch::nn::Linear layer(width, width);
    model.add(name, layer.ptr(), {before},
              [=](const auto& in) mutable { return layer(in[0]).tanh(); });
    before = name;
  }
  model.loss("loss", {before, "y"}, [](const auto& in) { return (in[0] - in[1]).square().sum(); });
  return std::move(model).build();
}

inline Subject subject(DType type, double clip, std::int64_t width = kWidth) {
  return {.model = [width] { return layers(width); },
          .optimizer = [] { return std::make_unique<harness::MomentumSgd>(); },
          .batch =
              [type, width](std::int64_t step, std::int64_t micro_batch) {
                const BlockContext context{.seed = 11, .step = step, .micro_batch = micro_batch};
                const auto draw = [&](int i) {
                  return at::empty({2, width})
                      .normal_(0, 1, context.generator(i))
                      .to(comm::scalar_type(type));
                };
                return std::vector<at::Tensor>{draw(0), draw(1)};
              },
          .loss_scale = 1.0 / (2 * kGlobal),
          .clip = clip};
}

inline Layout layout(std::optional<OuterSteps> outer, int shard = 1, int zero = 0,
                     DType type = DType::kF32, int replicas = 1) {
  const int islands = outer ? outer->islands : 1;
  Layout result;
  result.degrees = {.dp_replicate = replicas, .dp_shard = shard, .island = islands};
  result.recipe = {.zero = zero,
                   .micro_batches = kGlobal / (islands * shard * replicas),
                   .compute = type,
                   .master = type,
                   .grads = type,
                   .outer = outer,
                   .optimizer_states = 1};
  return result;
}

}  // namespace trireme::exec::outer_steps_test
