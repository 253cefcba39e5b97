// The list of optimizers, what is known of one before anything exists, and groups of parameters.
#pragma once

#include <optional>
#include <string>

// Each with its name, optim.name's spelling, the tensors of state that a parameter has, and what an update of an element
// needs: that element, or the whole matrix. The source of each defines make_<spelling> (optim/make_optimizer.h).
#define TRIREME_OPTIMIZERS(OPTIMIZER)  \
  OPTIMIZER(AdamW, adamw, 2, kElement) \
  OPTIMIZER(Lion, lion, 1, kElement)   \
  OPTIMIZER(Muon, muon, 1, kMatrix)

namespace trireme::config {

#define OPTIMIZER(name, key, states, grain) k##name,
enum class Optimizer { TRIREME_OPTIMIZERS(OPTIMIZER) };
#undef OPTIMIZER

enum class Grain { kElement, kMatrix };

struct OptimizerInfo {
  Optimizer optimizer;
  const char* key;
  int states;
  Grain grain;
  bool by_matrix() const { return grain == Grain::kMatrix; }
};

#define OPTIMIZER(name, key, states, grain) {Optimizer::k##name, #key, states, Grain::grain},
inline constexpr OptimizerInfo kOptimizers[] = {TRIREME_OPTIMIZERS(OPTIMIZER)};
#undef OPTIMIZER

inline const OptimizerInfo& info(Optimizer optimizer) {
  return kOptimizers[static_cast<int>(optimizer)];
}

// Elements of a unit that no matrix optimizer takes have this one.
inline constexpr Optimizer kElementwise = Optimizer::kAdamW;

// Newton-Schulz iterations, which bring the singular values of a matrix near 1: by which coefficients.
enum class NewtonSchulz { kSimple, kQuintic, kPolar };
// How long an orthogonalised update is: of A x B, its root mean square is 0.2 as of AdamW, or its
// spectral norm sqrt(max(1, A / B)).
enum class UpdateScale { kMatchRms, kOriginal };

struct MuonSettings {
  double momentum = 0.95;
  NewtonSchulz newton_schulz = NewtonSchulz::kSimple;
  UpdateScale update_scale = UpdateScale::kMatchRms;
  bool operator==(const MuonSettings&) const = default;
};
inline constexpr int kNewtonSchulzRounds = 5;

// Parameters with a learning rate, a weight decay and perhaps an optimizer of their own.
struct ParamGroup {
  std::string match;   // patterns of parameters or units, with commas between them
  double lr_mult = 1;  // multiplies the learning rate
  std::optional<double> weight_decay{};  // of all its parameters; none: as without the group
  std::optional<Optimizer> name{};       // none: as without the group
  bool operator==(const ParamGroup&) const = default;
};

}  // namespace trireme::config
