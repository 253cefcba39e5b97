// A model whose layers are just large enough to be coded, and layouts of it.
#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "trireme/exec/module_block.h"

namespace trireme::exec::coded_cases {

inline constexpr std::int64_t kWidth =
    256;  // a layer has 65,792 parameters, just enough to be coded

inline Model layers() {
  static std::mutex one_generator;  // ranks are threads, torch::nn draws from the process's
  const std::lock_guard lock(one_generator);
  at::manual_seed(5);
  torch::nn::Linear first(kWidth, kWidth), second(kWidth, kWidth);
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({kWidth}));
  ModuleModel model("layers");
  model.input("x");
  model.input("y");
  model.add("first", first.ptr(), {"x"},
            [=](const auto& in) mutable { return first(in[0]).tanh(); });
  model.add("norm", norm.ptr(), {"first"}, [=](const auto& in) mutable { return norm(in[0]); });
  model.add("second", second.ptr(), {"norm"},
            [=](const auto& in) mutable { return second(in[0]); });
  model.loss("loss", {"second", "y"},
             [](const auto& in) { return (in[0] - in[1]).square().sum(); });
  return std::move(model).build();
}

inline harness::Subject subject(int global_micro_batches) {
  return {.model = layers,
          .optimizer = [] { return std::make_unique<harness::MomentumSgd>(); },
          .batch =
              [](std::int64_t step, std::int64_t micro_batch) {
                const BlockContext context{.seed = 11, .step = step, .micro_batch = micro_batch};
                const auto draw = [&](int i) {
                  return at::empty({2, kWidth}).normal_(0, 1, context.generator(i));
                };
                return std::vector<at::Tensor>{draw(0), draw(1)};
              },
          .loss_scale = 1.0 / static_cast<double>(2 * global_micro_batches),
          .clip = 0.5};
}

struct Degrees {
  int replicate, shard, zero;
};

inline harness::Layout layout(const Degrees& degrees, int global,
                              std::optional<plan::CodedSums> sums,
                              std::optional<plan::CodedGather> gather = std::nullopt,
                              DType compute = DType::kF32) {
  harness::Layout result;
  result.degrees = {.dp_replicate = degrees.replicate, .dp_shard = degrees.shard};
  result.recipe = {.zero = degrees.zero,
                   .micro_batches = global / (degrees.replicate * degrees.shard),
                   .compute = compute,
                   .coded = std::move(sums),
                   .gather = std::move(gather),
                   .optimizer_states = 1};
  return result;
}

}  // namespace trireme::exec::coded_cases
