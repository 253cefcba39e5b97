// Models: sizes that stand for others, and what a family, its data and its layout must have.
#pragma once

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

// What language models read. Throws Error{kUsage} naming the key.
void resolve_text(Job& job);

// Keys that the family has no use for are left as they are. Throws Error{kUsage}.
void check_idle_keys(const Job& job);

// Requirements of a decoder's model in every family.
void resolve_decoder(Model& model, const DatasetFacts& data);

// The rows of a language model's embedding.
void resolve_vocab(Model& model, const DatasetFacts& data);

// "KEY=24 or KEY=32" for the multiples of `step` around another value.
std::string nearest_multiples(std::string_view key, std::int64_t value, std::int64_t step);

}  // namespace trireme::config
