// GPT-2 as data.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/families/decoders/chain.h"
#include "trireme/model/graph.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// GPT-2 (Radford et al. 2019): learned positions, layer norm before each branch, biases, tanh-GELU.
//
// Units and nodes are `embed`, `block.0` .. `block.L-1` and `head`, the loss; a tied head also uses unit `embed`. The
// adapters of a block's layers are a unit of their own, `block.0.lora`. Inputs are `tokens` and `targets`, int64
// [micro_batch, seq_len / cp]; a target of -100 is no target. Parameters have Hugging Face's names. Matrices are stored
// [out, in], which for c_attn, c_proj and c_fc is the transpose of Hugging Face's files. `model` is resolved.
ModelSpec gpt_spec(const config::Model& model, const PerRank& rank, const Training& training = {});

// The table of tokens, the first parameter of the unit that embeds.
ParamSpec gpt_embedding(const config::Model& model);

// Adds blocks and head after another family's embedding; queries and keys turn with its positions instead of learned
// ones.
void gpt_after(Graph& graph, const config::Model& model, const Embedded& embedded);

}  // namespace trireme::model
