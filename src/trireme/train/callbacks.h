// Callback: what may watch a run. Rank 0 has them; they see plain data, one step late, and decide nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/scratch/scratch.h"
#include "trireme/formats/event.h"
#include "trireme/model/loss_label.h"

namespace trireme::train {

// Where a run comes from, as the program that starts it knows.
struct Provenance {
  std::string command{};   // as it was typed
  std::string data{};      // what is trained on, in one line
  std::string versions{};  // of Trireme, LibTorch and the CPU or GPU
};

// Known before the first step.
struct RunInfo {
  std::string name;             // of the run: that of its directory
  Path out;                     // RUNDIR
  std::string job_yaml;         // resolved
  std::string plan_summary;     // `trireme explain` of this run
  std::int64_t first_step = 0;  // > 0 after a resume: steps already done
  std::string resumed{};        // where from, if it was memory, or what became of residuals
  std::int64_t steps = 0;       // the run ends after this many
  std::int64_t parameters = 0;
  int world = 1;
  double predicted_step_s = 0;                  // from the plan, by the simulator
  double predicted_low_s = 0;                   // four of five steps are expected
  double predicted_high_s = 0;                  // between these; 0: not known
  double predicted_process = 0;                 // bytes of rank 0's process; 0: not known
  std::string prediction{};                     // by what that was forecast
  std::vector<std::int64_t> predicted_bytes{};  // by rank: its tensors' peak, from the plan
  std::vector<std::string>
      offload{};               // how each place outside memory works on this rank, as it says
  double bytes_per_token = 0;  // of the raw validation text; 0 when unknown
  double peak_flops = 0;       // of the whole world; MFU's denominator
  std::string mfu_convention;
  std::string model{};      // the program's name
  model::LossLabel loss{};  // what `loss` of steps and validations is
  Provenance from{};
  std::string digest{};    // of the data
  std::string host{};      // of rank 0
  std::string timeline{};  // the forecast of a step as SVG; empty: none
  double time = 0;         // of the start, in seconds since 1970
};

// One line of metrics.jsonl.
struct StepMetrics {
  std::int64_t step = 0;  // 1-based: steps done
  double loss = 0;        // in RunInfo::loss
  double grad_norm = 0;
  double lr = 0;          // of the next update, where this one was skipped
  double loss_scale = 1;  // of this step
  bool skipped = false;   // it overflowed, and no parameter has changed
  std::vector<std::pair<std::string, double>> metrics{};  // of the model's own, by name
  std::int64_t tokens = 0;                                // consumed so far, over all ranks
  double tokens_per_s = 0;
  double step_ms = 0;
  double mfu = 0;
  double rss_mb = 0;
  double peak_mb = 0;  // of this rank's tensors in the step; 0 where nothing was measured
  double comm_wait_ms = 0;
  double data_wait_ms = 0;
  double offload_wait_ms = 0;  // for what leaves memory and comes back
  double time = 0;             // of its end, in seconds since 1970
};

struct EvalMetrics {
  std::int64_t step = 0;
  double loss = 0;           // in RunInfo::loss
  double bits_per_byte = 0;  // 0 when the dataset does not know its raw size
  std::vector<std::pair<std::string, double>> metrics{};  // of the model's own, by name
  std::int64_t tokens = 0;                                // or samples, with loss
  double seconds = 0;
  double time = 0;  // of its end, in seconds since 1970
};

// The end of a checkpoint: there, or not; it began `seconds` ago.
struct CheckpointMetrics {
  std::int64_t step = 0;
  Path directory{};       // empty: not written
  std::string problem{};  // why not, or what could not be deleted after it
  double seconds = 0;
  double standing_s = 0;  // seconds for which training was interrupted
};

// Number of snapshots in memory.
struct SnapshotCount {
  std::int64_t taken = 0, failed = 0;
  std::int64_t skipped = 0;  // due while the one before was under way
  double standing_s = 0;     // seconds for which training was interrupted, in total
};

enum class Ending { kDone, kInterrupted };

struct RunEnd {
  Ending ending = Ending::kDone;
  std::int64_t step = 0;
  std::vector<std::int64_t>
      measured_bytes{};  // by rank: its tensors' peak in a step; 0: not measured
  double measured_process =
      0;  // bytes that this rank's process holds, without files; 0: not measured
  std::map<std::string, scratch::Traffic>
      offload{};                         // by place outside memory: what this rank has moved
  Path checkpoint;                       // the last one; empty when none was written
  std::int64_t checkpoints_failed = 0;   // not written, while training continued
  std::int64_t checkpoints_skipped = 0;  // due while the one before was under way
  SnapshotCount snapshots{};
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_start(const RunInfo& info) {}
  virtual void on_step(const StepMetrics& metrics) {}
  // So many batches of a validation are done, of all of its batches.
  virtual void on_eval_batch(std::int64_t done, std::int64_t all) {}
  virtual void on_eval(const EvalMetrics& metrics) {}
  // Something went wrong and something was done about it.
  virtual void on_fault(const formats::Event& fault) {}
  // Training continues after this step: reports of later steps, apart from faults, belong to a discarded history.
  virtual void on_rewind(std::int64_t step) {}
  // A run may resume from the checkpoint or snapshot that begins now: make all reports up to here durable. An
  // exception, Error{kData}, is the reason for a missing checkpoint.
  virtual void before_checkpoint() {}
  virtual void on_checkpoint(const CheckpointMetrics& metrics) {}
  virtual void on_end(const RunEnd& end) {}
};

using Callbacks = std::vector<std::unique_ptr<Callback>>;

template <typename Event>
void notify(const Callbacks& callbacks, const Event& event) {
  for (const std::unique_ptr<Callback>& callback : callbacks) std::invoke(event, *callback);
}

}  // namespace trireme::train
