// Samples of a user's files that could not be used, told once each.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "trireme/comm/world.h"
#include "trireme/data/source.h"
#include "trireme/train/callbacks.h"

namespace trireme::train {

class BadSamples {
 public:
  // All of them must outlive it.
  BadSamples(const data::Sources& sources, comm::World& world, const Callbacks& callbacks)
      : sources_(sources), world_(world), callbacks_(callbacks) {}

  // Those that any rank has come across and that were not told: the first kNamed as a fault each, with file and cause,
  // and how many there are of the others. Collective.
  void tell(std::int64_t step);

  static constexpr std::size_t kNamed = 100;

 private:
  const data::Sources& sources_;
  comm::World& world_;
  const Callbacks& callbacks_;
  std::set<std::string> told_;
};

}  // namespace trireme::train
