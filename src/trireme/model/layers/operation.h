// Operation: a step of what a node computes, on one rank and for one micro-batch. Its kernels depend on the program that
// computes it: the planner lowers operations to those of a practice (planner/cost/layer_kernels.h).
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace trireme::model {

struct Operation {
  enum class What : std::uint8_t {
    kProduct,    // of a linear layer: [rows, in] x [in, sum of outs]
    kAdapter,    // of one of its weights: [rows, in] x [in, inner] x [inner, outs[0]]
    kMagnitude,  // of one of its weights, outs[0] rows of `in`: their norms, with `inner` ranks of its adapter added, and
                 // `rows` of its results times magnitude / norm
    kLogits,     // kProduct of the output layer
    kAttention,  // of `rows` queries, in sequences of `tokens`
    kLayerNorm,  // of rows of `in` numbers, as all below
    kRmsNorm,
    kActivation,     // in one kernel
    kQuickGelu,      // by several
    kGate,           // activation(gate) * up, each `in` wide
    kRotation,       // of queries and keys, together `in` wide
    kSplitRotation,  // the same where they come side by side with values
    kSplit,          // tensors that come side by side, together `in` wide
    kSum,            // of the residual stream and a branch
    kLookUp,         // of a table with `outs[0]` rows
    kLoss,           // last norm, and the loss of `outs[0]` logits of each of `tokens`
    kComparison,     // a loss of answers
    kSmall           // others, by many small operators
  };
  What what = What::kSum;
  double rows = 0;  // the most there may be
  double in = 0;
  std::vector<double> outs{};  // by matrix, if each result had its own
  double inner = 0;
  double bias = 0;      // numbers that sum up to the gradient of its bias
  bool trains = false;  // its weights do
  bool wide = false;    // an activation reads its results (part mlp)
  bool drops = false;   // in training, of its results some are dropped
  double tokens = 0;
  double window = 0;  // tokens that a query sees, its own included; 0: all
  double keys = 0;    // that it sees however many tokens there are; 0: the tokens
  double heads = 0;
  double width = 0;     // of a head
  bool causal = false;  // a token sees none after it
  bool capped = false;  // scores, or logits, go through a tanh

  auto operator<=>(const Operation&) const = default;

  double out() const {
    double all = 0;
    for (const double one : outs) all += one;
    return all;
  }
};

}  // namespace trireme::model
