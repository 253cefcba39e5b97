// Settings of NCCL: those of network.nccl, and those that debugging has left in an environment.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::config {

// One name of network.nccl. Its variable is NCCL_ and the name in capitals.
struct NcclSetting {
  std::string_view name;
  std::vector<std::string_view> choices{};  // empty: a number in [least, most], or any text
  bool list = false;                        // several choices, separated by commas; ^ excludes them
  int least = 0, most = -1;                 // a number if most >= least
};
std::span<const NcclSetting> nccl_settings();

// Variables and values of a text such as "algo=Ring,ib_hca=mlx5_0,mlx5_1": a part without = continues the value before
// it. Throws Error{kUsage} for unknown names, repeated names and values that NCCL does not take.
using NcclVariables = std::vector<std::pair<std::string, std::string>>;
NcclVariables nccl_variables(const std::string& text);

// One sentence for each variable of an environment that debugging left over: its value, its cost and the way out.
using Variable = std::function<std::optional<std::string>(const char* name)>;
std::vector<std::string> left_from_debugging(const Variable& variable);

}  // namespace trireme::config
