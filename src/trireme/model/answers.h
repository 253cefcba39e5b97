// The end of a decoder with a loss of answers: log-probabilities of tokens, then a loss without parameters.
#pragma once

#include <vector>

#include "trireme/model/account/per_rank.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Value that the head writes: -log p of every target, [samples, tokens], 0 where there is none.
inline constexpr char kTokenLosses[] = "token_losses";
plan::Value token_losses(const Sizes& sizes, const PerRank& rank);

// Inputs of the loss, [samples, tokens] each: codes (config::answer_code), int64, and log-probabilities of the reference,
// fp64. A policy loss has three more in fp64: log-probabilities of the policy that sampled, and of the token's answer the
// advantage and the reward.
std::vector<plan::ValueId> preference_inputs(Graph& graph, const Sizes& sizes);

// The node `preference` after the head. `inputs` as preference_inputs() gave them.
void add_preference_loss(Graph& graph, const Sizes& sizes, plan::ValueId losses,
                         const std::vector<plan::ValueId>& inputs);

}  // namespace trireme::model
