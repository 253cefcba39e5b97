// Llama and the models that differ little from it, as data.
#pragma once

#include <cstddef>
#include <functional>

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/families/decoders/chain.h"
#include "trireme/model/graph.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// Llama (Touvron et al. 2023): rotary positions, RMS norm before each branch, SwiGLU, grouped-query attention, no
// biases. Where the job says so: biases, Qwen3's RMS norm of each head's queries and keys, heads of any width, and what
// section `llama` has of OLMo, Gemma, Phi and Granite. Units and inputs as of GPT-2 (families/gpt/model.h).
ModelSpec llama_spec(const config::Job& job, const PerRank& rank, const Training& training = {});

// The table of tokens, the first parameter of the unit that embeds.
ParamSpec llama_embedding(const config::Model& model);

// Adds blocks and head after another family's embedding. `after_block`, if any, may add nodes after a block with the result [samples, tokens,
// hidden]; it returns the input of the next one.
using AfterBlock = std::function<plan::ValueId(std::size_t block, plan::ValueId written)>;
void llama_after(Graph& graph, const config::Job& job, const Embedded& embedded,
                 const AfterBlock& after_block = {});

}  // namespace trireme::model
