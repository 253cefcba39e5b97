// CostModel: seconds and bytes of a plan's lines, from counts alone.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::simulate {

// Rates of one rank and its links. The defaults are those of one core of a current server CPU with matrix units, with
// ranks on one host. LibTorch GEMM: 0.15 TFLOP/s in fp32 and about 0.9 in bf16. Elementwise work: memory speed.
// Collectives between processes on loopback: 0.9 GB/s. Host time: some microseconds a line. Measured rates make better
// forecasts.
struct CostModel {
  double fp64_flops = 0.075e12;  // a second
  double fp32_flops = 0.15e12;
  double half_flops = 0.9e12;  // bf16, fp16
  double memory_bytes_per_s = 10e9;
  double link_bytes_per_s = 0.9e9;
  double link_latency_s = 20e-6;  // of one message
  double host_bytes_per_s = 5e9;  // to host memory and back: one copy
  double disk_bytes_per_s = 1e9;  // each way
  double line_s = 5e-6;           // host time of a line that computes
  // Memory of a training process apart from tensors: LibTorch 1.13 for CPUs with its kernels in use, and ours.
  std::int64_t process_bytes = 186'000'000;

  double flops(DType compute) const;
};

// Seconds of a line: occupation of its queue, and time until its data has arrived. Another line may follow before that.
struct LineSeconds {
  LineSeconds(double busy, double latency = 0) : busy(busy), latency(latency) {}
  double busy = 0;
  double latency = 0;
  double waited = 0;     // of busy: the line waits for communication that nothing covers
  double transfers = 0;  // of waited: for one between stages
  double all() const { return busy + latency; }
};

// Collectives go by the recipe's algorithm, otherwise around a ring. For an all-gather or a reduce-scatter n ranks send (n-1)/n of the bytes in n-1 messages, for
// an all-reduce twice that (Thakur, Rabenseifner & Gropp 2005). Coded sums are a scatter of codes and a gather of results. Backward costs two forwards. A transfer occupies its
// queue for its bytes and arrives a latency later. A node moves its inputs, results and saved data; a step reads and
// writes all states. Offloads and reloads move at the rate of their storage. A node with measured seconds takes these
// instead of those of its operations.
LineSeconds seconds(const CostModel& model, const plan::PlanSet& plan, int rank,
                    const plan::Instr& line);

// Exchanges of a line with other ranks, `times` one after the other.
struct Exchanged {
  plan::Exchange kind = plan::Exchange::kAllReduce;
  mesh::AxisSet axes{};
  int ranks = 1;     // of the group; of a tied unit's only those stages that use it
  double bytes = 0;  // as of plan::NodeExchange
  double times = 1;
  bool apart = false;  // what ranks send has no sum: hosts pass on that of each rank
  // Above 0: `axes` are those of plan::in_blocks(mesh, within), dp_shard inside a block and dp_replicate across blocks.
  int within = 0;
};
std::vector<Exchanged> exchanges(const plan::PlanSet& plan, const plan::Instr& line);

// Bytes that one rank sends in the line.
double sent_bytes(const plan::PlanSet& plan, const plan::Instr& line);

// Bytes that a host of `ranks` neighbours, that of `rank`, sends to other hosts in a step for its units. Each byte crosses
// between two hosts once, but codes of sums in groups with several ranks on a host, which go to each rank by itself.
double crossing_bytes(const plan::PlanSet& plan, int rank, int ranks);

// Operations of the updates of a unit's matrices, on the rank that has most of them.
double matrix_flops(const plan::PlanSet& plan, plan::UnitId unit);

// Bytes that a line moves between memory and core.
double moved_bytes(const plan::PlanSet& plan, int rank, const plan::Instr& line);

}  // namespace trireme::simulate
