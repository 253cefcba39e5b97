// Transients: memory of a language model's nodes while they run, in addition to the plan's own count.
#pragma once

#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/work.h"
#include "trireme/plan/program.h"

namespace trireme::model {

// Tensors that models/ and ops/ make on the way and that are gone when the line ends; for one thread a rank.
// `has_positions`: rows of a table of positions are added to an embedding; `scaled`: it is multiplied.
plan::NodeWork embed_transients(const config::Model& model, const Sizes& sizes, const PerRank& rank,
                                bool has_positions = false, bool scaled = false);
plan::NodeWork head_transients(const config::Model& model, const Sizes& sizes, const PerRank& rank,
                               const TrainedHead& trained);

}  // namespace trireme::model
