// Keys of config.json that Llama and its relatives share.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/config/layer_attention.h"

namespace trireme::convert {

inline constexpr std::array kLlamaSizes = {
    Size<config::Model>{"num_hidden_layers", &config::Model::layers, 0, kMostLayers},
    Size<config::Model>{"hidden_size", &config::Model::hidden},
    Size<config::Model>{"num_attention_heads", &config::Model::heads},
    Size<config::Model>{"intermediate_size", &config::Model::ffn},
    Size<config::Model>{"max_position_embeddings", &config::Model::seq_len},
    Size<config::Model>{"vocab_size", &config::Model::vocab}};

inline constexpr const char* kSilu = "silu";

// Defaults of a class. 0 stands for as many key-value heads as heads, and for heads of hidden / heads channels.
struct Defaults {
  std::int64_t kv_heads = 0, width = 0;
  bool tied = false;
  double theta = 10000;
};

// Sizes, norms and rotary positions; not the activation.
void read_rotary_decoder(const formats::JsonFields& fields, const Defaults& defaults,
                         config::Model& model, const RopeKeys& rope = {});
void write_rotary_decoder(const config::Model& model, Json& json);

// Layers with a window, 0 for none: by layer_types, or where a file has none, those that slide.
std::vector<config::LayerAttention> sliding_layers(const formats::JsonFields& fields,
                                                   const config::Model& model, std::int64_t window,
                                                   const std::function<bool(std::int64_t)>& slides);

// Layers that attend in ways that a class has no keys for.
void as_full_attention(config::Job& job);

// Biases that a class has keys for: of all four layers of attention at once, and of the feed-forward part.
enum class BiasKeys { kNone, kAttention, kAll };
void read_biases(const formats::JsonFields& fields, BiasKeys keys, config::Job& job);
void write_biases(const config::Job& job, BiasKeys keys, Json& json);

// A decoder without norms of heads, partial rotation and lists of rotary factors, which has of section `llama` no more
// than `own` and these biases.
void as_decoder(config::Job& job, BiasKeys biases, config::Llama own = {});

// OLMo 2 and 3, Gemma 2 and 3, and Granite, which have keys of section `llama`.
std::vector<HuggingFaceClass> llama_relatives();

}  // namespace trireme::convert
