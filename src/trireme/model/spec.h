// ModelSpec: an architecture as data, without LibTorch: its parameters, units and program.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/quantised.h"
#include "trireme/config/optimizers.h"
#include "trireme/model/cut.h"
#include "trireme/model/layers/layer.h"
#include "trireme/model/layers/operation.h"
#include "trireme/plan/program.h"

namespace trireme::model {

struct Init {
  // The last two are Mamba-2's: the logarithm of a uniform draw, and the value whose softplus is log-uniform.
  enum class Kind {
    kZeros,
    kOnes,
    kNormal,
    kConstant,
    kIdentity,
    kUniform,
    kLogOfUniform,
    kStepOfLogUniform
  } kind = Kind::kZeros;
  double std = 0;    // kNormal
  double value = 0;  // kConstant
  double low = 0,
         high = 0;  // bounds of uniform draws; of kStepOfLogUniform, bounds of the softplus
};

// Values that a parameter may have. An update that leaves them ends at the nearer bound.
struct Bounds {
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();

  bool operator==(const Bounds&) const = default;
};

// One parameter tensor. Names follow Hugging Face where the family exists there.
struct ParamSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  Init init;
  double decay = 1;  // multiplies the weight decay: 0 for tensors of fewer than two dimensions
  Cut cut{};
  double lr = 1;  // multiplies the learning rate
  Bounds bounds{};
  // A weight, [rows, columns]: this parameter, [rows], begins with the norms of its rows instead of `init`.
  std::shared_ptr<const ParamSpec> norms_of{};
  // A frozen matrix, of whose rows this parameter of bytes, [rows, row_bytes], is the stored form.
  std::shared_ptr<const ParamSpec> matrix{};
  RowForm form = RowForm::kFull;

  std::int64_t numel() const;
};

// The parameters of one unit, whole, in canonical order; offsets are running sums.
struct UnitSpec {
  std::string name;
  std::vector<ParamSpec> params;
  config::Optimizer optimizer = config::Optimizer::kAdamW;  // of one that trains

  std::int64_t numel() const;
};

// Parameters of two dimensions, as sums at low rank take them.
std::vector<plan::Matrix> matrices_of(const UnitSpec& unit);

struct ParamRef {
  plan::UnitId unit = -1;
  int param = -1;
};

// Everything about a model that plan, planner, checkpoint and loader need. The program is one rank's, in
// its share of tokens and parameters; units are the whole model's.
struct ModelSpec {
  plan::Program program;
  std::vector<UnitSpec> units;  // parallel to program.units
  std::vector<std::vector<ParamRef>>
      node_params;  // parallel to program.nodes: what each block binds
  // The same: indices of weights with an adapter, whose parameters (Training::adapter_params) follow the node's other
  // ones, in this order.
  std::vector<std::vector<int>> adapted;
  // The same: a block that runs layers one by one has them here.
  std::vector<std::vector<Layer>> layers;
  // The same: what it computes, as far as its family says. Empty: its products are those of its matrices.
  std::vector<std::vector<Operation>> operations;
  // The same: its block works on a cp rank's rows of its first input and first result (model/spread.h).
  std::vector<bool> row_wise;
  // Counts of a loss node in addition to its loss, in their order (exec::Counts).
  std::vector<std::string> metrics;
  std::int64_t sample_tokens = 0;  // that a sample counts as in rates
  // Operations of a token's forward and backward: matrix products and attention of the most rows there can be. The
  // layout changes nothing.
  double flops_per_token = 0;
  // Parallel to program.nodes: how many tp and cp ranks compute the same products of a node. Empty: one.
  std::vector<double> replicas;

  std::int64_t parameters() const;
};

}  // namespace trireme::model
