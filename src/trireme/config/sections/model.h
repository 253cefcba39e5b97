// Sections of a job that say what the model is, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "trireme/config/sections/activation.h"
#include "trireme/config/sections/lora.h"

namespace trireme::config {

// Those of cmake/families.cmake; each has a record, config/families.h.
enum class Family {
#define TRIREME_FAMILY(name, id) id,
#include "trireme/families/keys.inc"
#undef TRIREME_FAMILY
};

// In a resolved job no size is 0 any more.
struct Model {
  Family family{};  // gpt
  std::int64_t layers = 2;
  std::int64_t hidden = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;     // 0: as many as heads
  std::int64_t head_dim = 0;     // 0: hidden / heads
  bool qkv_bias = false;         // of queries, keys and values (Qwen2)
  bool qk_norm = false;          // of every query and key (Qwen3)
  std::string attention_layers;  // config/layer_attention.h; empty: all attend to everything before
  std::int64_t ffn = 0;          // 0: 4 * hidden (gpt), SwiGLU's two thirds of it (llama)
  std::int64_t vocab = 0;        // 0: the dataset's
  std::int64_t seq_len = 32;
  bool tied = true;
  double dropout = 0;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  std::string rope_scaling;  // config/rope.h; empty: none
  double init_std = 0.02;
  std::string frozen;   // patterns of units
  std::string weights;  // a checkpoint; empty: initial values are drawn
  bool operator==(const Model&) const = default;
};

// Vision towers: keys of the section are of every family that has one.
enum class Positions { kLearned, kRotary, kRotaryCompat, kLearnedRotary };
enum class Pooling { kMean, kClass, kAttention };

struct Vision {
  std::int64_t image = 32;   // pixels a side
  std::int64_t patch = 8;    // pixels a side
  std::int64_t frames = 1;   // of a clip
  std::int64_t tubelet = 1;  // frames of a token
  std::int64_t layers = 4;
  std::int64_t hidden = 128;
  std::int64_t heads = 4;
  std::int64_t ffn = 0;  // 0: 4 * hidden
  Activation activation = Activation::kGelu;
  Positions positions = Positions::kLearned;
  std::int64_t position_grid = 0;  // learned positions a side, resampled; 0: the tokens'
  Pooling pooling = Pooling::kMean;
  bool pre_norm = false;  // a norm before the first block
  double norm_eps = 1e-6;
  double init_std = 0.02;    // model.init_std
  std::string pixels;        // their mean and deviation (config/pixels.h); empty: the family's
  std::int64_t classes = 0;  // 0: the dataset's
  bool chunked = false;      // blocks see chunks of tokens, as H-V-JEPA's do
  bool operator==(const Vision&) const = default;
};

}  // namespace trireme::config
