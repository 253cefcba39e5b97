#include "trireme/config/families.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve_arrcoc.h"
#include "trireme/config/resolve/resolve_family.h"
#include "trireme/config/resolve/resolve_jepa.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/resolve/resolve_vlm.h"

namespace trireme::config {
namespace {

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

// A decoder alone, on text.
constexpr FamilyInfo language_model(Family family, std::string_view name, DecoderBlock decoder) {
  return {.family = family,
          .name = name,
          .keys = "model.*",
          .resolve = resolve_language_model,
          .decoder = decoder,
          .chain = true,
          .reads_tokens = true,
          .packs_conversations = true,
          .zigzag = true,
          .sequence_parallel = true,
          .adapters = true,
          .fp16_on_cpu = true};
}

constexpr FamilyInfo llama() {
  FamilyInfo family = language_model(Family::kLlama, "llama", DecoderBlock::kLlama);
  family.keys = "model.*,llama.*";
  family.resolve = resolve_llama;
  return family;
}

constexpr FamilyInfo neox() {
  FamilyInfo family = language_model(Family::kNeox, "neox", DecoderBlock::kNeox);
  family.keys =
      "model.layers,model.hidden,model.heads,model.kv_heads,model.ffn,model.vocab,model.seq_len,"
      "model.tied,model.norm_eps,model.rope_theta,model.init_std,neox.*";
  family.resolve = resolve_neox;
  family.fp16_on_cpu = false;
  return family;
}

constexpr std::array kFamilies = {
    language_model(Family::kGpt, "gpt", DecoderBlock::kGpt),
    llama(),
    neox(),
    FamilyInfo{.family = Family::kVit,
               .name = "vit",
               .keys = kImageTower,
               .also = "vision.classes",
               .resolve = resolve_vit,
               .embeds = true,
               .predicts = Predicts::kClasses},
    FamilyInfo{.family = Family::kClip,
               .name = "clip",
               .keys = kImageTower,
               .also = kTextTower,
               .resolve = resolve_clip,
               .embeds = true,
               .predicts = Predicts::kCaptions,
               .couples_batch = [](const Job&) { return true; },
               .couples = "A contrastive loss compares"},
    FamilyInfo{
        .family = Family::kHnet,
        .name = "hnet",
        .keys = "model.vocab,model.seq_len,model.norm_eps,model.rope_theta,model.init_std,hnet.*",
        .resolve = resolve_hnet,
        .reads_tokens = true,
        .has_vocabulary = true,
        .fp16_on_cpu = true},
    FamilyInfo{.family = Family::kVlm,
               .name = "vlm",
               .keys = kSeeing,
               .also = kTextDecoder,
               .chunks = kChunkedTower,
               .resolve = [](Job& job, const DatasetFacts&) { resolve_vlm(job); },
               .decoder = DecoderBlock::kLlama,
               .pictures = Pictures::kTiles,
               .embeds = true},
    FamilyInfo{.family = Family::kArrcoc,
               .name = "arrcoc",
               .keys = kRegions,
               .also = kTextDecoder,
               .resolve = [](Job& job, const DatasetFacts&) { resolve_arrcoc(job); },
               .decoder = DecoderBlock::kLlama,
               .adapters = true,
               .pictures = Pictures::kRegions},
    FamilyInfo{.family = Family::kJepa,
               .name = "jepa",
               .keys = kClipTower,
               .also = "jepa.*",
               .resolve = resolve_jepa,
               .embeds = true},
    FamilyInfo{.family = Family::kHvjepa,
               .name = "hvjepa",
               .keys = kClipTower,
               .also = "jepa.*,chunk.*,vicreg.*",
               .resolve = resolve_hvjepa,
               .embeds = true,
               .couples_batch = [](const Job& job) { return job.vicreg.weight > 0; },
               .couples = "The statistics of vicreg.weight > 0 cover"},
    FamilyInfo{.family = Family::kProbe,
               .name = "probe",
               .keys = kClipTower,
               .also = "vision.classes,probe.*",
               .chunks = kChunkedTower,
               .resolve = resolve_probe,
               .embeds = true},
    FamilyInfo{.family = Family::kJepaAc,
               .name = "jepa_ac",
               .keys = kClipTower,
               .also = "action.*",
               .chunks = kChunkedTower,
               .resolve = resolve_action,
               .embeds = true},
};

// Sections of which a family must name what it uses.
constexpr std::array<std::string_view, 14> kSections = {
    "model.", "llama.", "neox.",  "vision.", "contrastive.", "jepa.",      "action.",
    "probe.", "hnet.",  "chunk.", "vicreg.", "arrcoc.",      "projector.", "vlm."};

bool named(std::string_view patterns, std::string_view key) {
  return std::ranges::any_of(split_list(patterns), [&](std::string_view pattern) {
    return matches(pattern, std::string(key));
  });
}

}  // namespace

std::span<const FamilyInfo> families() { return kFamilies; }

const FamilyInfo& info(Family family) {
  const FamilyInfo* found = find_entry(families(), family);
  TRIREME_CHECK(found != nullptr, "model.family {} has no record", static_cast<int>(family));
  return *found;
}

DecoderTraits traits(DecoderBlock block) {
  switch (block) {
    case DecoderBlock::kNone: break;
    case DecoderBlock::kGpt: return {.biased = true, .fused_heads = true};
    case DecoderBlock::kLlama: return {.gated = true, .rotary = true, .llama_keys = true};
    case DecoderBlock::kNeox: return {.biased = true, .rotary = true};
  }
  return {};
}

std::string names_where(bool (*holds)(const FamilyInfo&)) {
  std::vector<std::string_view> names;
  for (const FamilyInfo& one : kFamilies)
    if (holds(one)) names.push_back(one.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

Family decoder_alone(Family family) {
  const DecoderBlock block = info(family).decoder;
  const auto alone = std::ranges::find_if(
      kFamilies, [&](const FamilyInfo& one) { return one.chain && one.decoder == block; });
  TRIREME_CHECK(alone != kFamilies.end(), "family {} has no decoder", name(family));
  return alone->family;
}

bool uses(Family family, std::string_view key) {
  const bool of_families = std::ranges::any_of(
      kSections, [&](std::string_view section) { return key.starts_with(section); });
  const FamilyInfo& own = info(family);
  return !of_families || named(kEvery, key) || named(own.keys, key) || named(own.also, key) ||
         named(own.chunks, key);
}

}  // namespace trireme::config
