#include "trireme/families/vlm/keys_checks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/families.h"
#include "trireme/config/head_width.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
#include "trireme/config/sections/mrope.h"
#include "trireme/families/hvjepa/keys_checks.h"

namespace trireme::config {
namespace {

bool sees_images(const Job& job) { return job.vlm.tower == VlmTower::kVit; }
bool sees_clips(const Job& job) { return job.vlm.tower == VlmTower::kJepa; }

void check_layer(const Job& job) {
  const std::int64_t layer = job.vlm.layer, layers = job.vision.layers;
  if (layer >= layers || layer < -layers)
    fail(ErrorKind::kUsage, "vlm.layer={}: the tower has vision.layers={} blocks; needs {} to {}",
         layer, layers, -layers, layers - 1);
}

void check_mrope(const Job& job) {
  const Mrope mrope = parse_mrope(job.vlm.mrope);
  const auto& sections = mrope.sections;
  const std::int64_t all = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
  const std::int64_t half = head_width(job.model) / 2;
  if (all != half)
    fail(ErrorKind::kUsage,
         "vlm.mrope={} assigns {} frequencies, but a head of {} channels (model.head_dim, or "
         "model.hidden={} / model.heads={}) has {}",
         job.vlm.mrope, all, 2 * half, job.model.hidden, job.model.heads, half);
}

// The units that make a tile's features.
std::vector<std::string> tower_units(const Job& job) {
  std::vector<std::string> units = {"vision.embed"};
  for (std::int64_t layer = 0; layer < blocks_read(job); ++layer)
    units.push_back(fmt::format("vision.block.{}", layer));
  return units;
}

void check_frozen(const Job& job) {
  const bool adapts = job.lora.rank > 0;  // and freezes what lora.also does not name
  const std::vector<std::string_view> patterns =
      split_list(adapts ? job.lora.also : job.model.frozen);
  for (const std::string& unit : tower_units(job)) {
    const bool named = std::ranges::any_of(
        patterns, [&](std::string_view pattern) { return matches(pattern, unit); });
    if (named == adapts)
      fail(ErrorKind::kUsage,
           "vlm.features={} caches the tower's output, but {} is trainable; {} or leave "
           "vlm.features out",
           job.vlm.features, unit,
           adapts ? "leave it out of lora.also" : "set model.frozen=vision.*");
  }
}

// Of the tokenizer where it is known, else after the 256 bytes.
void fill_tokens(Job& job, const Given& given) {
  constexpr std::array kOfBytes = {kImageToken, kEndToken};
  for (std::size_t i = 0; i < kOfBytes.size(); ++i)
    if (job.vlm.tokens[i] < 0)
      job.vlm.tokens[i] = given.data.tokens[i] < 0 ? kOfBytes[i] : given.data.tokens[i];
}

std::int64_t least_vocab(const Job& job) { return 1 + std::ranges::max(job.vlm.tokens); }

void fill_vocab(Job& job, const Given& given) {
  if (job.model.vocab == 0) job.model.vocab = std::max(given.data.vocab, least_vocab(job));
}

void check_tokenizer(const Job& job, const Given& given) {
  if (job.model.vocab < given.data.vocab)
    fail(ErrorKind::kUsage,
         "model.vocab={} is smaller than the {} ids of data.tokenizer={}; name the model's own "
         "tokenizer, or set model.vocab={} (or 0)",
         job.model.vocab, given.data.vocab, job.data.tokenizer, given.data.vocab);
}

// Bytes, or the tokens of a tokenizer, with an image's place and the end of an answer.
std::vector<Rule> token_rules() {
  return {
      {.id = "vlm-tokens", .fill = fill_tokens},
      {"one-token",
       refused("vlm.tokens", "an image's place and the end of an answer have one id",
               "set two, or leave it out"),
       [](const Job& job) { return job.vlm.tokens[0] == job.vlm.tokens[1]; }},
      {"vlm-vocab",
       at_least("model.vocab", Number("{} for {vlm.tokens}", least_vocab),
                "an image's place and the end of an answer have rows of the embedding",
                "set model.vocab=0"),
       nullptr, fill_vocab},
      {.id = "vlm-tokenizer", .fits = check_tokenizer},
      {"clip-bytes", refused("data.tokenizer", "questions about clips use bytes as tokens"),
       sees_clips},
  };
}

// Towers of images and of clips.
std::vector<Rule> seeing_rules() {
  constexpr std::string_view kImages = "vlm.tower=vit", kClips = "vlm.tower=jepa";
  return joined(
      {{{"images",
         needs(kImages, {"data.source=scenes|pairs"}, "it reads images with questions", kClips)},
        {"clips", needs(kClips, {"data.source=squares"}, "it reads clips with questions", kImages)},
        {"no-chunks", refused("vision.chunked,chunk.* with vlm.tower=vit", "it sees images",
                              "leave it out, or set vlm.tower=jepa")},
        {"no-pooling", refused("vision.pooling,vision.pre_norm with vlm.tower=jepa",
                               "its tokens are read after its norm")},
        {"no-tiles",
         refused("vlm.layer,vlm.max_tiles,vlm.fit,vlm.deepstack,vlm.pack,vlm.balance,vlm.features,"
                 "vlm.cross with vlm.tower=jepa",
                 "clips have no tiles, and features are the output of the tower's last block",
                 "in section vlm set only tower and mrope")}},
       tower_rules(),
       only_for(sees_clips, frozen_tower_rules()),
       {{"one-tubelet",
         equal_to("vision.frames", "vision.tubelet",
                  "{vlm.tower} sees images, which are repeated to fill one tubelet", kClips),
         sees_images},
        {"pooling",
         refused("vision.pooling=attention", "{model.family} reads all tokens of the tower",
                 "set it to mean, or to class for a tower with a class token, which is dropped")},
        {"layer", check_layer, sees_images},
        {"fit-wide", refused("vlm.fit=wide with vlm.max_tiles=0",
                             "without tiles there are no grids to choose from",
                             "leave vlm.fit out, or set vlm.max_tiles to 2 or more")},
        {"fit-pad",
         needs("vlm.fit=pad", {"vlm.max_tiles=0"},
               "an image is padded to a square where it is one tile", "vlm.fit=tall")}}});
}

void fill_queries(Job& job, const Given&) {
  if (!keeps_grid(job.projector) && job.projector.hidden == 0)
    job.projector.hidden = job.vision.hidden;
}

std::vector<Rule> projector_rules() {
  const Number squares("2 x {vision.patch} = {}",
                       [](const Job& job) { return static_cast<double>(2 * job.vision.patch); });
  return {
      {"projector", refused("projector.kind=none", "features of {model.family} have a projector",
                            "set projector.kind=linear")},
      {"merger-grid", needs("projector.kind=merger", {"vlm.tower=vit", "vision.pooling=mean"},
                            "it joins 2 x 2 tokens of an image's grid", "projector.kind=mlp")},
      {"merger-image",
       multiple_of("vision.image", squares, "as projector.kind=merger joins 2 x 2 tokens",
                   [](const Job&) { return ", or projector.kind=mlp"; }),
       [](const Job& job) { return job.projector.kind == ProjectorKind::kMerger; }},
      {"no-queries",
       refused("projector.hidden,projector.layers,projector.heads,projector.queries",
               "{projector.kind} does not use it",
               "leave it out, or set projector.kind=qformer or perceiver"),
       [](const Job& job) { return keeps_grid(job.projector); }},
      {"resampler",
       equal_to("projector.hidden", "vision.hidden", "a resampler is as wide as the tower",
                "projector.hidden=0"),
       [](const Job& job) { return job.projector.kind == ProjectorKind::kPerceiver; },
       fill_queries},
      {"qformer-heads", multiple_of("projector.hidden", "projector.heads"),
       [](const Job& job) { return job.projector.kind == ProjectorKind::kQFormer; }},
  };
}

// Of a decoder that attends to images.
std::vector<Rule> cross_rules() {
  const Number every("{}, the first of {vlm.cross},",
                     [](const Job&job) { return static_cast<double>(job.vlm.cross[0]); }),
      heads("{}, the heads of {vlm.cross}",
            [](const Job&job) { return static_cast<double>(job.vlm.cross[1]); });
  return only_for(
      crosses,
      {{"cross-heads",
        refused("vlm.cross", "the second is out of range", "needs 1 to 1024 heads, such as 8"),
        [](const Job& job) { return job.vlm.cross[1] < 1 || job.vlm.cross[1] > 1 << 10; }},
       {"cross-tiles",
        needs("vlm.cross", {"vlm.max_tiles=0"}, "it gives all tiles of an image the same place")},
       {"cross-pack", needs("vlm.cross", {"vlm.pack=false"},
                            "it has one token an image, and packing fills rows with them")},
       {"cross-rows", refused("vlm.mrope,vlm.deepstack with vlm.cross",
                              "it is for image tokens within a row, of which there are none",
                              "leave one of both out")},
       {"cross-blocks", at_most(every, "model.layers", "no block would get cross-attention",
                                "lower it to {} or less")},
       {"tp-cross-heads", shared_by_tp(heads)}});
}

}  // namespace

std::vector<Rule> vlm_rules() {
  return joined(
      {seeing_rules(),
       projector_rules(),
       token_rules(),
       decoder_rules(),
       {mrope_rule(),
        {"features-cp", refused("vlm.features with parallel.cp",
                                "ranks along cp do not agree on the features that are kept",
                                "set parallel.cp=1 or leave vlm.features out")},
        {"features-frozen", check_frozen,
         [](const Job& job) { return !job.vlm.features.empty(); }}},
       cross_rules(),
       {{"deepstack", [](const Job& job) { deepstack_layers(job); }}}});
}

Rule mrope_rule() {
  return {"mrope", check_mrope, [](const Job& job) { return !job.vlm.mrope.empty(); }};
}

std::int64_t blocks_read(const Job& job) {
  const std::int64_t layer = job.vlm.layer;
  return (layer < 0 ? job.vision.layers + layer : layer) + 1;
}

bool reads_last(const Job& job) {
  return job.vlm.tower == VlmTower::kVit && blocks_read(job) == job.vision.layers &&
         job.projector.kind != ProjectorKind::kMerger;
}

std::vector<std::int64_t> deepstack_layers(const Job& job) {
  std::vector<std::int64_t> layers;
  if (job.vlm.deepstack.empty()) return layers;
  for (const std::string_view piece : split_list(job.vlm.deepstack)) {
    std::int64_t layer = -1;
    const auto [end, error] = std::from_chars(piece.begin(), piece.end(), layer);
    const std::int64_t least = layers.empty() ? 0 : layers.back() + 1;
    if (error != std::errc{} || end != piece.end() || layer < least || layer >= blocks_read(job))
      fail(ErrorKind::kUsage,
           "vlm.deepstack={}: needs ascending blocks from 0 to {} of the tower (vlm.layer={}), "
           "with commas between them",
           job.vlm.deepstack, blocks_read(job) - 1, job.vlm.layer);
    layers.push_back(layer);
  }
  if (std::ssize(layers) > job.model.layers)
    fail(ErrorKind::kUsage,
         "vlm.deepstack={}: {} layers need as many blocks of the decoder, but model.layers={}; "
         "name fewer",
         job.vlm.deepstack, layers.size(), job.model.layers);
  return layers;
}

bool keeps_grid(const Projector& projector) {
  return projector.kind != ProjectorKind::kQFormer && projector.kind != ProjectorKind::kPerceiver;
}

bool ends_rows(const Job& job) {
  return job.vlm.tower == VlmTower::kVit && keeps_grid(job.projector) &&
         job.projector.kind != ProjectorKind::kMerger && !crosses(job);
}

bool crosses(const Job& job) { return job.vlm.cross[0] > 0; }

bool crosses_before(const Job& job, std::int64_t block) {
  return crosses(job) && (block + 1) % job.vlm.cross[0] == 0;
}

std::int64_t projected_width(const Job& job) {
  return crosses(job) && !keeps_grid(job.projector) ? job.projector.hidden : job.model.hidden;
}

std::int64_t tile_side(const Job& job) {
  const std::int64_t side = job.vision.image / job.vision.patch;
  return job.projector.kind == ProjectorKind::kMerger ? side / 2 : side;
}

std::int64_t tile_tokens(const Job& job) {
  const Vision& vision = job.vision;
  const std::int64_t side = tile_side(job);
  return keeps_grid(job.projector) ? vision.frames / vision.tubelet * side * side
                                   : job.projector.queries;
}

void spell_tokens(Job& job) {
  if (uses(job.model.family, "vlm.tokens") && std::ranges::max(job.vlm.tokens) < 0)
    job.vlm.tokens = {kImageToken, kEndToken};
}

}  // namespace trireme::config
