// Sources of synthetic clips, with the further inputs of each family.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

// Clips with these numbers of data.source=squares and, except for families with masks, the directions of their squares,
// int64.
std::vector<at::Tensor> squares(const config::Job& job, std::span<const std::int64_t> numbers);

// Clips of data.source=squares: for families jepa and hvjepa with the masks of each, else with the direction in which the squares move.
Sources open_squares(const config::Job& job);
// The same of a user's clips, data.source=clips, and their classes.
Sources open_clips(const config::Job& job, Evaluated evaluated);
// Clips of data.source=arm with actions and states.
Sources open_arm(const config::Job& job);

// Context, its bounds, targets and their bounds of `count` samples from the order's `first` on, as inputs of
// model::jepa_spec. Masks depend on the key and the sample's place in this order.
std::vector<at::Tensor> packed_masks(const config::Job& job, std::uint64_t key, std::int64_t first,
                                     std::int64_t count);
// Takes the targets from the `sample`-th of such masks, which then has no loss: it only fills up a batch.
void forget_targets(std::span<at::Tensor> masks, std::int64_t sample);

}  // namespace trireme::loaders
