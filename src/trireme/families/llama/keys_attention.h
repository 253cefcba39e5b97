// What follows from section `llama` of a job.
#pragma once

#include "trireme/config/job.h"
#include "trireme/config/rope.h"

namespace trireme::config {

// By which attention's scores are multiplied in addition to 1 / sqrt(head width); 1 for families other than llama.
double score_factor(const Job& job);

// Rotary positions of a resolved decoder's layers, and of those with a window.
Rope rope_of(const Job& job);
Rope sliding_rope_of(const Job& job);

}  // namespace trireme::config
