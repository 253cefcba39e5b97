// OuterJobs: outer steps of islands that are jobs of their own. Codes leave and means come as bytes, between steps and
// outside the groups of the world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/comm/codec/codec.h"
#include "trireme/exec/units/units.h"

namespace trireme::exec {

// Elements of a unit that this rank steps, in whole blocks of codes.
struct OuterPart {
  plan::UnitId unit = -1;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool sends = false;  // of several ranks with these elements, one sends them
};

// How an island's weights follow a merge.
struct OuterMerge {
  enum class Weights {
    kBlend,  // blend * weights + (1 - blend) * outer weights
    kShift,  // + the change of the outer weights
    kAdopt,  // the outer weights
  };
  Weights weights = Weights::kBlend;
  double blend = 0;
  bool sent = false;  // the residual becomes what the last codes left out
  bool lost = false;  // and zero, where that is not known any more
};

class OuterJobs {
 public:
  // `units` outlive it.
  explicit OuterJobs(Units& units) : units_(units) {}

  // Parts that this rank steps of all units with outer weights.
  std::vector<OuterPart> parts() const;
  // Codes of the part's difference to its outer weights, with the noise of the island's number. The rest that they leave
  // out waits for merge().
  std::vector<std::byte> codes(const OuterPart& part, const codec::Draws& draws, int island);
  // The outer step by the mean of a merge. Units::gather_stale() follows.
  void merge(const OuterPart& part, std::span<const std::byte> mean, const OuterMerge& merge);

 private:
  Units& units_;
};

}  // namespace trireme::exec
