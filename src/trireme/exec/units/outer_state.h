// OuterState: what a rank holds of a unit that islands merge.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/comm/codec/codec.h"
#include "trireme/comm/ticket.h"
#include "trireme/exec/units/flat.h"
#include "trireme/plan/recipe.h"

namespace trireme::exec {

// Slices of a sum on their way to all ranks.
struct ResultOnWay {
  comm::Ticket ticket;
  Flat codes;  // none where slices travel as they are
};

// What islands share of a unit that they merge: this rank's part, in master type.
struct OuterState {
  Flat weights, velocity;
  Flat mean;                 // of the islands' differences, from outer_reduce to outer_step
  comm::Ticket exchange;     // of it
  Flat sent, received;       // codes of differences on their way to owners of slices
  std::int64_t sent_at = 0;  // step in which they left
  std::optional<ResultOnWay> returning{};  // the mean on its way from owners
  codec::Draws draws{};
  std::vector<double>
      square_sums;  // of this island's difference, where the mean gets the norm of all
  Flat residual;    // what codes left out of this island's differences
  Flat
      next_residual;  // and the last ones, if they are merged: of islands that are jobs of their own
};

// velocity = momentum velocity + mean; weights -= lr (mean + momentum velocity), of `count` elements. Every product is
// rounded before it is added.
void step_outer(const OuterState& outer, std::int64_t count, const plan::OuterSteps& steps);

}  // namespace trireme::exec
