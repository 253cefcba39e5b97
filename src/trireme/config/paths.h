// The files and directories that a job names.
#pragma once

#include <array>
#include <string>

#include "trireme/config/job.h"

namespace trireme::config {

// All but model.weights and data.tokenizer. Hosts may have them elsewhere: what they hold is compared, not where they lie.
std::array<std::string*, 6> paths_of(Job& job);

}  // namespace trireme::config
