// JSON as events, for texts too large for a tree. One instance of the parser serves all readers.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "trireme/base/json.h"

namespace trireme {

// Calls `reader` for every value of strict JSON; it refuses what it does not expect, and texts that are not JSON.
void read_json(std::string_view text, nlohmann::json_sax<Json>& reader);

}  // namespace trireme
