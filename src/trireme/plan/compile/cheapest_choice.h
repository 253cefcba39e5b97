// One option for each of many things, within limits: a knapsack of several dimensions.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::plan {

struct Choice {
  double cost = 0;
  std::vector<double> held{};  // of each limit
};

// An option of each thing, so that together they hold no more than `limits` and cost least. The result is optimal to a
// billionth of the cost, as long as at most some hundred partial choices are open at a time. Beyond that only the most
// promising ones are followed: the result fits, but something cheaper may too. Empty if nothing fits, or if that search
// found nothing that fits. Lagrangian bounds (Fisher 1981) close partial choices: equal things, such as the blocks of a
// model, leave few.
std::vector<std::size_t> cheapest_choice(const std::vector<std::vector<Choice>>& things,
                                         const std::vector<double>& limits);

}  // namespace trireme::plan
