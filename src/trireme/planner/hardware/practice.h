// Practice: how a system computes a model, where systems differ. Facts about programs, nothing fitted.
#pragma once

#include <string>

#include "trireme/config/job.h"

namespace trireme::planner {

enum class AttentionKernel {
  kUnfused,  // two batched products with the probabilities in memory between them
  kFlash,    // fused, by blocks (Dao et al. 2022)
  kFlash2,   // with less work between the products, twice as fast (Dao 2023)
  kTiles,    // fused, on cores: ops/attention
  kRows      // unfused, in fp32, some rows of queries at a time: ops/aten/attention
};
enum class Fusion {
  kEager,    // a kernel for each elementwise operation
  kKernels,  // norms, bias + activation, bias + dropout + residual each in one kernel
  kCompiled  // chains of elementwise operations in one kernel, as a compiler makes them
};

// Exchanges of tensor-parallel ranks that overlap computation.
enum class TensorOverlap {
  kNothing,
  kBackward,   // in backward, while either gradients of a layer that needs them are computed
  kEverything  // by parts of the products that make or need it
};

struct Practice {
  AttentionKernel attention = AttentionKernel::kFlash2;
  Fusion fusion = Fusion::kKernels;
  bool dropout = false;
  bool fp8 = false;                   // products of linear layers in fp8
  bool causal = true;                 // attention kernels leave out what the mask hides
  bool adds_weight_gradients = true;  // a kernel of its own adds each micro-batch's to a sum
  bool overlaps_reduction = true;     // gradients travel during backward; else after it
  bool overlaps_gathers = false;      // gathers of stepped parameters overlap the next forward
  bool overlaps_shards = true;        // ZeRO-2's and 3's gathers and reductions overlap computation
  bool overlaps_context = true;       // keys and values go round a ring while attention is computed
  bool fuses_context = true;          // attention among cp ranks is fused; else as kRows
  // In a sequence in order, ranks that see no more keys attend for others: a ring in half the turns (DistFlashAttn).
  bool ring_helped = false;
  // Backward begins where forward's keys ended: their gradients, in 16 bits, end at home (TransformerEngine).
  bool ring_homeward = false;
  // A recomputed block keeps the result of its attention (DistFlashAttn).
  bool keeps_attention = false;
  TensorOverlap tensor = TensorOverlap::kNothing;
  bool overlaps_transfers = true;  // between pipeline stages; else compute waits for them
  bool stops_early = false;        // recomputation of a block ends with the input of its last
                                   // product
  // A recomputed block keeps attention's result and that of every second product in 16 bits: torchtitan's selective
  // checkpoints
  bool keeps_operators = false;
  bool blocks_launches = false;   // the host waits for every kernel (CUDA_LAUNCH_BLOCKING)
  bool splits_transfers = false;  // each tp rank sends a part, gathered inside the host (SC21)
  bool operator==(const Practice&) const = default;
};

// Which runtime a forecast on GPUs prices.
enum class RuntimeAs {
  kToday,   // as it is: collectives are waited for, operators are not fused (docs/gpu.md)
  kPlanned  // with the overlap and the kernels that are to come
};
Practice practice_of(RuntimeAs runtime);
// One clause that names it, and says whether it has run on such devices.
std::string describe(RuntimeAs runtime, bool gpus);

// Why the runtime's attention on GPUs is not fused in a job, as "model.dropout=0.1"; empty where it is.
std::string unfused(const config::Job& job);

// `practice` as the job asks for it: with its dropout and, on GPUs, with attention as it computes there.
Practice asked(Practice practice, const config::Job& job, bool gpus);

}  // namespace trireme::planner
