// The files of clusters/ as they were when the library was built.
#pragma once

#include <span>
#include <string_view>

namespace trireme::planner {

struct ShippedFile {
  std::string_view name;  // without .yaml
  std::string_view text;
};

// In alphabetical order.
std::span<const ShippedFile> shipped_cluster_files();
std::span<const ShippedFile> shipped_gpu_files();

}  // namespace trireme::planner
