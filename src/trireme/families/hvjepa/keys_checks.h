// Chunks of clips: what their tower must have.
#pragma once

#include <vector>

#include "trireme/config/rules/rule.h"

namespace trireme::config {

std::vector<Rule> chunk_rules();
// A family's frozen tower of clips, which may make chunks.
std::vector<Rule> frozen_tower_rules();

}  // namespace trireme::config
