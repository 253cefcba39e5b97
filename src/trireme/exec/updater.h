// Updater: one optimizer step on one shard of one unit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::exec {

// A run of elements of the shard that belong to one parameter.
struct UpdateSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool decay = false;
};

struct UpdateArgs {
  double lr = 0;
  double grad_scale = 1;  // clip factor; multiplies the gradient
  std::int64_t step = 0;  // 1 for the first update: Adam's t
};

class Updater {
 public:
  virtual ~Updater() = default;

  // Names of the state tensors, as checkpoints store them ("exp_avg", "exp_avg_sq").
  virtual const std::vector<std::string>& state_names() const = 0;

  // param, grad and states[i] are flat, equally long, on one device; param and states have the master
  // type, grad the gradient type. Must be elementwise, so that any sharding gives the same bits.
  // Elements outside every segment are padding and stay zero.
  virtual void update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor> states,
                      std::span<const UpdateSegment> segments, const UpdateArgs& args) = 0;
};

}  // namespace trireme::exec
