// Keys and values that jobs had once: what takes their place.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/config/job.h"

namespace trireme::config {

struct YamlNode;

// The sentence that names the new spelling of a key or the value at which it is fixed; nothing for other keys.
std::optional<std::string> retired(std::string_view key);

// The new spelling of a value that a key took once.
std::optional<std::string> retired_value(std::string_view key, std::string_view value);

// Whether a stored job may still have the key: it names the value that the code has now. `job` holds what was read
// before it.
bool still_holds(const Job& job, std::string_view key, const YamlNode& value);

}  // namespace trireme::config
