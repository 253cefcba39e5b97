// Stage memory: what a run of another system takes of each GPU, from closed forms: published rows are scored by it.
#pragma once

#include <cstdint>

#include "bench/scoreboard/names.h"
#include "trireme/planner/cost/device_memory.h"

namespace trireme::scoreboard {

// A decoder-only transformer. Biases and norms are left out: they are less than one part in a thousand.
struct Decoder {
  double layers = 0, hidden = 0, heads = 0;
  double kv_heads = 0;  // 0: as many as heads
  double ffn = 0;       // 0: 4 hidden
  double vocab = 0;
  bool gated =
      false;         // three products in the feed-forward part, and q, k, v apart: as Llama has it
  bool tied = true;  // one table for embedding and head

  double kv_width() const { return kv_heads > 0 ? hidden / heads * kv_heads : hidden; }
  double ffn_width() const { return ffn > 0 ? ffn : 4 * hidden; }
  double layer_parameters() const;
  double parameters() const;
};

// How ranks share the model and the batch.
struct Split {
  int tp = 1, cp = 1, pp = 1;
  int dp = 1;      // ranks over which ZeRO shards, those of cp among them
  int chunks = 1;  // stages of a rank; more than one: interleaved 1F1B
  bool sequence_parallel = false;
  bool embedding_is_layer = false;  // embedding and head count when layers are dealt to stages
  double sequence = 0;
  double micro_batch = 0;  // sequences of one cp group
  int micro_batches = 1;
};

// What forward leaves in memory for backward.
enum class Keeps : std::uint8_t {
  kAll,
  kOperators,  // attention and every other product; what is cheap runs again
  kAlternate,  // of every other layer all, of the rest the input
  kInputs      // of every layer the input
};

// What a system does that decides what its GPUs hold. Facts about programs, in bytes of a parameter or of a logit;
// nothing fitted.
struct MemoryPractice {
  int zero = 0;
  double weights = 2;        // 16-bit copy that computes
  double gradients = 2;      // as backward writes them
  double gradient_sums = 0;  // beside them, where micro-batches add up in fp32
  double states = 12;        // master weights and moments
  // Copies that the update makes at once, of all parameters and of those that the rank updates.
  double step_whole = 0, step_own = 0;
  double reduce_bucket = 0, gather_bucket = 0;  // bytes, at most, copied to be exchanged
  // Under ZeRO-3: parameters gathered at most, 0: two layers and the tables; bytes of a gradient's copy while it is
  // reduced; whether units stay gathered, and gradients whole and summed in fp32, from the first micro-batch to the last.
  double live_parameters = 0, reduced_copy = 4;
  bool gathered_all_step = false;
  bool states_on_host = false, weights_on_host = false, inputs_on_host = false;

  Keeps keeps = Keeps::kAll;
  bool flash = true;  // attention without a matrix of probabilities
  bool fused =
      true;  // norms and activations in one kernel each, and no output kept that nothing reads
  bool dropout = false;  // masks are kept
  bool embedding_norm = false;
  // Most bytes of a logit that the loss reserves, forward and backward; the part of it that is in use at once.
  double loss = 14, loss_live = 12;
  // The allocator grows segments, so that what is freed joins; else what was cut for one size stays.
  bool expandable = false;
};

// Of one rank of stage `stage`.
DeviceMemory stage_memory(const Decoder& model, const Split& split, const MemoryPractice& practice,
                          int stage, const MemoryConstants& constants = {});

// Of the rank that holds most, by on_device().
DeviceMemory device_memory(const Decoder& model, const Split& split, const MemoryPractice& practice,
                           const MemoryConstants& constants = {});

// The groups of ranks that a rank of stage `stage` talks in.
int communicators(const Split& split, int stage, bool tied);

}  // namespace trireme::scoreboard
