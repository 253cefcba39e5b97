// JSON for everything Trireme writes and reads; include <nlohmann/json.hpp> in the .cc that uses it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

using Json = nlohmann::ordered_json;

// Parses strict JSON from untrusted text: rejects duplicate keys, nesting deeper than 64, trailing
// bytes and invalid UTF-8. Throws Error{kData}, the message starting with `what` (a file name).
Json parse_json(std::string_view text, const std::string& what);

}  // namespace trireme
