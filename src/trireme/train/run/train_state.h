// TrainState: state that a run carries from step to step in addition to its tensors; checkpoints keep it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/data/loaders/left_out.h"
#include "trireme/launch/islands/island.h"
#include "trireme/optim/loss_scaler.h"
#include "trireme/train/run/spike.h"

namespace trireme::train {

// Work before a run by earlier runs whose optimizer states it continues.
struct Earlier {
  std::int64_t steps = 0;
  std::int64_t updates = 0;
  bool operator==(const Earlier&) const = default;
};

struct TrainState {
  std::int64_t updates = 0;  // of parameters: steps less those that were skipped
  Earlier earlier{};
  std::optional<optim::LossScaler::State> loss_scale{};
  std::int64_t non_finite = 0;  // steps in a row up to now that were not, and were skipped for it
  loaders::LeftOut left_out{};  // batches, because of spikes
  SpikeState spikes{};
  std::int64_t merged = 0;  // last step of a run of islands, after which nothing is on its way
  islands::IslandState island{};  // of a job that is an island
  bool operator==(const TrainState&) const = default;
};

// A JSON object.
std::string print(const TrainState& state);
// Inverse of print; throws Error{kData} naming `what`. State of a checkpoint from before states existed, after `steps`
// steps.
TrainState parse_train_state(const std::string& text, std::int64_t steps, const std::string& what);

}  // namespace trireme::train
