// Which keys of a job belong to which families of models.
#pragma once

#include <string_view>

#include "trireme/config/job.h"

namespace trireme::config {

// As model.family spells it.
std::string_view name(Family family);

// Whether a family has a use for the key, "section.name". Keys of no family's own are every family's.
bool uses(Family family, std::string_view key);

}  // namespace trireme::config
