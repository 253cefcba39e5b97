// An answer as text and as JSON. docs/planner.md has the keys of the JSON.
#pragma once

#include <optional>
#include <string>

#include "trireme/base/json.h"
#include "trireme/planner/search/report/spending.h"
#include "trireme/planner/search/search.h"

namespace trireme::planner {

// Layout, time and memory of the best option alone.
std::string best_text(const Answer& answer);
std::string answer_text(const Answer& answer, const std::optional<Spending>& spending);
Json answer_json(const Answer& answer, const std::optional<Spending>& spending);

}  // namespace trireme::planner
