// LowRankState: what a rank holds of a unit whose sums travel as factors.
#pragma once

#include <vector>

#include "trireme/comm/ticket.h"
#include "trireme/exec/units/flat.h"

namespace trireme::exec {

struct LowRankState {
  Flat
      start;  // Q of all matrices, with which a step begins: plan::LowRank::starts; zeros are drawn
  Flat next_start;  // of this step, which an update puts in its place
  // While sums are on their way.
  std::vector<Flat> sums;  // of own senders, with residuals; gradients again where they are dense
  Flat matrices;           // or the matrices that this rank owns of a sum whose shards ranks have
  Flat factors;            // P and Q of all matrices
  Flat products;           // of each own sender: its part of P, then of Q
  Flat
      first;  // what travels as it is, then P of own matrices: one message where ranks get the whole sum
  Flat dense_part;  // of the former, what comes to this rank's shard
  comm::Ticket dense_reduce;
  double scale = 1;  // of the gradients
};

}  // namespace trireme::exec
