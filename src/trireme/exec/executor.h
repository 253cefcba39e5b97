// Executor: runs one rank's list of a plan, line by line. One loop, one switch, no hooks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/exec/block.h"
#include "trireme/exec/busy.h"
#include "trireme/exec/groups.h"
#include "trireme/exec/observer.h"
#include "trireme/exec/transfers.h"
#include "trireme/exec/units/units.h"
#include "trireme/exec/value_moves.h"
#include "trireme/exec/values.h"
#include "trireme/launch/watch/recorder.h"
#include "trireme/plan/plan.h"

namespace trireme::exec {

// Seconds of the host's monotonic clock. A communication starts when it is issued and ends when this rank has seen it
// end. A movement to or from offload storage ends when it is complete.
struct LineTime {
  double start = 0;
  double end = 0;
  double waited = 0;  // of it, within a line that computes: for other ranks
};

// Arguments that change from step to step.
struct StepArgs {
  std::int64_t step = 0;     // 0-based; with `earlier` it keys the noise
  std::int64_t earlier = 0;  // steps of runs that this one continues
  double loss_scale = 1;     // multiplies every loss sum and its gradient: 1 / global valid tokens
  double island_share = 1;   // of these tokens in this rank's island; divides the gradients
  std::vector<double> island_weights{};  // of this island, by fragment that merges; empty: equal
  // Multiplies every gradient from loss to reduction, so that fp16 can hold it; norm and update divide it out. A
  // power of two changes no bit but where numbers leave their type's range.
  double gradient_scale = 1;
  bool skip_overflow =
      false;            // a loss or norm that is not finite makes a step without update, no error
  bool apply = true;    // false: no update either way, gradients are looked at only
  UpdateArgs update;    // grad_scale is filled from the clip factor and gradient_scale
  double clip = 0;      // maximal gradient norm; 0 leaves gradients as they are
  double momentum = 1;  // of units that follow others
  // Session chooses a list of lines by these: what the step merges over islands, and whether sums are not coded yet.
  plan::OuterWork outer{};
  bool uncoded = false;
  bool flag = false;  // this rank's wish, such as to stop; all ranks learn whether any has one
  // The inputs of this rank's mb-th micro-batch, in the order of the program's input values.
  std::function<std::vector<at::Tensor>(int mb)> load;
  Observer* observer = nullptr;
  std::vector<LineTime>* times = nullptr;  // of every line of this rank's list, if wanted
};

// The same on every rank, except for the waiting time.
struct StepResult {
  double loss = 0;                      // over the global batch, scaled
  std::vector<Counts::Count> counts{};  // over it, of the model's metrics
  double grad_norm = 0;  // over all parameters and meshes, before clipping; the largest of islands
  bool flag = false;     // whether any rank raised its flag
  bool skipped = false;  // loss or norm were not finite, and no update was made
  std::vector<Busy> busy{};  // by rank
  // Operations of the model in this step: each node's forward as computed, and its backward in proportion. Recomputed
  // operations, and those of several tp or cp ranks, count once. NaN where operations are unknown.
  double flops = 0;
  double comm_wait_s =
      0;  // this rank's own: waiting for communication, between lines and within them
  double offload_wait_s = 0;  // and for what leaves memory and comes back
  int kept_forwards = 0;      // this rank's own: the most kept at once for their backwards
};

class Executor {
 public:
  // All references must outlive the executor.
  Executor(const plan::PlanSet& plan, int rank, Model& model, Units& units, const Groups& groups,
           const AwaySpace& space, std::uint64_t seed, watch::Recorder& flight);

  // One step. A non-finite loss or gradient norm throws Error{kNonFinite} on every rank before any
  // parameter has changed, unless such steps are to be skipped. After any error the executor is not used again.
  StepResult run(const StepArgs& args);

 private:
  void load(const plan::Instr& line, const StepArgs& args);
  void forward(const plan::Instr& line, const StepArgs& args, bool keep);
  std::vector<at::Tensor> read_inputs(const plan::Instr& line, bool keep, Saved& saved) const;
  void record_loss(int mb, const at::Tensor& output, Saved& saved);
  void keep_output(const plan::Instr& line, const StepArgs& args, plan::ValueId value,
                   std::int64_t micro_batch, const at::Tensor& output);
  std::optional<double> island_weight(plan::UnitId unit, const StepArgs& args) const;
  bool merges_at_once(int index) const;
  void run_line(int index, const StepArgs& args, StepResult& result);
  void backward(const plan::Instr& line, const StepArgs& args);
  void backward_weight(const plan::Instr& line);
  void open_gradients(const plan::Instr& line, ops::WeightGradients& gradients);
  void add_gradient(plan::ValueId value, int mb, at::Tensor gradient);
  double grad_norm(const StepArgs& args, StepResult& result);  // returns that of the island
  void update(const plan::Instr& line, const StepArgs& args, bool skipped);
  // Waits for the lines that `line` waits for, and for everything before it in a lane that must be empty.
  void wait_for(int line, const StepArgs& args);
  struct InFlight {
    int line = -1;
    Movement movement;
  };
  std::deque<InFlight>& in_flight(plan::Lane lane) {
    return in_flight_[static_cast<std::size_t>(lane)];
  }
  void reload(int index);
  void offload(int index);
  // Everything up to `line` in its lane, of the lanes whose lines the list does not run itself.
  void settle(plan::Lane lane, int line, const StepArgs& args);
  void finish(InFlight& issued);
  void arrived(int line, at::Tensor tensor, const StepArgs& args);
  const plan::Retirement& retirement_of(const plan::Instr& line) const {
    return retirements_[&line - list_.data()];
  }
  void retire(int line, const StepArgs& args);

  const plan::PlanSet& plan_;
  const plan::List& list_;
  int rank_;
  Model& model_;
  Units& units_;
  const Groups& groups_;
  std::uint64_t seed_;
  watch::Recorder& flight_;
  int described_;  // the list, in the flight record
  plan::GradientFlow flow_;
  std::vector<plan::Retirement> retirements_;
  std::vector<plan::ValueId> inputs_;  // of the program
  std::vector<plan::ValueId> here_;    // those that this stage reads
  Values values_;
  Transfers transfers_;
  ValueMoves value_moves_;
  std::array<std::deque<InFlight>, 6> in_flight_;  // by lane: issued and not yet waited for
  std::vector<at::Tensor> losses_;  // by micro-batch; read once a step, which waits for the device
  std::vector<Counts> counts_;      // by micro-batch
  std::vector<double> flop_factors_;  // by node: of the model, for each that its forward computes
  double flops_ = 0;                  // this rank's
  double offload_wait_s_ = 0;
  double grad_factor_ = 1;  // what the update multiplies gradients by
  Busy busy_{};
};

}  // namespace trireme::exec
