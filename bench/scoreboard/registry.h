// Registry: which published tables there are, what is forecast of each, and the bar it is held to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/scoreboard/score.h"

namespace trireme::scoreboard {

// What must hold of a Score; each in the units of the ability's measure.
struct Bar {
  std::optional<double> mape{};     // at most
  std::optional<double> largest{};  // at most
  std::optional<double> ninth{};    // at most
  std::optional<double> tau{};      // at least
  std::optional<double> regret{};   // at most
};

// One forecast quantity of a table.
struct Ability {
  std::string quantity;  // Case::quantity of its cases
  Measure measure = Measure::kPercent;
  bool ranked = false;  // groups are layouts to choose from, the smaller the better
  Bar bar{};            // none: shown, held to nothing
  std::string peer{};  // the best published or measured error of another: "Calculon 3.65, max 8.87"
  std::string null{};  // what Case::null is: "constant HFU"
};

using Scorer = std::function<std::vector<Case>(const Csv&)>;

// A table gives at least one case for every row, if only to say why it is unscored.
struct Table {
  std::string name;  // of the file, without .csv
  std::vector<Ability> abilities;
  Scorer cases;
  // The same cases, forecast by constants that were fitted without the group of each; none: nothing of it is fitted.
  Scorer left_out{};
};

// All tables, in the order of the scoreboard.
std::vector<Table> all_tables();

}  // namespace trireme::scoreboard
