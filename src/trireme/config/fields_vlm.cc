// Vision-language models: how they see, and what turns features into tokens.
#include "trireme/config/field_kinds.h"
#include "trireme/config/field_lists.h"

namespace trireme::config {

std::vector<Field> projector_fields() {
  return {
      fixed(choice(KEY(projector.kind),
                   "What turns a tower's features into the decoder's tokens: a linear layer or two "
                   "with GELU "
                   "between them, a token for each feature; or learned queries that attend to a "
                   "tile's features: the layers of a Q-Former (BLIP-2) or of a Perceiver resampler "
                   "(Flamingo).",
                   {{"linear", ProjectorKind::kLinear},
                    {"mlp", ProjectorKind::kMlp},
                    {"qformer", ProjectorKind::kQFormer},
                    {"perceiver", ProjectorKind::kPerceiver}})),
      fixed(integer(KEY(projector.hidden),
                    "Width of a Q-Former or resampler, which for the latter is the tower's; 0: the "
                    "tower's.",
                    from(0, kMaxWidth))),
      fixed(integer(KEY(projector.layers), "Layers of a Q-Former or resampler.", from(1, 1 << 10))),
      fixed(
          integer(KEY(projector.heads),
                  "Heads of a Q-Former, which divide its width, or of a resampler, of 64 channels "
                  "each.",
                  from(1, 1 << 10))),
      fixed(integer(KEY(projector.queries), "Tokens that a Q-Former or resampler makes of a tile.",
                    from(1, 1 << 16))),
  };
}

std::vector<Field> vlm_fields() {
  return {
      fixed(choice(KEY(vlm.tower),
                   "What sees: an image tower, or the teacher that family jepa, or with "
                   "vision.chunked family hvjepa, has trained on clips, which is frozen.",
                   {{"vit", VlmTower::kVit}, {"jepa", VlmTower::kJepa}})),
      fixed(integer(KEY(vlm.layer),
                    "Block of the tower whose output is read, from 0, or from the end: -2 is the "
                    "last but one. Blocks behind it are left out; behind the last, -1, comes the "
                    "tower's norm.",
                    from(-(1 << 16), 1 << 16))),
      fixed(integer(
          KEY(vlm.max_tiles),
          "Tiles that an image is cut into at most, in a grid of at most 3 a side, beside the "
          "one of all of it; 0: only that.",
          from(0, 9))),
      fixed(boolean(KEY(vlm.qk_norm),
                    "An RMS norm of each head's queries and keys before they are turned (Qwen3).")),
      fixed(text(
          KEY(vlm.mrope),
          "How many of a head's rotary frequencies turn by time, by row and by column, such as "
          "16,24,24 (M-RoPE of Qwen2-VL), or 24,20,20 interleaved (Qwen3-VL); empty: all by "
          "the place in the sequence.")),
  };
}

}  // namespace trireme::config
