// Vision towers, alone and with a text tower: requirements on sizes, data and layout.
#pragma once

#include <cstdint>
#include <string_view>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

// Sizes of the tower that images go through. Throws Error{kUsage} naming the key.
void resolve_vision(Vision& vision);

// Whether the tower adds learned positions to its tokens.
bool has_position_table(const Vision& vision);

// Sets `classes` to the number in the data where it is 0. Throws Error{kUsage} if the data have more.
void resolve_classes(Vision& vision, const DatasetFacts& data);

// Throws Error{kUsage} unless `part` divides `whole`, and where tp ranks would have less than one of `count` parts.
void must_divide(std::string_view whole, std::int64_t value, std::string_view part,
                 std::int64_t divisor);
void check_shared(const Job& job, std::string_view key, std::int64_t count);

// Keys of `data` and `recompute` that are of text and its models. Throws Error{kUsage}.
void check_text_keys(const Job& job);

// Throws Error{kUsage} unless data.source is the one of the two that makes `what` up, or the one that reads it from files.
void check_reads(const Job& job, DataSource made, DataSource files, std::string_view what);

// Whether a sample's loss depends on the others of its global batch, all of which a loss node must then see.
bool couples_batch(const Job& job);

// Whether such a loss runs once a step, on what all micro-batches of a rank wrote (GradCache, Gao et al. 2021).
bool caches_gradients(const Job& job);

// Samples of a rank that it sees at once. `job` has its mesh and its batches fit that.
std::int64_t samples_of_loss(const Job& job);

// Throws Error{kUsage} where a loss that couples the batch would see less of it. `job` has its mesh.
void check_coupled_batch(const Job& job);

}  // namespace trireme::config
