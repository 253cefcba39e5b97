// Where two recordings of one job part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/train/recording/recording.h"

namespace trireme::train {

// Rows of a micro-batch, or of several that hold the same samples as several of the other run, that are not as many.
struct RowCounts {
  std::int64_t a = 0;
  std::int64_t b = 0;
};

// One tensor of two recordings, and the element of it that lies furthest apart.
struct Comparison {
  int step = 0;
  Kind kind = Kind::kActivation;
  std::string name{};
  DType type = DType::kF32;  // what ulps are counted in
  bool compared = true;
  std::string why_not{};  // where it is not
  std::optional<RowCounts>
      rows{};              // the first that differ: infinitely far, and no element is compared
  bool loss = false;       // an activation that is one
  bool by_sample = false;  // an activation whose rows are samples

  // |a - b| / max(|a|, kSmallNorm x the norm of all tensors of this step and kind), Euclidean norms. Among copies on
  // several ranks of one run, the one furthest from the first run's values counts. For updates, |a - b| leaves out
  // elements that rounding explains: Adam makes whole steps of either sign for gradients that are noise. These are of
  // two kinds. One has a largest gradient so far of at most the largest difference so far of its copies /
  // default_tolerance. The other differs by at most two ulps of the parameter. A parameter that follows another has the
  // noise of that one's gradients.
  double relative = 0;

  // The element's coordinates, the slowest dim first. The first is a row of the global batch; for activations whose
  // rows are not samples it is a row of `micro_batch`.
  std::vector<std::int64_t> at{};
  std::int64_t micro_batch =
      -1;  // the second run's that the element is of, in the global batch; -1: of none
  double a = 0;
  double b = 0;
  std::uint64_t ulps = 0;
  int rank = 0;            // the rank that computed b
  int peer = -1;           // a rank that holds the element with other bits; -1: all copies agree
  bool first_run = false;  // these peers are the first run's, and so is b

  int strays = 0;  // copies in both runs whose bits are not those of their peers
};

// Tensors that are almost nothing, such as the gradient of a key's bias, are not judged by their own rounding.
inline constexpr double kSmallNorm = 1e-3;

// In the recordings' order. Losses of micro-batches of other sizes are compared as sums over the global batch, rows of
// activations by the samples that they are of. Throws Error{kInternal} for recordings of different models or steps.
std::vector<Comparison> compare(const Recording& a, const Recording& b);

// Difference that rounding explains between layouts that add in different orders: 1e-11 in fp64, 1e-4 in fp32, 0.05 in
// bf16.
double default_tolerance(DType compute);

}  // namespace trireme::train
