// Coded sums of gradients: keys that fit together.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

bool codes_sums(const Job& job);
// Senders of a resolved job that codes sums.
int senders(const Job& job);

// Throws Error{kUsage} if the layout or precision of a resolved job has no coded sums.
void check_network(const Job& job);

}  // namespace trireme::config
