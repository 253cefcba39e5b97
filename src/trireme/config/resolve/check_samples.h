// Checks of a job's samples: how many a step has, and how many are held out.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Checks a job whose layout is resolved. Throws Error{kUsage} where run.global_batch is no whole number of
// micro-batches of every data-parallel rank.
void check_batch(const Job& job);

// Throws Error{kUsage} where data.validation is neither a fraction nor a number, or nothing is held out to validate on.
void check_validation(const Job& job);

}  // namespace trireme::config
