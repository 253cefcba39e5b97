// Descriptions of job keys, for one key or one section.
#pragma once

#include <string>
#include <string_view>

namespace trireme::config {

// Line of help_config() for "section.name", or the lines of all keys of "section". Throws Error{kUsage} with names that
// are near.
std::string help_of(std::string_view key);

}  // namespace trireme::config
