// Recording: what the first steps of a job compute, in coordinates that every layout shares.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/config/job.h"
#include "trireme/model/cut.h"
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
  std::vector<model::Extent> extents{};
  at::Tensor values{};  // fp64, flat: what extents call local
};

// A copy of an activation that has another number of rows of a micro-batch than the first rank's copy.
struct Miscount {
  std::int64_t micro_batch = 0;  // of the global batch
  int rank = 0;
  std::int64_t rows = 0;
  int peer = 0;
  std::int64_t peer_rows = 0;
};

// One tensor of one step, put together from all ranks' parts.
struct RecordedTensor {
  int step = 0;
  Kind kind = Kind::kActivation;
  // Name of the node that writes it, NODE/VALUE if it writes several; or of the parameter.
  std::string name{};
  DType type = DType::kF32;  // what it was computed in
  // Activations: rows of the global batch, micro-batch after micro-batch, then the dims of a row. For unrecorded ones
  // the maximum number of rows. A loss: [micro-batches], or [1] where the step has one.
  std::vector<std::int64_t> shape{};
  std::vector<double> values{};  // of several ranks that hold an element, the first one's
  // Without values; of parameters by rank, of activations by micro-batch and rank.
  std::vector<Part> holders{};
  std::vector<Part> strays{};  // copies that do not equal `values` to the last bit

  // For activations.
  bool loss = false;
  bool by_sample = false;            // a row is a sample
  bool within = false;               // rows are numbered or ordered within their micro-batch
  bool blanks = false;               // a micro-batch without pictures has rows of a blank one
  std::vector<std::int64_t> rows{};  // of each micro-batch; of a loss none
  std::vector<Miscount> miscounts{};

  std::string follows{};  // of an update: the parameter that this one follows by averages

  std::int64_t numel() const;
  bool recorded() const;
  // The rank whose element of `values` it is.
  int rank_of(std::int64_t element) const;
};

struct Recording {
  DType compute = DType::kF64;
  std::vector<RecordedTensor> tensors;  // by step, kind and place in the program
  std::vector<double> losses;           // of each step
  std::string ended;                    // why before the last step; empty: it did not
};

// Runs `steps` steps of a resolved job of any family, with ranks as threads of this process. Records the initial
// parameters (model.weights, if the job names any), the outputs of every node, the reduced gradients before they are
// clipped, and the updates. An update is a step's change of the parameters. A step whose loss or gradient norm is not
// finite is the last one; its updates are not recorded. `load` is called by all threads.
Recording record(const config::Job& job, int steps, const JobSession::Load& load);

struct RecordingBytes {
  std::int64_t kept = 0;  // bytes of the result, without strays
  std::int64_t passing =
      0;  // additional bytes while record() runs: the ranks themselves and their parts of a step
};
RecordingBytes recording_bytes(const config::Job& job, int steps);

}  // namespace trireme::train
