// Hardware: what machines can do and what they cost, as a cluster file says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/comm/algorithm/links.h"

namespace trireme::planner {

// How near a GPU type comes to its peaks: its one curve, the same for every model and system. Fitted once on measurements
// and then frozen; docs/planner.md lists each value with the rows that it came from.
struct Efficiency {
  double gemm = 0.8;       // of the peak rate, by a matrix product that fills the device
  double crosswise = 0.9;  // of that, by one that sums over rows, as weight gradients do
  double depth = 128;   // inner elements whose products take as long as beginning and ending a tile
  double memory = 0.8;  // of the memory's rate, by kernels that stream
  double attention = 0.6;   // of the peak rate, by fused attention of the second generation
  double tile = 0.2;        // of the rate a product loses with every halving of its tiles
  double misaligned = 0.5;  // of the rate, by products whose rows are no multiple of 16 bytes
  double shared = 0.95;     // share of the compute rate that remains while a collective runs
  double kernel_s = 4e-6;   // seconds of every kernel in addition to its work
  double blocked_s =
      5e-5;  // more of every kernel where the host waits for each (CUDA_LAUNCH_BLOCKING)
  bool operator==(const Efficiency&) const = default;
};

// A product [m, k] x [k, n] on a CPU core takes 2mnk / rate. In addition, every element of its operands (packed and
// perhaps widened) and of its result takes so many seconds.
struct ProductCurve {
  double rate = 0;    // operations a second
  double left = 0;    // of mk
  double right = 0;   // of kn
  double result = 0;  // of mn
  double call_s = 0;
  bool operator==(const ProductCurve&) const = default;
};

// Rates of one CPU core in one precision, measured by `trireme bench calibrate` while the others were idle.
struct CoreRates {
  ProductCurve forward;
  ProductCurve input;      // gradients of what layers read
  ProductCurve crosswise;  // gradients of weights, added to a sum
  double attention = 0;    // operations a second, of the scores that are computed
  double attention_s = 0;  // of every block of queries that attention begins
  double memory_rate = 0;  // bytes a second, of kernels that stream
  double kernel_s = 0;     // of every kernel
  double pulse_s = 0;      // of a pulse, `trireme bench forecast`'s measure of the machine's speed
  double crowded_pulse_s = 0;  // the same with a rank on every core
  bool operator==(const CoreRates&) const = default;
};

// A processor that is a CPU core: its curves stand for those of `Efficiency`.
struct Core {
  CoreRates fp32, half;
  double update_rate = 0;    // bytes a second, of the optimizer
  double norm_rate = 0;      // the same of norms of gradients and of running averages
  double load_rate = 0;      // bytes a second of generating synthetic pictures and clips
  double operator_s = 0;     // of every small operator of LibTorch: gathers, scatters, elementwise
  double operator_rate = 0;  // bytes a second that these read and write
  double step_s = 0;         // seconds of every step in addition to its lines
  double crowding = 1;       // as simulate::Cores
  double process = 0;  // bytes that a training process of one rank holds in addition to tensors
  double process_rank = 0;  // bytes more for each further rank that is a thread of it
  double spread = 0;  // where it was calibrated: of the logarithm of measured over forecast steps
  bool operator==(const Core&) const = default;
};

// One processor, as ranks use it. Rates are dense peaks of the data sheet, multiply-adds counting two; 0: it cannot.
struct Gpu {
  std::string name;
  double half_flops = 0;  // a second, in fp16, and in bf16 if it has that
  bool bf16 = true;
  double fp32_flops = 0;
  double fp8_flops = 0;
  std::int64_t memory = 0;  // bytes
  double memory_rate = 0;   // bytes a second
  int units = 0;            // streaming multiprocessors, over which tiles are spread; 0: one
  bool cpu = false;         // a core of a CPU: its memory is its part of the host's
  double watts = 0;         // at full load
  double clock = 1;         // of the clock of its peaks, that it keeps within its watts
  Efficiency efficiency;
  bool fitted = false;  // the efficiency, on steps that were measured on it
  std::optional<Core> core{};
  bool operator==(const Gpu&) const = default;
};

// Links that join `span` neighbouring ranks; of several tiers a group uses the innermost that joins all of it.
struct NetworkTier {
  std::string name;
  int span = 0;           // ranks; 0: all there are
  double rate = 0;        // bytes a second that one rank sends while all of its host do
  double latency_s = 0;   // of one message
  double efficiency = 1;  // of the rate, by collectives of large messages: the tier's one curve
  double copies = 1;      // of the rate, by a transfer between two ranks
  double in_switch = 0;   // of efficiency, by sums that the switch makes (NVLS); 0: it makes none
  bool operator==(const NetworkTier&) const = default;
};

// Dollars for an hour of one GPU.
struct Price {
  std::string provider;
  std::string region;
  double on_demand = 0;             // 0: not offered
  double spot = 0;                  // 0: not offered
  double notice_s = 0;              // before a spot machine is taken
  double preemptions_per_hour = 0;  // of a spot host
  bool operator==(const Price&) const = default;
};

// Hosts that add gradients of the others (`trireme reduce-server`).
struct Reducers {
  int hosts = 0;
  double rate = 0;   // bytes a second of each one's link, each way
  double price = 0;  // dollars an hour of each
  bool operator==(const Reducers&) const = default;
};

// Hosts of one kind.
struct Cluster {
  std::string name;
  Gpu gpu;
  int gpus_per_host = 1;
  int hosts = 1;
  std::vector<NetworkTier> tiers;  // from inner to outer
  std::int64_t host_memory = 0;    // bytes
  double host_rate = 0;            // bytes a second between one GPU and host memory, each way
  double disk_rate = 0;            // bytes a second of a host's own disk, each way
  double checkpoint_rate = 0;      // bytes a second that one host writes to where checkpoints stay
  double failures_per_gpu_hour = 0;
  double restart_s = 0;       // from a failure to the next step, without what is repeated
  double replace_s = 0;       // additional seconds until another host replaces a spot host that was
                              // taken
  double watts_per_host = 0;  // watts of a host without its GPUs
  double power_usage = 1;     // of the building, in times what its machines use
  std::vector<Price> prices;
  Reducers reducers;
  std::optional<algorithm::Links> links{};  // of its hosts, where they were measured
  bool operator==(const Cluster&) const = default;

  int gpus() const { return gpus_per_host * hosts; }
  const char* device() const { return gpu.cpu ? "core" : "GPU"; }  // of a rank, for people
};

}  // namespace trireme::planner
