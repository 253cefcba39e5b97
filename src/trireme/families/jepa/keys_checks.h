// Rules of families that are trained as V-JEPA 2.
#pragma once

#include <vector>

#include "trireme/config/rules/rule.h"

namespace trireme::config {

std::vector<Rule> jepa_rules();

}  // namespace trireme::config
