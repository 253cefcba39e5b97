// Checks of precision.group, the micro-batches that canonical sums add in a row.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// Checks a job whose layout is resolved. Throws Error{kUsage} where precision.group is not 0 and a rank's micro-batches
// are no multiple of it, or sums are fast.
void check_group(const Job& job);

// Remarks about groups that have other bits than on other layouts.
void note_groups(const Job& job, std::vector<std::string>& remarks);

}  // namespace trireme::config
