// Groups of parameters with a learning rate and a weight decay of their own.
#pragma once

#include <optional>
#include <string>

namespace trireme::config {

struct ParamGroup {
  std::string match;   // patterns of parameters or units, with commas between them
  double lr_mult = 1;  // multiplies the learning rate
  std::optional<double> weight_decay{};  // of all its parameters; none: as without the group
  bool operator==(const ParamGroup&) const = default;
};

}  // namespace trireme::config
