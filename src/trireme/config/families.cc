#include "trireme/config/families.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/patterns.h"
#include "trireme/config/fields/fields.h"

namespace trireme::config {
namespace {

struct Entry {
  Family family;
  std::string_view name;
  std::string_view keys;  // of `model` and of families' sections that it has a use for, as patterns
  std::string_view also = {};    // more of them
  std::string_view chunks = {};  // of a frozen tower of clips
};

// Every family has these of `model`.
constexpr std::string_view kEvery = "model.family,model.frozen,model.weights";

// Keys of an encoder of V-JEPA 2.
constexpr std::string_view kClipTower =
    "vision.image,vision.patch,vision.frames,vision.tubelet,vision.layers,vision.hidden,"
    "vision.heads,vision.ffn,vision.activation,vision.positions,vision.norm_eps,vision.pixels,"
    "model.init_std";
// Of which a frozen one may have made chunks; their ratio loss is of pretraining.
constexpr std::string_view kChunkedTower =
    "vision.chunked,chunk.mode,chunk.ratio,chunk.hidden,chunk.heads,chunk.layers";
// Keys of an image tower, and of the text tower next to it without those of decoders.
constexpr std::string_view kImageTower =
    "vision.image,vision.patch,vision.frames,vision.tubelet,vision.layers,vision.hidden,"
    "vision.heads,vision.ffn,vision.activation,vision.positions,vision.position_grid,"
    "vision.pooling,vision.pre_norm,vision.norm_eps,vision.pixels,model.init_std";
constexpr std::string_view kTextTower =
    "contrastive.*,model.layers,model.hidden,model.heads,model.ffn,model.vocab,model.seq_len,"
    "model.norm_eps";

// Keys of a tower that reads images, without classes, pooling (except a class token) and clips.
constexpr std::string_view kSeeing =
    "vision.image,vision.patch,vision.layers,vision.hidden,vision.heads,vision.ffn,"
    "vision.activation,vision.positions,vision.position_grid,vision.pooling,vision.pre_norm,"
    "vision.norm_eps,vision.pixels,vision.frames,vision.tubelet,"
    "projector.*,vlm.*";

// Keys of the decoder of Llama after the tower.
constexpr std::string_view kTextDecoder =
    "model.layers,model.hidden,model.heads,model.kv_heads,model.head_dim,model.qkv_bias,"
    "model.qk_norm,model.attention_layers,model.ffn,model.vocab,model.seq_len,model.tied,"
    "model.norm_eps,model.rope_theta,model.rope_scaling,model.init_std";

// Regions of images, seen at levels of their own, then a decoder.
constexpr std::string_view kRegions =
    "vision.image,vision.patch,vision.layers,vision.hidden,vision.heads,vision.ffn,"
    "vision.activation,vision.norm_eps,arrcoc.*,projector.kind,"
    "vlm.mrope";

constexpr std::array kEntries = {
    Entry{Family::kGpt, "gpt", "model.*"},
    Entry{Family::kLlama, "llama", "model.*"},
    Entry{Family::kJepa, "jepa", kClipTower, "jepa.*"},
    Entry{Family::kHvjepa, "hvjepa", kClipTower, "jepa.*,chunk.*,vicreg.*"},
    Entry{Family::kProbe, "probe", kClipTower, "vision.classes,probe.*", kChunkedTower},
    Entry{Family::kJepaAc, "jepa_ac", kClipTower, "action.*", kChunkedTower},
    Entry{Family::kVit, "vit", kImageTower, "vision.classes"},
    Entry{Family::kClip, "clip", kImageTower, kTextTower},
    Entry{Family::kHnet, "hnet",
          "model.vocab,model.seq_len,model.norm_eps,model.rope_theta,model.init_std,hnet.*"},
    Entry{Family::kVlm, "vlm", kSeeing, kTextDecoder, kChunkedTower},
    Entry{Family::kArrcoc, "arrcoc", kRegions, kTextDecoder},
};

// Sections of which a family must name what it uses.
constexpr std::array<std::string_view, 12> kSections = {
    "model.", "vision.", "contrastive.", "jepa.",   "action.",    "probe.",
    "hnet.",  "chunk.",  "vicreg.",      "arrcoc.", "projector.", "vlm."};

const Entry& entry(Family family) { return *std::ranges::find(kEntries, family, &Entry::family); }

bool named(std::string_view patterns, std::string_view key) {
  return std::ranges::any_of(split_list(patterns), [&](std::string_view pattern) {
    return matches(pattern, std::string(key));
  });
}

}  // namespace

std::string_view name(Family family) { return entry(family).name; }

bool uses(Family family, std::string_view key) {
  const bool of_families = std::ranges::any_of(
      kSections, [&](std::string_view section) { return key.starts_with(section); });
  const Entry& own = entry(family);
  return !of_families || named(kEvery, key) || named(own.keys, key) || named(own.also, key) ||
         named(own.chunks, key);
}

}  // namespace trireme::config
