// TensorBoard event files in RUNDIR.
#pragma once

#include <memory>

#include "trireme/train/callbacks.h"

namespace trireme::train {

// Scalars train/{loss,grad_norm,lr,tokens_per_s,step_ms,mfu,rss_mb,...}, validation/{loss,bits_per_byte} and the
// model's own metrics under both, the loss with its name and unit; one file for each start of the run. Steps that a
// rewind discards disappear from TensorBoard too. Throws Error{kData} when it cannot be written.
std::unique_ptr<Callback> tensorboard_callback();

}  // namespace trireme::train
