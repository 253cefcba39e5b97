// ChunkGradient: a unit's gradient in one of the rank's chunks, from micro-batches to the step's sum.
#pragma once

#include <utility>
#include <vector>

#include "trireme/exec/units/gradient_counter.h"

namespace trireme::exec {

// Sum over micro-batches in one of the rank's chunks, in the gradient type.
struct ChunkGradient {
  Flat leaf;                    // of one micro-batch
  GradientCounter counter;      // full, or parts where every micro-batch is reduced
  unsigned away = 0;            // levels of it outside memory, bit by bit
  Flat sum{};                   // the step's, as far as it is reduced
  std::vector<Flat> senders{};  // complete sums that a coded reduction keeps apart

  // Adds a micro-batch's gradient; after `sender_mbs` of them the sum is complete (0: never).
  void push(Flat gradient, int sender_mbs) {
    counter.push(std::move(gradient));
    if (counter.pushed() == sender_mbs) senders.push_back(counter.collapse());
  }
  // The sums that a coded reduction takes, in order; leaves nothing.
  std::vector<Flat> sender_sums() {
    if (senders.empty()) senders.push_back(std::exchange(reduced(/*each_mb=*/false), Flat()));
    return std::exchange(senders, {});
  }
  // Scope of a reduction: one micro-batch, or the step, whose sum leaves the counter.
  Flat& reduced(bool each_mb) {
    if (!each_mb && !sum && !counter.empty()) sum = counter.collapse();
    return each_mb ? leaf : sum;
  }
};

}  // namespace trireme::exec
