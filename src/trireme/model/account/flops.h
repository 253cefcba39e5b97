// Model FLOPs, forward and backward: as they are computed, and of a language model's token by each convention of the field.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// N parameters, L layers, H hidden width (C in llm.c), S context length (T in llm.c). The four differ in
// what N leaves out and in whether causal attention counts whole or half.
enum class FlopsConvention {
  kNanoGpt,     // 6N + 12LHS; N without learned positions
  kTorchtitan,  // 6(N - embedding) + 12LHS: without tables that are only looked up
  kLlmC,        // 6N + 6LCT; N is every parameter
  kMegatron,    // 6 x weights of matrix products + 6LHS: attention counted half
};

// "6N + 12LHS", "6(N - embedding) + 12LHS", "6N + 6LCT", "Megatron, causal half": printed next to an MFU.
std::string_view name(FlopsConvention convention);

// Parameters of a language model, whole and without adapters, by role.
struct ParameterCount {
  std::int64_t total = 0;
  std::int64_t embedding = 0;  // the token table; a tied head uses it again
  std::int64_t positions = 0;  // the learned position table
  std::int64_t products = 0;   // weights of matrix products, the head's included
};
// Sums over the parameters that its nodes bind: a node that looks up has the token table first, then that of positions.
ParameterCount count_parameters(const ModelSpec& spec);

// FLOPs per token at context length seq_len of the resolved `model`, which `spec` describes.
double flops_per_token(const ModelSpec& spec, const config::Model& model,
                       FlopsConvention convention);

// Operations in every MFU of a run and of a plan: matrix products and attention, each once, forward and backward. A
// multiply-add counts as two, and causal attention without the scores that its mask hides. As the convention is
// printed.
inline constexpr std::string_view kComputedFlops = "matrix products and attention as computed";

// By node: the model's operations in a step for each operation of the node's forward on a rank.
std::vector<double> flop_factors(const ModelSpec& spec);

// Sets flops_per_token and replicas. `alone` is the program of the same job and the same micro-batch of `samples`, on
// one tp and cp rank. A joint node runs once for all `micro_batches`.
void set_model_flops(ModelSpec& spec, const plan::Program& alone, std::int64_t samples,
                     std::int64_t micro_batches, const PerRank& rank);

}  // namespace trireme::model
