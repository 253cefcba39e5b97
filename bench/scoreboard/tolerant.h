// Rows that cannot be read cost themselves, not the table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/scoreboard/registry.h"

namespace trireme::scoreboard {

// A row and why it is left out.
struct Refusal {
  std::size_t row = 0;
  std::string why;
};

// A table without the rows that `use` throws an Error for when it is given them alone; all of it where it takes them
// together. Errors of our own (kInternal) pass through.
struct Sifted {
  Csv rows;
  std::vector<Refusal> refused;
};
Sifted sift(const Csv& csv, const std::function<void(const Csv&)>& use);

// The same cases, and for a row that is refused one of `quantity` that says why it is unscored.
Scorer tolerant(Scorer cases, std::string quantity);

}  // namespace trireme::scoreboard
