// What follows from section `llama` of a job.
#pragma once

#include "trireme/config/job.h"
#include "trireme/config/rope.h"

namespace trireme::config {

// By which attention's scores are multiplied in addition to 1 / sqrt(head width); 1 for families other than llama.
double score_factor(const Job& job);

// Rotary positions of layers with a window of a resolved decoder; those of other layers are rope_of's.
Rope sliding_rope_of(const Job& job);

}  // namespace trireme::config
