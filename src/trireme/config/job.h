// Job: everything a user may ask of a run, as plain data; fields.h names and documents each key.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/fs.h"
#include "trireme/base/tier.h"
#include "trireme/config/optimizers.h"
#include "trireme/config/precision.h"
#include "trireme/config/sections/data.h"
#include "trireme/config/sections/lr_schedules.h"
#include "trireme/config/sections/model.h"
#include "trireme/config/sections/preference.h"
#include "trireme/families/sections.h"
#include "trireme/plan/mesh/context_method.h"

namespace trireme::config {

using mesh::ContextMethod;
enum class RecomputePolicy { kNone, kFull, kSelective, kAuto };
enum class OptimizerStates { kMaster, kInt8 };
enum class Device { kCpu, kCuda };

struct Parallel {
  int pp = 1;
  std::string schedule = "1f1b";  // or another of plan/schedules
  std::string schedule_file;      // a CSV of actions instead: parallel.schedule=FILE.csv
  int virtual_stages = 0;         // chunks of a pipeline rank; 0: the schedule's own count
  std::string stages = "auto";    // or the nodes of each stage, "3,3,4"
  std::string costs;              // a file of measured node costs
  double activation_limit = 1;    // zb_auto
  int dp_replicate = 1;
  int dp_shard = -1;  // -1: what is left of the world
  int cp = 1, tp = 1;
  bool sequence_parallel = true;
  ContextMethod context = ContextMethod::kRing;
  int context_inner = 2;  // ranks: parallel.context=hierarchical:N
  int zero = 0;
  double comm_timeout_s = 60;
  bool operator==(const Parallel&) const = default;
};

struct Recompute {
  RecomputePolicy policy = RecomputePolicy::kNone;
  std::string nodes;                      // patterns; empty: all that can
  std::string parts = "norms,attention";  // selective
  std::int64_t every = 0;                 // full: nodes of a segment; 0: each by itself
  Bytes memory;                           // auto: of one rank
  bool logits = false;
  bool operator==(const Recompute&) const = default;
};

// Place of each kind of state while a step does not use it.
struct Offload {
  Tier optimizer = Tier::kNone, params = Tier::kNone;
  Tier grads = Tier::kNone, activations = Tier::kNone;
  double ratio = 1;  // of the optimizer
  std::string path;  // of nvme; empty: RUNDIR/scratch
  bool uses(Tier tier) const {
    return optimizer == tier || params == tier || grads == tier || activations == tier;
  }
  bool operator==(const Offload&) const = default;
};

struct Optim {
  Optimizer name = Optimizer::kAdamW;
  double lr = 1e-3, min_lr = 0;
  std::int64_t warmup_steps = 0;
  double warmup_lr = 0;          // that warm-up begins at
  std::int64_t decay_steps = 0;  // step at which min_lr is reached, warm-up included; 0: run.steps
  LrSchedule schedule = LrSchedule::kCosine;
  double wsd_decay_fraction = 0.1, weight_decay = 0.1;
  std::optional<double> weight_decay_end{};  // at the last step; none: the same
  std::vector<ParamGroup> groups{};          // a parameter is of the last one that matches
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8, clip = 1;  // clip 0: off
  MuonSettings muon{};
  OptimizerStates states = OptimizerStates::kMaster;
  bool from_weights = false;  // states come from model.weights as well
  bool operator==(const Optim&) const = default;
};

struct Run {
  Device device = Device::kCpu;
  std::int64_t steps = 100;
  std::int64_t global_batch = 8;  // samples
  std::int64_t micro_batch = 1;   // samples
  bool find_micro_batch = false;  // run.micro_batch=0
  Bytes memory_limit;             // of a rank; 0: none
  std::int64_t seed = 1;
  std::int64_t log_every = 1;        // steps
  std::int64_t eval_every = 0;       // steps; 0: the last one only, -1: never
  std::int64_t eval_batches = 0;     // global batches; 0: all there are (train/run/validation.h)
  std::int64_t skip_non_finite = 5;  // in a row, of which the last ends the run; 0: none is skipped
  double spike_zscore = 0;           // of a loss that is a spike; 0: none is
  // Losses to compare with; training then returns at least as many steps and skips twice as many batches.
  std::int64_t spike_window = 100;
  std::int64_t compare_replicas = 0;  // steps between; 0: never
  double hang_report_s = 4;           // 0: never
  std::int64_t trace = 0;             // the step whose lines are timed, from 1; 0: none
  bool operator==(const Run&) const = default;
};

struct Checkpoint {
  std::int64_t every = 0;  // steps; 0: only at the end of the run
  bool async = true;
  std::int64_t keep_last = 0;   // 0: all
  std::int64_t keep_every = 0;  // steps; 0: none
  std::int64_t keep_best = 0;
  bool trainable_only = false;
  std::int64_t memory_every = 0;  // steps; 0: never
  bool operator==(const Checkpoint&) const = default;
};

// Its bases are the sections of families: contrastive, jepa and others.
struct Job : FamilySections {
  Model model;
  Vision vision;
  Lora lora;
  Data data;
  Preference preference;
  Parallel parallel;
  Precision precision;
  Network network;
  Recompute recompute;
  Offload offload;
  Optim optim;
  Run run;
  Checkpoint checkpoint;
  bool operator==(const Job&) const = default;
};

// Reads JOB.yaml (or JSON). Throws Error{kUsage} as "FILE:LINE:COLUMN: KEY: ...".
Job load_job(const Path& path);
// The same from text; `what` names it in messages.
Job parse_job(std::string_view text, const std::string& what);

// Applies one `--set`: "section.key=value" (a leading "--" is allowed). Throws Error{kUsage}.
void apply_set(Job& job, std::string_view assignment);

// YAML with every key; parse_job(print_yaml(job), "") == job.
std::string print_yaml(const Job& job);

std::uint64_t digest(const Job& job);  // hash of that text

// A key whose value differs, with both values as YAML.
struct Difference {
  std::string key;
  std::string before;
  std::string after;
};
std::vector<Difference> diff(const Job& before, const Job& after);

// Throws Error{kUsage} naming the keys that are fixed for the life of a run and differ.
void check_resumable(const Job& saved, const Job& now);

// The reference of all keys, as Markdown: `trireme train --help-config` and docs/config.md.
std::string help_config();

}  // namespace trireme::config
