// Scans: sequences that lie one after the other in packed rows, each with a state that decays.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::blocks {

// Which rows begin a sequence: `starts` [rows] is 1 there and else 0; the first row always does.
struct Sequences {
  explicit Sequences(const at::Tensor& starts);
  at::Tensor begin;                  // int64 [rows]: the row in which the row's sequence begins
  at::Tensor position;               // int64 [rows]: within it
  at::Tensor number;                 // int64 [rows]: of the row's sequence, from 0
  std::vector<std::int64_t> bounds;  // rows in which they begin, and one past the last row
  std::int64_t count() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
};

// The recurrence of state space models (Dao and Gu 2024). Each head's state S, [width, state], is zero before a
// sequence: S <- exp(log_decay) S + x in^T, y = S out. Shapes: log_decay [rows, heads], at most 0; x, y [rows, heads,
// width]; in, out [rows, state], the same for all heads. Computes `piece` rows at a time as matrix products, with
// decays in fp64. With `state`, the rows belong to one sequence and continue from that state, which is undefined at the
// beginning. It becomes the state after the last row.
struct Scan {
  at::Tensor log_decay;
  at::Tensor x;
  at::Tensor in;
  at::Tensor out;
};
at::Tensor scan(const Scan& terms, const Sequences& sequences, std::int64_t piece = 128,
                at::Tensor* state = nullptr);

}  // namespace trireme::blocks
