// Recording: what the first steps of a job compute, in coordinates that every layout shares.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/arch/cut.h"
#include "trireme/base/dtype.h"
#include "trireme/config/job.h"
#include "trireme/train/job_session.h"

namespace trireme::train {

// Parameters as the seed gives them; then, in the order in which a step comes by them, the rest.
enum class Kind { kParameter, kActivation, kGradient, kUpdate };
std::string_view name(Kind kind);  // "activation", ...

constexpr int kStart = -1;        // the step of parameters: before the first
std::string step_name(int step);  // "start", "0", ...

// The elements of a whole tensor that one rank has.
struct Part {
  int rank = 0;
  std::vector<arch::Extent> extents{};
  at::Tensor values{};  // fp64, flat: what extents call local
};

// One tensor of one step, put together from all ranks' parts.
struct RecordedTensor {
  int step = 0;
  Kind kind = Kind::kActivation;
  std::string name{};        // of the node that writes it, or the parameter
  DType type = DType::kF32;  // what it was computed in
  std::vector<std::int64_t>
      shape{};  // activations: [samples, tokens, d] of the global batch; a loss: [micro-batches]
  std::vector<double>
      values{};  // of several ranks that hold an element, the first one's; empty: not recorded
  std::vector<Part> holders{};  // by rank, without values
  std::vector<Part> strays{};   // copies that do not equal `values` to the last bit

  std::int64_t numel() const;
  // The rank whose element of `values` it is.
  int rank_of(std::int64_t element) const;
};

struct Recording {
  DType compute = DType::kF64;
  std::int64_t micro_batch = 1;         // samples
  std::vector<RecordedTensor> tensors;  // by step, kind and place in the program
  std::vector<double> losses;           // of each step
  std::string ended;                    // why before the last step; empty: it did not
};

// Runs `steps` steps of a resolved job of a language model, ranks as threads of this process, and records the initial
// parameters, the outputs of every node, the reduced gradients before they are clipped, and the updates: parameters
// after a step less those before it. A step whose loss or gradient norm is not finite is the last one; its updates are
// not recorded. `load` is called by all threads.
Recording record(const config::Job& job, int steps, const JobSession::Load& load);

struct RecordingBytes {
  std::int64_t kept = 0;  // of the result, but for strays
  std::int64_t passing =
      0;  // beside it while record() runs: the ranks themselves and their parts of a step
};
RecordingBytes recording_bytes(const config::Job& job, int steps);

}  // namespace trireme::train
