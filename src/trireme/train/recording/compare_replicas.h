// Whether ranks that hold the same still do: memory that has gone bad shows nowhere else.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/exec/units/units.h"
#include "trireme/model/spec.h"

namespace trireme::train {

// Ranks that differ from the most of those that should hold the same.
struct Apart {
  std::vector<int> ranks;  // all of them, where no side has the most
  bool outvoted = false;   // whether one has
  std::string what;        // "block0 exp_avg", the first that differs
  std::int64_t among = 0;  // ranks that hold it
};

// "rank 2 holds another block0 exp_avg than the 3 ranks that should hold the same".
std::string describe(const Apart& apart);

// Compares digests of parameters and optimizer states of every unit among the ranks that hold the same elements, in
// memory or offloaded. Collective; the same on every rank. Empty ranks: all are equal.
Apart compare_replicas(const exec::Units& units, const std::vector<model::UnitSpec>& specs,
                       comm::World& world);

// Digests of all ranks, by subject: the part of compare_replicas that does not communicate.
using Digests = std::vector<std::pair<std::string, std::string>>;
Apart judge_digests(const std::vector<Digests>& ranks);

// Whether any two ranks hold the same. Collective.
bool has_replicas(const exec::Units& units, const std::vector<model::UnitSpec>& specs,
                  comm::World& world);

}  // namespace trireme::train
