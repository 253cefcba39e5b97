// Keys that make Llama's relatives of it, for tests on small models.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme::harness {

inline const std::map<std::string, std::vector<std::string>> kRelatives = {
    {"olmo", {"llama.norms=after", "model.qk_norm=true", "llama.whole_qk_norm=true"}},
    {"gemma",
     {"llama.norms=both", "model.qk_norm=true", "llama.gains_from_one=true", "llama.gate=gelu_tanh",
      "llama.embedding_multiplier=11"}},
    {"gemma2",
     {"llama.norms=both", "llama.gains_from_one=true", "llama.gate=gelu_tanh",
      "llama.attention_cap=2", "llama.logits_cap=3"}},
    {"biased",
     {"model.qkv_bias=true", "llama.output_bias=true", "llama.feed_forward_bias=true",
      "llama.residual_multiplier=0.5"}},
    {"granite",
     {"llama.embedding_multiplier=12", "llama.residual_multiplier=0.22",
      "llama.attention_multiplier=0.05", "llama.logits_divisor=8"}}};

}  // namespace trireme::harness
