// Cluster files: what hardware.h holds, as YAML (docs/clusters.md), and the clusters that come with Trireme.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/planner/hardware/hardware.h"

namespace trireme::planner {

// Reads the text of a cluster file; `like` and a GPU's name refer to shipped files. Throws Error{kUsage} as
// "WHAT:LINE:COLUMN: KEY: value seen; value needed". Causes: unknown and missing keys, impossible numbers, tiers that
// do not nest, and prices that contradict each other.
Cluster parse_cluster(std::string_view text, const std::string& what);

// Reads the file of that path if it exists, a cluster file or a calibration (machine.h), else the shipped cluster of
// that name. Throws Error{kUsage} with the existing names.
Cluster find_cluster(const std::string& name_or_path);

// The shipped GPU of that name; throws Error{kUsage} with the names there are.
Gpu find_gpu(const std::string& name);

std::vector<std::string> shipped_clusters();
std::vector<std::string> shipped_gpus();

// The cluster with as many hosts as the table has, and between them links that are as slow as its slowest where a group
// is not on all of them.
Cluster with_links(Cluster cluster, algorithm::Links links);

}  // namespace trireme::planner
