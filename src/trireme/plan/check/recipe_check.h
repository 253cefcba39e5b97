// Numbers of a recipe that no plan can have.
#pragma once

#include <optional>
#include <string>

#include "trireme/plan/recipe.h"

namespace trireme::plan {

// The first mistake with the way out; none in a recipe that is sound by itself.
std::optional<std::string> mistake_in(const Recipe& recipe);

}  // namespace trireme::plan
