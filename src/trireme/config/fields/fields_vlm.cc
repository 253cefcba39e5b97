// Vision-language models: how they see, and what turns features into tokens.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> projector_fields() {
  return {
      of_weights(
          choice(KEY(projector.kind),
                 "What turns a tower's features into the decoder's tokens: a linear layer or two "
                 "with GELU between them, a token for each feature; the same two of a norm of "
                 "each 2 x 2 features, which become one token (Qwen3-VL); or learned queries that "
                 "attend to a tile's features: the layers of a Q-Former (BLIP-2) or of a "
                 "Perceiver resampler (Flamingo); none, where both are as wide (arrcoc).",
                 {{"none", ProjectorKind::kNone},
                  {"linear", ProjectorKind::kLinear},
                  {"mlp", ProjectorKind::kMlp},
                  {"merger", ProjectorKind::kMerger},
                  {"qformer", ProjectorKind::kQFormer},
                  {"perceiver", ProjectorKind::kPerceiver}})),
      of_weights(
          integer(KEY(projector.hidden),
                  "Width of a Q-Former or resampler, which for the latter is the tower's; 0: the "
                  "tower's.",
                  from(0, kMaxWidth))),
      of_weights(
          integer(KEY(projector.layers), "Layers of a Q-Former or resampler.", from(1, 1 << 10))),
      of_weights(
          integer(KEY(projector.heads),
                  "Heads of a Q-Former, which divide its width, or of a resampler, of 64 channels "
                  "each.",
                  from(1, 1 << 10))),
      of_weights(integer(KEY(projector.queries),
                         "Tokens that a Q-Former or resampler makes of a tile.", from(1, 1 << 16))),
  };
}

std::vector<Field> vlm_fields() {
  return {
      of_weights(choice(KEY(vlm.tower),
                        "What sees: an image tower, or the teacher that family jepa, or with "
                        "vision.chunked family hvjepa, has trained on clips, which is frozen.",
                        {{"vit", VlmTower::kVit}, {"jepa", VlmTower::kJepa}})),
      of_weights(
          integer(KEY(vlm.layer),
                  "Block of the tower whose output is read, from 0, or from the end: -2 is the "
                  "last but one. Blocks behind it are left out; behind the last, -1, comes the "
                  "tower's norm.",
                  from(-(1 << 16), 1 << 16))),
      inherited(fixed(integer(
          KEY(vlm.max_tiles),
          "Tiles that an image is cut into at most, in a grid of at most 3 a side, beside the "
          "one of all of it; 0: only that.",
          from(0, 9)))),
      inherited(fixed(choice(KEY(vlm.tie),
                             "Grid of tiles that is chosen where two with equally many tiles keep "
                             "equally many pixels: tall, with fewer columns (LLaVA's own code), or "
                             "wide, with fewer rows (Hugging Face's transformers).",
                             {{"tall", VlmTie::kTall}, {"wide", VlmTie::kWide}}))),
      inherited(fixed(choice(KEY(vlm.aspect),
                             "How an image that is one tile (vlm.max_tiles=0) becomes a square: "
                             "stretched, or padded on both sides with vision.mean (LLaVA 1.5).",
                             {{"stretch", VlmAspect::kStretch}, {"pad", VlmAspect::kPad}}))),
      of_weights(
          text(KEY(vlm.deepstack),
               "Blocks of the tower, such as 5,11,17, whose output is projected as well, each by "
               "a projector of its own, and added to an image's tokens behind the decoder's first "
               "blocks, one behind each (DeepStack); empty: none.")),
      of_weights(text(
          KEY(vlm.mrope),
          "How many of a head's rotary frequencies turn by time, by row and by column, such as "
          "16,24,24 (M-RoPE of Qwen2-VL), or 24,20,20 interleaved (Qwen3-VL); empty: all by "
          "the place in the sequence.")),
      fixed(boolean(KEY(vlm.pack),
                    "Several samples share a row of model.seq_len tokens, as many as it has room "
                    "for: attention ends and positions begin anew where a sample begins. "
                    "run.global_batch and run.micro_batch count rows.")),
      boolean(KEY(vlm.balance),
              "Samples, or rows of several, go to the data-parallel ranks and micro-batches of "
              "their global batch so that all have about the same work by their tiles. The loss "
              "stays, but for the order of its sum."),
      text(KEY(vlm.features),
           "A directory in which what a frozen tower makes of a tile is kept, to be read where "
           "the tile comes again; empty: it is computed every time."),
      of_weights(
          choice(KEY(vlm.fusion),
                 "How the decoder sees: an image's tokens stand in its rows, or one does and gated "
                 "blocks of cross-attention let what follows it attend to the image (Flamingo).",
                 {{"tokens", VlmFusion::kTokens}, {"cross", VlmFusion::kCross}})),
      of_weights(
          integer(KEY(vlm.cross_every),
                  "Blocks of the decoder to one of cross-attention, which stands before the last "
                  "of them; 1: one before each.",
                  from(1, 1 << 16))),
      of_weights(integer(KEY(vlm.cross_heads),
                         "Heads of blocks of cross-attention, of 64 channels each.",
                         from(1, 1 << 10))),
  };
}

}  // namespace trireme::config
