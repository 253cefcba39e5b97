// Outer steps in the text of a recipe.
#pragma once

#include <optional>
#include <string>

#include "trireme/plan/recipe.h"
#include "trireme/plan/text/text_line.h"

namespace trireme::plan {

// "" for none.
std::string print_outer(const std::optional<OuterSteps>& outer);
// Eats them if they come next. Throws Error for a codec that does not exist.
std::optional<OuterSteps> parse_outer(Line& line);

}  // namespace trireme::plan
