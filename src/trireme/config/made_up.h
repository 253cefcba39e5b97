// Sources whose samples are made up on the way, of no file.
#pragma once

#include <string>

#include "trireme/config/job.h"

namespace trireme::config {

// Language made up for trials, of 256 ids.
bool is_made_up_text(DataSource source);
// What stands for its content in checkpoints.
std::string made_up_digest(const Data& data);

}  // namespace trireme::config
