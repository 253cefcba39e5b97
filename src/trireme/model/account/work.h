// Operations and kept data of the nodes of a language model, for one micro-batch on one rank.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"
#include "trireme/plan/program.h"

namespace trireme::model {

struct Work {
  std::int64_t saved_bytes = 0;
  double flops = 0;                        // multiply-adds count two
  std::optional<double> backward_flops{};  // none: twice that
  std::optional<plan::BackwardSplit> split{};
  std::vector<plan::Part> parts{};
};

// Which gradients a node computes: of what it reads, of its own unit.
struct Gradients {
  bool input = true;
  bool own = true;
};

// Linear layers that read one tensor, and their adapters.
struct LinearLayers {
  std::int64_t weights = 0;  // whole
  double down = 0;           // elements of A and B on a rank
  double up = 0;
  std::int64_t inner = 0;  // ranks of all adapters together

  bool adapted() const { return inner > 0; }
};
// The parameters with these indices that are cut along `dim`; adapters have this rank, or 0 for none.
LinearLayers layers_of(const std::vector<ParamSpec>& params, const std::vector<int>& indices,
                       int dim, const PerRank& rank, std::int64_t adapter_rank);

// Tokens of a causal attention without a window that has as many scores as one over `tokens` with the window.
double scored_tokens(double tokens, double window);
// Operations of causal attention, as it is computed: half of QK^T and half of PV, within the window (0: none).
double attention_flops(const config::Model& model, const Sizes& sizes, int tp, std::int64_t window);
// Kept data: beginnings of the documents of attention's tokens, and the cosines and sines of queries and keys, `rotated` a
// token, if these are not the first rows of the table.
std::int64_t document_saved(const Sizes& sizes, const PerRank& rank, std::int64_t rotated);

// Final norm and output layer.
struct TrainedHead {
  std::int64_t statistics = 0;  // of its norm, and gradients of gain and bias
  Gradients gradients{};        // `own` is the norm's
  bool weight = true;           // whether the output layer trains

  bool normed() const { return gradients.input || gradients.own; }
};
Work head_work(const config::Model& model, const Sizes& sizes, const PerRank& rank,
               const TrainedHead& head);

}  // namespace trireme::model
