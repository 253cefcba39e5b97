// What follows from the keys of towers, and losses that compare the samples of a batch.
#pragma once

#include <cstdint>

#include "trireme/config/job.h"

namespace trireme::config {

// Whether the tower adds learned positions to its tokens.
bool has_position_table(const Vision& vision);

// Whether a sample's loss depends on the others of its global batch, all of which a loss node must then see.
bool couples_batch(const Job& job);

// Whether such a loss runs once a step, on what all micro-batches of a rank wrote (GradCache, Gao et al. 2021).
bool caches_gradients(const Job& job);

// Samples of a rank that it sees at once. `job` has its mesh and its batches fit that.
std::int64_t samples_of_loss(const Job& job);

// Throws Error{kUsage} where a loss that couples the batch would see less of it. `job` has its mesh.
void check_coupled_batch(const Job& job);

}  // namespace trireme::config
