// Descriptions of job keys, for one key or one section.
#pragma once

#include <string>
#include <string_view>

namespace trireme::config {

// Of "section.name" its line of help_config(), of "section" the lines of all its keys. Throws Error{kUsage} with names that
// are near.
std::string help_of(std::string_view key);

}  // namespace trireme::config
