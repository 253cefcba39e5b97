// The data sets that a job reads: one, or several with weights.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

struct DataSet {
  std::string path;
  double share = 1;  // of the training samples; all shares add up to 1
};

// data.path and data.weights: without weights data.path is one data set, with them a list with commas. Throws
// Error{kUsage} naming the key.
std::vector<DataSet> data_sets(const Data& data);

}  // namespace trireme::config
