// Decoder-only language models as data: GPT-2 and Llama.
#pragma once

#include <cstdint>
#include <functional>

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
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

// Llama (Touvron et al. 2023): rotary positions, RMS norm before each branch, SwiGLU, grouped-query attention, no
// biases. Where the job says so: Qwen2's biases of queries, keys and values, Qwen3's RMS norm of each head's queries
// and keys, heads of any width, and what section `llama` has of OLMo, Gemma and Granite. Layout and inputs as above.
ModelSpec llama_spec(const config::Job& job, const PerRank& rank, const Training& training = {});

// The table of tokens, the first parameter of the unit that embeds.
ParamSpec gpt_embedding(const config::Model& model);
ParamSpec llama_embedding(const config::Model& model);

// The embedding from another family's nodes: x as unit `embed` would write it, the unit whose first parameter a tied
// head shares, and further inputs.
struct Embedded {
  plan::ValueId x = -1;
  plan::ValueId targets = -1;
  plan::ValueId positions = -1;
  plan::UnitId unit = -1;
};
// Adds blocks and head of Llama. `after_block`, if any, may add nodes after a block with the result [samples, tokens,
// hidden]; it returns the input of the next one.
using AfterBlock = std::function<plan::ValueId(std::size_t block, plan::ValueId written)>;
void llama_after(Graph& graph, const config::Job& job, const Embedded& embedded,
                 const AfterBlock& after_block = {});
// The same of GPT-2, whose queries and keys turn with `positions` instead of learned ones.
void gpt_after(Graph& graph, const config::Model& model, const Embedded& embedded);

}  // namespace trireme::model
