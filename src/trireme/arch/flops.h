// Model FLOPs of one trained token, forward and backward, by each convention the field prints.
#pragma once

#include <cstdint>
#include <string_view>

#include "trireme/arch/per_rank.h"
#include "trireme/arch/spec.h"
#include "trireme/config/job.h"

namespace trireme::arch {

// N parameters, L layers, H hidden width (C in llm.c), S context length (T in llm.c). The four differ in
// what N leaves out and in whether causal attention counts whole or half.
enum class FlopsConvention {
  kNanoGpt,     // 6N + 12LHS; N without learned positions
  kTorchtitan,  // 6(N - embedding) + 12LHS: without tables that are only looked up
  kLlmC,        // 6N + 6LCT; N is every parameter
  kMegatron,    // 6 x weights of matrix products + 6LHS: attention counted half
};

// "6N + 12LHS", "6(N - embedding) + 12LHS", "6N + 6LCT", "Megatron, causal half": printed beside an MFU.
std::string_view name(FlopsConvention convention);

// Counted parameters of a resolved model, by role.
struct ParameterCount {
  std::int64_t total = 0;
  std::int64_t embedding = 0;  // the token table; a tied head uses it again
  std::int64_t positions = 0;  // the learned position table
  std::int64_t products = 0;   // weights of matrix products, the head's included
};
ParameterCount count_parameters(const config::Model& model);

// FLOPs per token at context length seq_len; `model` is resolved.
double flops_per_token(const config::Model& model, FlopsConvention convention);

// Sets flops_per_token and its convention: 6N + 12LHS of `model`, of which 2N + 4LHS are forward; gradients of
// activations count 2N + 8LHS where a gradient goes, those of parameters 2N where they train.
void set_flops_per_token(ModelSpec& spec, const config::Model& model);

// The same of any model: what its nodes compute, whole, of a token of `sample_tokens` to a sample. A joint node does so
// once for all `micro_batches`.
void set_flops_of_nodes(ModelSpec& spec, const PerRank& rank, std::int64_t micro_batches = 1);

}  // namespace trireme::arch
