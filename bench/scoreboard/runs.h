// Runs: what the rows of published step times describe, as jobs and practices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/scoreboard/csv.h"
#include "bench/scoreboard/names.h"
#include "trireme/planner/cost/estimate.h"

namespace trireme::scoreboard {

// What of a run was timed.
enum class Timed { kStep, kForward, kBackward };  // a step; one block's forward; its backward

using config::RecomputePolicy;

// A model, how it was spread over which machine, and how long a step took.
struct Run {
  std::string row;
  std::string group;
  std::vector<std::size_t> lines;
  std::string cluster;  // a shipped one
  int gpus = 1;
  Timed timed = Timed::kStep;
  double seconds = 0;
  double scale = 1;  // steps of the job that make the row's, where its batch does not divide
  std::vector<Candidate>
      candidates;  // where the row leaves settings open: the fastest is what it is taken to be
  std::string
      unscored;  // why its time has no forecast; without candidates its memory has none either
  // Set apart from the table's other runs, scored by themselves and not fitted on: "ZeRO-3", "from MFU".
  std::string apart{};
  bool held_out = false;  // scored with the table's other runs, but no fit sees it
};

// A layout as tables print it.
struct PrintedLayout {
  int tp = 1, pp = 1, chunks = 1, dp = 1;
  int zero = 0;
  bool sequence_parallel = false;
  double micro_batch = 1, global_batch = 1;
  int cp = 1;
  config::ContextMethod context = config::ContextMethod::kRing;
};
struct Dimensions {
  bool llama = false;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0, seq_len = 0;
  bool tied = true;
  std::int64_t head_dim = 0;  // 0: hidden / heads
};
// Weights of products and tables, without biases and norms, which are less than one part in a thousand.
double layer_parameters(const Dimensions& model);
double parameters(const Dimensions& model);

// A job of 16-bit training with fp32 masters; resolved. What kSelective computes again is attention. Stages have as many blocks as their neighbours, the first ones one more;
// embedding and head are beside the first and last or, `counted`, in place of a block. `scale` is set where the
// batch is rounded to whole micro-batches.
config::Job job_of(const Dimensions& model, const PrintedLayout& layout, RecomputePolicy recompute,
                   bool fp32_gradients, bool counted = false);

// Such a job as a setting of the run, whose scale follows from its batch.
void add_setting(Run& run, const Dimensions& model, const PrintedLayout& layout,
                 RecomputePolicy recompute, bool fp32_gradients, const Practice& practice,
                 bool counted = false);

std::vector<Run> korthikanti_layers(const Csv& csv);
std::vector<Run> korthikanti_runs(const Csv& csv);
std::vector<Run> sc21_runs(const Csv& csv);
std::vector<Run> sc21_zero3_runs(const Csv& csv);
std::vector<Run> bloom_runs(const Csv& csv);
std::vector<Run> megascale_runs(const Csv& csv);
std::vector<Run> megatron_core_runs(const Csv& csv);
std::vector<Run> torchtitan_runs(const Csv& csv);
std::vector<Run> fms_runs(const Csv& csv);
std::vector<Run> history_runs(const Csv& csv);
std::vector<Run> v100_runs(const Csv& csv);
std::vector<Run> mosaicml_runs(const Csv& csv);
std::vector<Run> distflash_runs(
    const Csv& csv);  // of cp_long_context: those of that paper's tables
std::vector<Run> llama3_runs(const Csv& csv);

// How Megatron-LM of 2021 computes.
Practice megatron_2021();

// What MosaicML's rows call GPUs and sharding; a row with another word is refused.
struct MosaicGpu {
  const char* cluster;
  int gigabytes;  // as device_bytes takes them
};
const MosaicGpu& mosaic_gpu(const Csv& csv, std::size_t row);
int mosaic_stage(const Csv& csv, std::size_t row);  // of ZeRO

}  // namespace trireme::scoreboard
