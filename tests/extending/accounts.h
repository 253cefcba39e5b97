// Models of the examples: how they are built, and their memory as declared and as measured.
#pragma once

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>
#include <vector>

#include "tests/harness/bound_model.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"

namespace trireme::extending {

inline harness::BuildModel built(const blocks::OwnModel& own) {
  return
      [own](const config::Job& job, comm::World& world) { return blocks::build(job, world, own); };
}

// Calls `each` with the block of every node of a one-rank job, the node, its inputs and a counter of memory. It returns the
// result of the node.
template <typename Each>
void walk(const config::Job& job, const blocks::OwnModel& own, const Each& each) {
  const config::Job resolved = config::resolve(job, 1, {});
  comm::run_local_ranks(1, 60, [&](comm::World& world) {
    harness::BoundModel bound(blocks::build(resolved, world, own), at::kFloat);
    for (const auto& [name, param] : bound.params())
      at::Tensor(param).mutable_grad() = at::zeros_like(param);
    const std::vector<plan::Node>& nodes = bound.model().spec.program.nodes;
    const at::Tensor tokens = at::zeros({resolved.run.micro_batch, resolved.model.seq_len},
                                        at::TensorOptions().dtype(at::kLong));
    const harness::CountAllocations count;
    at::Tensor x = tokens;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      std::vector<at::Tensor> inputs = {x};
      if (node > 0) inputs[0].set_requires_grad(true);
      if (nodes[node].loss) inputs.push_back(tokens);
      SCOPED_TRACE(nodes[node].name);
      x = each(bound.block(node), nodes[node], inputs, count).detach();
    }
  });
}

// Each node of a one-rank job keeps the bytes that it declares.
inline void expect_kept(const config::Job& job, const blocks::OwnModel& own) {
  walk(job, own, [](exec::Block& block, const plan::Node& node, const auto& inputs, auto& count) {
    const std::int64_t before = count.live_bytes();
    const at::Tensor y = block.forward(inputs, {.training = true})[0];
    const auto kept =
        static_cast<double>(count.live_bytes() - before - static_cast<std::int64_t>(y.nbytes()));
    const auto declared = static_cast<double>(plan::kept_bytes(node));
    EXPECT_NEAR(kept, declared, 0.01 * declared);
    return y;
  });
}

// The peaks of each node between the first and the last are those that it declares.
inline void expect_held(const config::Job& job, const blocks::OwnModel& own) {
  walk(job, own, [](exec::Block& block, const plan::Node& node, const auto& inputs, auto& count) {
    const auto near = [](std::int64_t held, std::int64_t declared) {
      EXPECT_NEAR(static_cast<double>(held), static_cast<double>(declared),
                  0.02 * static_cast<double>(declared));
    };
    const bool inside = inputs[0].is_floating_point() && !node.loss;
    at::Tensor y;
    std::int64_t peak = 0;
    {
      const at::NoGradGuard no_grad;
      peak = count.peak_of([&] { y = block.forward(inputs, {})[0]; });
    }
    const auto row = static_cast<std::int64_t>(y.nbytes());
    if (inside) near(peak, row + node.work.passing);
    y = at::Tensor();
    peak = count.peak_of([&] { y = block.forward(inputs, {.training = true})[0]; });
    if (inside) near(peak, row + plan::kept_bytes(node) + node.work.forward);
    const at::Tensor result = y.detach();
    const torch::autograd::variable_list seeds = {at::ones_like(result)};
    peak = count.peak_of([&] {
      const torch::autograd::edge_list roots = {torch::autograd::impl::gradient_edge(y)};
      y = at::Tensor();
      torch::autograd::Engine::get_default_engine().execute(roots, seeds, false, false, true);
    });
    // The gradient of what it reads is as large as its result.
    if (inside) near(peak, row + node.work.backward);
    return result;
  });
}

}  // namespace trireme::extending
