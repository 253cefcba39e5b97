// Frozen matrices of a described model in a stored form (lora.base).
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// Moves the frozen matrices of linear layers in blocks with adapters to units of bytes, "block.0.nf4", whose parameters
// keep their names. A block that trains (lora.also) keeps its matrices. Throws Error{kUsage} for rows that blocks of the
// form do not divide.
void store_base(const config::Job& job, ModelSpec& spec);

}  // namespace trireme::model
