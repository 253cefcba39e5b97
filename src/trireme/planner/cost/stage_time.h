// StageTime: seconds of a pipeline stage, and what a step pays of them. The estimate fills it from a stage's nodes, the
// screening from averages.
#pragma once

#include "trireme/planner/hardware/hardware.h"
#include "trireme/planner/hardware/practice.h"

namespace trireme::planner {

// Computation of one micro-batch, and exchanges of data-parallel ranks for the stage's units, each once.
struct StageTime {
  double forward = 0, input = 0, weight = 0;
  double gathers = 0;    // of parameters
  double regathers = 0;  // of them once more, for backward
  double renewed = 0;    // of those that a step changes
  double reduces = 0;    // of gradients
  double first = 0;      // of the unit that is gathered before anything can start

  StageTime& operator+=(const StageTime& other);
  double backward() const { return input + weight; }
  double length() const { return forward + backward(); }
};

// Of one micro-batch with what its ranks exchange meanwhile.
struct StageTurn {
  double forward = 0, backward = 0;
  double length() const { return forward + backward; }
};
// No less than what ZeRO-2 and 3 exchange, where it is overlapped; else computation has it.
StageTurn turn_of(const StageTime& stage, int zero, const Practice& practice);

// Seconds after the last backward of a rank's stages, which are added up: for sums of gradients, and for new parameters.
double waits_at_end(const StageTime& all, int zero, const Practice& practice);

// Seconds of `computing` while collectives take `exchanging` and, in these seconds, `busy` of the processor; both one after
// the other, where they are not overlapped.
double with_shards(const Gpu& gpu, const Practice& practice, double computing, double exchanging,
                   double busy);

// An optimizer's step, on one rank.
struct Updated {
  double elements = 0;  // that train
  double states = 0;    // bytes
  double averaged = 0;  // elements that follow others
  double flops = 0;     // of matrices
};
double update_seconds(const Gpu& gpu, const Updated& updated, double master, double gradient);

// Bytes that kernels read and write, and operations of products of updates, in fp32.
double streamed_seconds(const Gpu& gpu, double bytes);
double multiplied_seconds(const Gpu& gpu, double flops);

}  // namespace trireme::planner
