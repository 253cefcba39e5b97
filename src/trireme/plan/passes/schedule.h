// The order of a stage's forwards and backwards, nothing else yet.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Micro-batch by micro-batch: forward through all nodes, then backward.
List accumulate(const Stage& stage);

// GPipe (Huang et al. 2019): all forwards, then all backwards, micro-batches ascending in both, so
// that gradients are added in the same order as under accumulate.
List gpipe(const Stage& stage);

}  // namespace trireme::plan
