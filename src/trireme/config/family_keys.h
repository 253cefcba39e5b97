// Keys that several families have, as patterns for FamilyInfo.
#pragma once

#include <string_view>

namespace trireme::config {

// Of an image tower.
inline constexpr std::string_view kImageTowerKeys =
    "vision.image,vision.patch,vision.frames,vision.tubelet,vision.layers,vision.hidden,"
    "vision.heads,vision.ffn,vision.activation,vision.positions,vision.position_grid,"
    "vision.pooling,vision.pre_norm,vision.norm_eps,vision.pixels,model.init_std";

// Of an encoder of V-JEPA 2.
inline constexpr std::string_view kClipTowerKeys =
    "vision.image,vision.patch,vision.frames,vision.tubelet,vision.layers,vision.hidden,"
    "vision.heads,vision.ffn,vision.activation,vision.positions,vision.norm_eps,vision.pixels,"
    "model.init_std";
// Of which a frozen one may have made chunks; their ratio loss is of pretraining.
inline constexpr std::string_view kChunkedTowerKeys =
    "vision.chunked,chunk.mode,chunk.ratio,chunk.hidden,chunk.heads,chunk.layers";

// Of the decoder of Llama after a tower.
inline constexpr std::string_view kTextDecoderKeys =
    "model.layers,model.hidden,model.heads,model.kv_heads,model.head_dim,model.qkv_bias,"
    "model.qk_norm,model.attention_layers,model.ffn,model.vocab,model.seq_len,model.tied,"
    "model.norm_eps,model.rope_theta,model.rope_scaling,model.init_std";

}  // namespace trireme::config
