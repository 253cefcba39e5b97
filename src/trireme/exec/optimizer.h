// Optimizer: one optimizer step on one shard of one unit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/model/spec.h"

namespace trireme::exec {

// A run of elements of the shard with one decay, learning rate and bounds, which lie one after the other in the whole unit.
struct UpdateSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double decay = 0;        // multiplies the weight decay
  std::int64_t first = 0;  // the place of `begin` in the whole unit
  double lr = 1;           // multiplies the learning rate
  model::Bounds bounds{};  // Units clamps parameters to them after the update
};

struct UpdateArgs {
  double lr = 0;
  std::optional<double> weight_decay{};  // none: the optimizer's own
  double grad_scale = 1;                 // clip factor; multiplies the gradient
  std::int64_t step = 0;                 // 1 for the first update: Adam's t
  // Keys noise together with an element's place in the whole unit: any rank that holds it draws the same. The run's
  // seed, of which Units makes one number for every update and unit.
  std::uint64_t noise = 0;
  std::int64_t state_block =
      1;  // filled by Units: parameters for each element of a state per block
};

// One tensor of optimizer state of every unit; zeros before the first update.
struct StateSpec {
  std::string name;             // as checkpoints store it ("exp_avg")
  std::optional<DType> type{};  // if not the master type
  bool per_block = false;  // one element for every plan::state_block(unit's elements) of a shard
};

class MatrixOptimizer;

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // What updates a unit: this one, or one of several.
  virtual Optimizer& of(const model::UnitSpec& /*unit*/) { return *this; }
  // Of one that updates whole matrices; others throw Error{kInternal}.
  virtual MatrixOptimizer& by_matrix();

  virtual const std::vector<StateSpec>& states() const = 0;

  // param, grad and states[i] are flat, on one device and equally long, except for states per block. param has the
  // master type, grad the gradient type. The update of an element, or of a block if a state is per block, must not
  // depend on the boundaries of shards. Elements outside every segment are padding and stay zero.
  virtual void update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor> states,
                      std::span<const UpdateSegment> segments, const UpdateArgs& args) = 0;
};

// One whose update of an element needs the matrix that it is in: plan::Unit::by_matrix. `update` then gets the updates that
// update_matrix() has made in place of a gradient.
class MatrixOptimizer : public Optimizer {
 public:
  // From a gradient and states, which change, what an update is made of. All are flat and equally long; `direction` has
  // the master type. Element by element, so that shards do not matter.
  virtual void direct(const at::Tensor& grad, std::span<at::Tensor> states,
                      const at::Tensor& direction, const UpdateArgs& args) = 0;
  // In place, from directions [rows, columns].
  virtual void update_matrix(const at::Tensor& matrix) = 0;

  MatrixOptimizer& by_matrix() final { return *this; }
};

}  // namespace trireme::exec
