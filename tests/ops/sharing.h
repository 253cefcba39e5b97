// One layer on one rank, and shared by ranks that are threads.
#pragma once

#include <c10/util/accumulate.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <utility>

#include "tests/harness/ranks.h"
#include "tests/ops/tensors.h"
#include "trireme/comm/counting_group.h"
#include "trireme/ops/tensor_parallel.h"

namespace trireme::ops {

using comm::CountingGroup;
using Entries = std::vector<CountingGroup::Entry>;

// How ranks share a tensor: not at all, by its first or last dim, or as activations between regions. The
// gradient of what is kSummed is a part of the sum where rows are shared, that of what is kPartial always.
enum class Shared { kNot, kSummed, kPartial, kFirst, kLast, kStream };

struct Input {
  at::Tensor whole;
  Shared shared;
};

struct Layer {
  std::vector<Input> inputs;
  Shared output;
  std::function<Tensors(const Tensors&, const TensorParallel&)> run;
};

struct World {
  int size = 1;
  bool sequence = false;
};

inline std::int64_t bound(std::int64_t whole, int rank, int size) { return whole * rank / size; }

inline at::Tensor part_of(const at::Tensor& whole, Shared shared, const TensorParallel& tp) {
  if (shared == Shared::kFirst || shared == Shared::kLast) {
    const std::int64_t dim = shared == Shared::kFirst ? 0 : whole.dim() - 1;
    const std::int64_t begin = bound(whole.size(dim), tp.rank(), tp.size());
    return whole.narrow(dim, begin, bound(whole.size(dim), tp.rank() + 1, tp.size()) - begin)
        .contiguous();
  }
  if (shared != Shared::kStream || !tp.shares_rows()) return whole;
  const at::Tensor rows = whole.reshape({-1, whole.size(-1)});
  const std::int64_t per = (rows.size(0) + tp.size() - 1) / tp.size();
  const at::Tensor padded = at::zeros({per * tp.size(), rows.size(1)}, rows.options());
  padded.narrow(0, 0, rows.size(0)).copy_(rows);
  return padded.narrow(0, tp.rank() * per, per).unsqueeze(0).clone();
}

// The whole from all ranks' parts; what every rank has must be the same on all.
inline at::Tensor joined(const Tensors& parts, Shared shared, bool sequence,
                         at::IntArrayRef shape) {
  switch (shared) {
    case Shared::kFirst: return at::cat(parts, 0);
    case Shared::kLast: return at::cat(parts, -1);
    case Shared::kPartial: return at::stack(parts).to(at::kDouble).sum(0);
    case Shared::kSummed:
      if (sequence && parts.size() > 1) return at::stack(parts).to(at::kDouble).sum(0);
      break;
    case Shared::kStream:
      if (sequence && parts.size() > 1) {
        const at::Tensor rows = at::cat(parts, 1)[0];
        return rows.narrow(0, 0, c10::multiply_integers(shape) / shape.back()).view(shape);
      }
      break;
    case Shared::kNot: break;
  }
  for (const at::Tensor& part : parts) EXPECT_TRUE(at::equal(part, parts[0]));
  return parts[0];
}

struct Result {
  Tensors tensors;  // outputs, then gradients of all inputs, joined
  Entries forward;  // what rank 0 submitted
  Entries backward;
};

inline Tensors without_sharing(const Layer& layer, at::ScalarType type) {
  Tensors leaves;
  for (const Input& input : layer.inputs)
    leaves.push_back(input.whole.to(type).clone().requires_grad_(true));
  Tensors outputs = layer.run(leaves, {});
  Tensors seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    seeds.push_back(normal(outputs[i].sizes().vec(), 90 + i).to(outputs[i].scalar_type()));
  torch::autograd::backward(outputs, seeds);
  Tensors all;
  for (const at::Tensor& output : outputs) all.push_back(output.detach());
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

inline Result with_sharing(const Layer& layer, at::ScalarType type, World world,
                           const Tensors& shapes) {
  std::vector<Tensors> ranks(static_cast<std::size_t>(world.size));
  Result result;
  std::size_t outputs = 0;
  harness::run_ranks(harness::Backend::kLocal, world.size, 60, [&](comm::World& ranks_world) {
    std::vector<int> everyone(static_cast<std::size_t>(world.size));
    for (int rank = 0; rank < world.size; ++rank) everyone[rank] = rank;
    const auto group = ranks_world.make_group("tp", everyone);
    CountingGroup counted(*group);
    const TensorParallel tp{.group = &counted, .sequence = world.sequence, .tokens = 7};
    Tensors leaves;
    for (const Input& input : layer.inputs)
      leaves.push_back(
          part_of(input.whole.to(type), input.shared, tp).clone().requires_grad_(true));
    Tensors out = layer.run(leaves, tp);
    const Entries forward = counted.take();
    Tensors seeds;
    for (std::size_t i = 0; i < out.size(); ++i)
      seeds.push_back(part_of(normal(shapes[i].sizes().vec(), 90 + i).to(out[i].scalar_type()),
                              layer.output, tp));
    torch::autograd::backward(out, seeds);
    Tensors& mine = ranks[tp.rank()];
    for (const at::Tensor& each : out) mine.push_back(each.detach());
    for (const at::Tensor& leaf : leaves) mine.push_back(leaf.grad());
    if (tp.rank() > 0) return;
    outputs = out.size();
    result.forward = forward;
    result.backward = counted.take();
  });
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Tensors parts;
    for (const Tensors& mine : ranks) parts.push_back(mine[i]);
    const Shared shared = i < outputs ? layer.output : layer.inputs[i - outputs].shared;
    result.tensors.push_back(joined(parts, shared, world.sequence, shapes[i].sizes()));
  }
  return result;
}

}  // namespace trireme::ops
