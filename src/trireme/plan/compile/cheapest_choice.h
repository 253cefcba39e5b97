// One option for each of many things, within limits: a knapsack of several dimensions.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::plan {

struct Choice {
  double cost = 0;
  std::vector<double> held{};  // of each limit
};

// Which option of each thing, so that together they hold no more than `limits` and cost least, to a billionth of the
// cost, as long as no more than some hundred partial choices are open at a time. Else only the most promising ones are
// followed: what comes back fits, but something cheaper may too. Empty if nothing fits, or nothing was found then that does.
// Lagrangian bounds (Fisher 1981) close partial choices: things that are alike, as the blocks of a model, leave few.
std::vector<std::size_t> cheapest_choice(const std::vector<std::vector<Choice>>& things,
                                         const std::vector<double>& limits);

}  // namespace trireme::plan
