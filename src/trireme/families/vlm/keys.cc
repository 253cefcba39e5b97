// Vision-language models.
#include <algorithm>
#include <iterator>
#include <vector>

#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/families/llama/keys_decoder.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::config {

namespace {

std::vector<Field> projector_fields() {
  return {
      of_weights(
          choice(KEY(projector.kind),
                 "Projector from the tower's features to decoder tokens: linear, mlp (two layers "
                 "with GELU) or none (equal widths; arrcoc). merger: norm and mlp over 2 x 2 "
                 "features (Qwen3-VL). qformer: BLIP-2's. perceiver: Flamingo's resampler.",
                 {{"none", ProjectorKind::kNone},
                  {"linear", ProjectorKind::kLinear},
                  {"mlp", ProjectorKind::kMlp},
                  {"merger", ProjectorKind::kMerger},
                  {"qformer", ProjectorKind::kQFormer},
                  {"perceiver", ProjectorKind::kPerceiver}})),
      of_weights(integer(
          KEY(projector.hidden),
          "Width of a Q-Former or resampler; a resampler has the tower's. 0: the tower's width.",
          from(0, kMaxWidth))),
      of_weights(
          integer(KEY(projector.layers), "Layers of a Q-Former or resampler.", from(1, 1 << 10))),
      of_weights(integer(KEY(projector.heads),
                         "Attention heads: of a Q-Former, dividing its width, or of a resampler, "
                         "with 64 channels each.",
                         from(1, 1 << 10))),
      of_weights(integer(KEY(projector.queries), "Tokens per tile of a Q-Former or resampler.",
                         from(1, 1 << 16))),
  };
}

std::vector<Field> seeing_fields() {
  return {
      of_weights(choice(KEY(vlm.tower),
                        "Vision tower: vit (images), or jepa, the frozen teacher of family jepa "
                        "(with vision.chunked: of hvjepa).",
                        {{"vit", VlmTower::kVit}, {"jepa", VlmTower::kJepa}})),
      of_weights(integer(KEY(vlm.layer),
                         "Block of the tower whose output is read, from 0, or from the end. -2: "
                         "the second to last; -1: the last, with the tower's final norm.",
                         from(-(1 << 16), 1 << 16))),
      inherited(fixed(integer(KEY(vlm.max_tiles),
                              "Maximum tiles per image, in a grid of at most 3 per side, in "
                              "addition to a tile of the whole image. 0: only the whole image.",
                              from(0, 9)))),
      inherited(fixed(
          choice(KEY(vlm.fit),
                 "Conversion of an image to tiles. Tall and wide: stretched, in the grid with "
                 "fewer columns (LLaVA's code) or fewer rows (Hugging Face's transformers) "
                 "among equal grids. Pad: one tile (vlm.max_tiles=0), padded on both sides "
                 "with the mean of vision.pixels (LLaVA 1.5).",
                 {{"tall", VlmFit::kTall}, {"wide", VlmFit::kWide}, {"pad", VlmFit::kPad}}))),
      of_weights(
          text(KEY(vlm.deepstack),
               "DeepStack blocks of the tower, comma-separated, such as 5,11,17: projected outputs "
               "are added to image tokens after the decoder's first blocks. Empty: none.")),
      of_weights(text(
          KEY(vlm.mrope),
          "M-RoPE sections: rotary frequencies per head for time, row and column, such as 16,24,24 "
          "(Qwen2-VL) or 24,20,20 interleaved (Qwen3-VL). Empty: one position per token.")),
      fixed(boolean(KEY(vlm.pack),
                    "Sample packing: several samples share a row of model.seq_len tokens. "
                    "run.global_batch and run.micro_batch then count rows.")),
      boolean(KEY(vlm.balance),
              "Load balancing of samples over data-parallel ranks and micro-batches, by their "
              "tiles. The loss changes only by the order of its sum."),
      text(KEY(vlm.features),
           "Cache directory of a frozen tower's output per tile. Empty: no cache."),
      of_weights(two_integers(
          KEY(vlm.cross),
          "Gated cross-attention to images in place of image tokens in the decoder's rows "
          "(Flamingo): decoder blocks per cross-attention block, which precedes the last of them, "
          "and its heads of 64 channels, such as [4, 8]. 0 blocks: image tokens.",
          from(0, 1 << 16))),
      of_weights(two_integers(
          KEY(vlm.tokens),
          "Token ids of an image's place and of the end of an answer, such as [32000, 2]. -1: the "
          "image token and the end of text of data.tokenizer; with bytes 256 and 257.",
          from(-1, kMaxIds))),
  };
}

}  // namespace

std::vector<Field> vlm_fields() {
  std::vector<Field> fields = projector_fields();
  std::ranges::move(seeing_fields(), std::back_inserter(fields));
  return fields;
}

FamilyInfo vlm_family() {
  // A tower that reads images, without classes, pooling (except a class token) and clips.
  return {.about = "images with questions: LLaVA, Qwen3-VL",
          .keys =
              "vision.image,vision.patch,vision.layers,vision.hidden,vision.heads,vision.ffn,"
              "vision.activation,vision.positions,vision.position_grid,vision.pooling,"
              "vision.pre_norm,vision.norm_eps,vision.pixels,vision.frames,vision.tubelet,"
              "projector.*,vlm.*",
          .also = kTextDecoderKeys,
          .chunks = kChunkedTowerKeys,
          .rules = vlm_rules,
          .decoder = kLlamaDecoder,
          .adapters = true,
          .pictures = Pictures::kTiles,
          .tokenizes_questions = true,
          .embeds = true};
}

}  // namespace trireme::config
