// Descent: unknowns that make weighted errors small, and stay near what is expected of them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace trireme::scoreboard {

// A positive constant, in logarithms.
struct Unknown {
  double at = 0;
  double low = 0, high = 0;
  double expected = 0, spread = 1;
};

// Errors of the observations where unknowns are `at`. With `moved`, only that one is elsewhere than at the last call without it:
// what it does not touch may stay as it was there.
using Errors = std::function<std::vector<double>(const std::vector<double>& at,
                                                 std::optional<std::size_t> moved)>;

// Of one error: a square below 1 %, its absolute value beyond.
double loss(double error);

// Moves the unknowns to where the weighted sum of losses, and 0.07 of half the squares of unknowns' distances to what is
// expected, in spreads, is least: steps of Levenberg (1944) and Marquardt (1963) on squares whose weights make them losses.
// At most so many times errors are asked for.
void descend(std::vector<Unknown>& unknowns, const std::vector<double>& weights,
             const Errors& errors, int trials);

}  // namespace trireme::scoreboard
