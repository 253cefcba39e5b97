// Layout: what the planner chooses of a job: how ranks share the model and the batch, and what is computed twice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::planner {

// Part of a micro-batch's activations that backward recomputes.
enum class Recomputed : std::uint8_t {
  kNothing,
  kAttention,  // norms and attention's result: recompute.parts=norms,attention
  kMlp,        // and what the feed-forward's activation reads
  kBlocks,     // whole blocks: recompute.policy=full
  kAsGiven     // what the job says, whatever it is
};

// State in host memory.
enum class Away : std::uint8_t {
  kNothing,
  kOptimizer,   // states and master weights
  kEverything,  // sums of gradients and parameters as well
  kAsGiven
};

struct Layout {
  int pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  int chunks = 1;       // of a pipeline rank
  int micro_batch = 1;  // samples
  schedules::Schedule schedule = schedules::Schedule::k1F1B;
  std::uint8_t zero = 0;
  bool sequence_parallel = false;
  Recomputed recomputed = Recomputed::kNothing;
  Away away = Away::kNothing;

  int world() const { return pp * dp_replicate * dp_shard * cp * tp; }
  int dp() const { return dp_replicate * dp_shard; }
  bool operator==(const Layout&) const = default;
};

// Recomputation that a job's settings amount to; kAsGiven for settings that no search would choose.
Recomputed recomputed_of(const config::Recompute& given);
Away away_of(const config::Offload& given);

std::string_view text(Recomputed recomputed);     // "norms and attention"
std::string_view text(Away away);                 // "optimizer"
std::string schedule_text(const Layout& layout);  // "interleaved x3"; "none" without a pipeline

// The job with this layout; its other keys stay as they are.
config::Job with_layout(config::Job job, const Layout& layout);

// Whether a resolved job supports this recomputation: frozen nodes and those of some families keep nothing that could
// be recomputed.
bool can_recompute(const config::Job& job, Recomputed recomputed);

// Choices, one by one: explained and compared.
enum class Choice : std::uint8_t {
  kTp,
  kPp,
  kCp,
  kDp,
  kShards,
  kZero,
  kSequence,
  kSchedule,
  kMicroBatch,
  kRecomputed,
  kAway,
  kGpus
};
// "pp 4, dp 16 in shards of 8, tp 8 with sequence parallelism, ZeRO-1, interleaved x3, micro-batch 2, recompute blocks".
std::string text(const Layout& layout);

}  // namespace trireme::planner
