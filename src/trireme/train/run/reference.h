// Log-probabilities of the initial weights, with which losses of preferences compare.
#pragma once

#include <functional>
#include <string>

#include "trireme/comm/world.h"
#include "trireme/train/trainer.h"

namespace trireme::train {

// Computes and writes the directory preference.reference of a job that needs it (loaders::needs_reference), unless it
// exists. The micro-batches are
// those of the first epoch, in their layout, so that the first step computes the same bits. A directory that exists is
// compared with the job: Error{kData} if it is of other weights, another model or another compute type. `say` is called
// on rank 0. Collective.
void prepare_reference(const TrainSetup& setup, comm::World& world,
                       const std::function<void(const std::string&)>& say);

}  // namespace trireme::train
