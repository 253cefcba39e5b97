// What nodes say they keep for backward, against what autograd holds.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include "tests/harness/bound_model.h"
#include "tests/harness/count_allocations.h"
#include "trireme/models/build.h"

namespace trireme::models {
namespace {

TEST(SavedBytes, EveryNodeKeepsWhatItDeclares) {
  for (config::Family family : {config::Family::kGpt, config::Family::kLlama})
    for (auto [type, logits] : {std::pair(DType::kF32, false), std::pair(DType::kBF16, false),
                                std::pair(DType::kF64, false), std::pair(DType::kF32, true)}) {
      config::Job job;
      job.recompute.logits = logits;
      job.model = {.family = family,
                   .layers = 1,
                   .hidden = 64,
                   .heads = 4,
                   .kv_heads = family == config::Family::kLlama ? 2 : 4,
                   .ffn = 160,
                   .vocab = 97,
                   .seq_len = 80};
      job.precision.compute = type;
      job.run.micro_batch = 3;
      const at::ScalarType scalar = type == DType::kF64   ? at::kDouble
                                    : type == DType::kF32 ? at::kFloat
                                                          : at::kBFloat16;
      harness::BoundModel bound(build(job), scalar);
      const plan::Program& program = bound.model().spec.program;
      const at::Tensor tokens = at::randint(97, {3, 80}, at::TensorOptions().dtype(at::kLong));
      const harness::CountAllocations count;
      at::Tensor x = tokens;
      for (std::size_t node = 0; node < program.nodes.size(); ++node) {
        std::vector<at::Tensor> inputs = {x};
        if (node > 0) inputs[0].set_requires_grad(true);
        if (program.nodes[node].loss) inputs.push_back(tokens);
        const std::int64_t before = count.live_bytes();
        at::Tensor y = bound.block(node).forward(inputs, {.training = true})[0];
        const std::int64_t kept =
            count.live_bytes() - before - static_cast<std::int64_t>(y.nbytes());
        const auto declared = static_cast<double>(program.nodes[node].saved_bytes);
        EXPECT_NEAR(static_cast<double>(kept), declared, 0.01 * declared)
            << program.nodes[node].name << " " << name(type);
        x = y.detach();
      }
    }
}

}  // namespace
}  // namespace trireme::models
