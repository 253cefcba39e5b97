// Units: every flat group of parameters a rank holds, through gather, gradient, reduction and step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/exec/away_space.h"
#include "trireme/exec/block.h"
#include "trireme/exec/groups.h"
#include "trireme/exec/movement.h"
#include "trireme/exec/optimizer.h"
#include "trireme/exec/units/flat.h"
#include "trireme/exec/units/state_slice.h"
#include "trireme/plan/plan.h"

namespace trireme::exec {

struct UnitState;

// Arguments of coded sums that change from step to step.
struct CodedArgs {
  double gradient_scale = 1;  // of gradients; residuals have none
  std::uint64_t seed = 0;     // of random places, with the number of the update
  std::int64_t update = 0, step = 0;
  std::optional<double> island{};  // weight of this island in a mean; none: as the others have
};

// One rank's side of the lifetime table. Verbs come from the executor in plan order. *_begin issues communication;
// finish_* completes a unit's communication, if there is any.
class Units {
 public:
  // The plan gives units, mesh and recipe. Allocates memory on `device`, undefined until initialise() or load.
  Units(const plan::PlanSet& plan, const std::vector<model::UnitSpec>& specs, int rank,
        at::Device device, const Groups& groups, const AwaySpace& space, Optimizer& optimizer);
  ~Units();

  // A view for Block::bind. Leaf tensors of trainable units require gradients.
  at::Tensor param(plan::UnitId unit, int param) const;

  // Fills every parameter from its coordinates: (seed, parameter name), independent of layout.
  // `initial` may give a value of its own, as Block::initial_value().
  void initialise(std::uint64_t seed, const std::function<at::Tensor(plan::UnitId, int)>& initial);

  // Gathers at once what updates have left stale and the next step would gather: before other uses of the parameters.
  // Collective over the ranks that share a unit.
  void gather_stale();
  void unshard_begin(plan::UnitId unit, mesh::AxisSet axes, int within = 0);  // of neighbours
  void finish_unshard(plan::UnitId unit);
  void reshard(plan::UnitId unit);
  // Before a line of this chunk that adds to it; the `first` finds memory that counts as zeros, begun with
  // `gradients`, which its ops are given. When the gradient of a micro-batch is complete: a sum has `sender_mbs`.
  void open_gradient(plan::UnitId unit, int chunk, bool first, ops::WeightGradients& gradients);
  void close_gradient(plan::UnitId unit, int chunk, int sender_mbs);
  void reduce_begin(plan::UnitId unit, const plan::Instr& line, const CodedArgs& args);
  void finish_reduce(plan::UnitId unit);
  void exchange_update_begin(plan::UnitId unit, bool back, const UpdateArgs& args);
  void finish_exchange_update(plan::UnitId unit);
  void update_matrices(plan::UnitId unit, const UpdateArgs& args);
  void update(plan::UnitId unit, const UpdateArgs& args);
  void skip_update(plan::UnitId unit);  // in its stead, where gradients are of no use
  // A unit that follows another: momentum * it + (1 - momentum) * the other, in master type.
  void average(plan::UnitId unit, double momentum);
  // The mean of islands' differences to the outer weights of a unit, and the outer step by it.
  void outer_reduce_begin(plan::UnitId unit, const CodedArgs& args);
  void return_outer_means(std::int64_t step);  // of codes that have had their steps to arrive
  void outer_step(plan::UnitId unit, bool at_once);
  // Exchanges weights and outer weights, to evaluate the latter; a second time, back. Collective.
  void swap_outer();
  void adopt_outer();  // islands begin with the outer weights, and without residuals

  // Shards on their way out of memory and back; sums of squares of a step's gradient are computed as it leaves.
  Movement reload_begin(const plan::Instr& line);
  void finish_reload(const plan::Instr& line, Movement& movement);
  Movement offload_begin(const plan::Instr& line);

  // The gradient of one micro-batch, while it is open; flat, without padding.
  at::Tensor micro_batch_gradient(plan::UnitId unit, int chunk) const;
  // "block0.mlp.up.weight[17]": of what this tp rank holds of the parameter.
  std::string element_name(plan::UnitId unit, std::int64_t element) const;

  // Sums of squares of this rank's reduced gradients, one per norm chunk of its part; of elements that
  // several tp ranks hold, those it owns.
  std::vector<double> chunk_square_sums(plan::UnitId unit);
  // This rank's reduced gradients, between chunk_square_sums and update.
  std::vector<StateSlice> gradient_slices() const;
  // Both end exchanges of islands, so all ranks call them together.
  // Slices that this rank saves: together the ranks of a replica tile every unit.
  std::vector<StateSlice> owned_slices() const;
  // Everything this rank needs to be filled on load; then refresh() rebuilds what derives from it.
  std::vector<StateSlice> local_slices() const;
  // The elements of a slice, or of a part of one: flat, on device(). A view of state in memory, valid while Units
  // lives; a copy of state that is offloaded or split. A caller that takes one slice at a time holds at most one copy.
  at::Tensor read(const StateSlice& slice) const;
  // `values` are flat, as many as the slice says, of its type, on any device.
  void write(const StateSlice& slice, const at::Tensor& values);
  void refresh();

  bool trains(plan::UnitId unit) const { return plan_.program.units[unit].trainable; }
  const mesh::Mesh& mesh() const { return plan_.mesh; }
  // Which part of every unit this rank holds, of how many.
  int tp_rank() const { return plan_.mesh.coordinate(rank_, mesh::Axis::kTp); }
  int tp() const { return plan_.mesh.degree(mesh::Axis::kTp); }
  at::Device device() const { return memory_->device; }
  const MemoryCount& memory() const { return *memory_; }

 private:
  friend class OuterJobs;
  // Stages hold the units of their nodes; what several hold, the first one owns.
  bool holds(plan::UnitId unit) const;
  UnitState& at(plan::UnitId unit) const;
  std::vector<StateSlice> slices(bool owned) const;
  void add_residuals(std::vector<StateSlice>& slices) const;
  at::Tensor residual(const StateSlice& slice) const;
  at::Tensor held(const UnitState& unit, const std::string& kind) const;
  std::size_t state_index(const UnitState& unit, const std::string& kind) const;
  struct AwayRange {
    plan::TensorKind tensors;
    scratch::Extent extent;
    std::int64_t first = 0;  // element
  };
  struct Pages;
  std::optional<AwayRange> waiting(const UnitState& unit, const std::string& kind) const;
  void allocate(plan::UnitId id, UnitState& unit);
  void allocate(UnitState& unit, plan::TensorKind tensors);
  void refresh(plan::UnitId id);
  void allocate_outer(plan::UnitId id, UnitState& unit);
  const Flat& outer(plan::UnitId id, const std::string& kind) const;
  void send_outer_codes(plan::UnitId id, const CodedArgs& args);
  void finish_outer_exchange(plan::UnitId id) const;
  void push_leaves(UnitState& unit, int chunk);
  void send_codes(plan::UnitId id, const CodedArgs& args);
  void add_codes(plan::UnitId id);
  void end_update(UnitState& unit);
  // At once, between steps.
  void come(plan::UnitId unit, plan::TensorKind tensors);
  void leave(plan::UnitId unit, plan::TensorKind tensors);

  const plan::PlanSet& plan_;
  int rank_;
  const Groups& groups_;
  const AwaySpace& space_;
  std::unique_ptr<MemoryCount> memory_;
  std::vector<std::unique_ptr<UnitState>> units_;
};

}  // namespace trireme::exec
