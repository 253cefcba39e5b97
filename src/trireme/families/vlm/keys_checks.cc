#include "trireme/families/vlm/keys_checks.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/head_width.h"
#include "trireme/config/mrope.h"
#include "trireme/config/resolve/resolve_family.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/families/hvjepa/keys_checks.h"

namespace trireme::config {
namespace {

void check_vision(const Job& job) {
  const Vision& vision = job.vision;
  if (vision.chunked || job.chunk != Chunk{})
    fail(ErrorKind::kUsage,
         "vision.chunked={}, chunk: vlm.tower=vit sees images and does not use it; leave it out, "
         "or set vlm.tower=jepa",
         vision.chunked);
  if (vision.frames != vision.tubelet)
    fail(ErrorKind::kUsage,
         "vision.frames={}, vision.tubelet={}: vlm.tower=vit sees images, which are repeated to "
         "fill one tubelet; set vision.frames={}, or vlm.tower=jepa",
         vision.frames, vision.tubelet, vision.tubelet);
  if (vision.pooling == Pooling::kAttention)
    fail(ErrorKind::kUsage,
         "vision.pooling=attention: family vlm reads all tokens of the tower; set it to mean, or "
         "to class for a tower with a class token, which is dropped");
  const std::int64_t layer = job.vlm.layer;
  if (layer >= vision.layers || layer < -vision.layers)
    fail(ErrorKind::kUsage, "vlm.layer={}: the tower has vision.layers={} blocks; needs {} to {}",
         layer, vision.layers, -vision.layers, vision.layers - 1);
}

void check_fit(const Vlm& vlm) {
  if (vlm.fit == VlmFit::kWide && vlm.max_tiles == 0)
    fail(ErrorKind::kUsage,
         "vlm.fit=wide, vlm.max_tiles=0: without tiles there are no grids to choose from; leave "
         "vlm.fit out, or set vlm.max_tiles to 2 or more");
  if (vlm.fit == VlmFit::kPad && vlm.max_tiles > 0)
    fail(ErrorKind::kUsage,
         "vlm.fit=pad, vlm.max_tiles={}: an image is padded to a square where it is one tile; "
         "set vlm.max_tiles=0 or vlm.fit=tall",
         vlm.max_tiles);
}

void resolve_tiles(Job& job) {
  check_reads(job, DataSource::kScenes, DataSource::kPairs, "images with questions");
  check_text_keys(job);
  resolve_vision(job.vision);
  check_vision(job);
  check_fit(job.vlm);
}

// Clips are not cut into tiles, and their tower is read after its norm.
void resolve_clips(Job& job) {
  if (job.data.source != DataSource::kSquares)
    fail(ErrorKind::kUsage,
         "data.source: vlm.tower=jepa reads clips with questions; set data.source=squares");
  if (job.vision.pooling != Pooling::kMean || job.vision.pre_norm)
    fail(ErrorKind::kUsage,
         "vision.pooling, vision.pre_norm: vlm.tower=jepa does not use them; leave it out");
  Vlm clips;
  clips.tower = job.vlm.tower;
  clips.mrope = job.vlm.mrope;
  if (job.vlm != clips)
    fail(ErrorKind::kUsage,
         "vlm.tower=jepa: clips have no tiles, and features are the output of the tower's last "
         "block; in section vlm set only tower and mrope");
  resolve_frozen_tower(job);
}

void check_merger(const Job& job) {
  const Vision& vision = job.vision;
  if (job.vlm.tower != VlmTower::kVit || vision.pooling == Pooling::kClass)
    fail(ErrorKind::kUsage,
         "projector.kind=merger: it joins 2 x 2 tokens of an image's grid; set vlm.tower=vit and "
         "vision.pooling=mean, or projector.kind=mlp");
  const std::int64_t side = vision.image / vision.patch;
  if (side % 2 != 0)
    fail(ErrorKind::kUsage,
         "vision.image={} / vision.patch={} = {} tokens a side: projector.kind=merger joins 2 x 2 "
         "and needs an even number; set vision.image={}, or projector.kind=mlp",
         vision.image, vision.patch, side, vision.image + vision.patch);
}

void resolve_projector(Job& job) {
  Projector& projector = job.projector;
  const Vision& vision = job.vision;
  if (projector.kind == ProjectorKind::kNone)
    fail(ErrorKind::kUsage,
         "projector.kind=none: features of family vlm have a projector; set projector.kind=linear");
  if (projector.kind == ProjectorKind::kMerger) check_merger(job);
  const bool queries = !keeps_grid(projector);
  Projector plain;
  plain.kind = projector.kind;
  if (!queries && projector != plain)
    fail(ErrorKind::kUsage,
         "projector: hidden, layers, heads and queries apply to qformer and perceiver; leave them "
         "out or choose projector.kind");
  if (!queries) return;
  if (projector.hidden == 0) projector.hidden = vision.hidden;
  if (projector.kind == ProjectorKind::kPerceiver && projector.hidden != vision.hidden)
    fail(ErrorKind::kUsage,
         "projector.hidden={}: a resampler is as wide as the tower, vision.hidden={}; set "
         "projector.hidden=0",
         projector.hidden, vision.hidden);
  if (projector.kind == ProjectorKind::kQFormer && projector.hidden % projector.heads != 0)
    fail(ErrorKind::kUsage,
         "projector.hidden={} is not divisible by projector.heads={}; nearest that work: {}",
         projector.hidden, projector.heads,
         nearest_multiples("projector.hidden", projector.hidden, projector.heads));
}

void check_mrope(const Job& job) {
  if (job.vlm.mrope.empty()) return;
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

// Of a decoder that attends to images.
void check_fusion(const Job& job) {
  if (!crosses(job)) return;
  const Vlm& vlm = job.vlm;
  const auto [every, heads] = vlm.cross;
  if (heads < 1 || heads > 1 << 10)
    fail(ErrorKind::kUsage, "vlm.cross=[{}, {}]: needs 1 to 1024 heads, such as [{}, 8]", every,
         heads, every);
  if (vlm.max_tiles != 0)
    fail(ErrorKind::kUsage,
         "vlm.max_tiles={}: vlm.cross gives all tiles of an image the same place; set "
         "vlm.max_tiles=0 or leave vlm.cross out",
         vlm.max_tiles);
  if (vlm.pack)
    fail(ErrorKind::kUsage,
         "vlm.pack=true: packing fills rows with tokens of images, but vlm.cross has one token an "
         "image; set vlm.pack=false or leave vlm.cross out");
  for (const auto& [key, value] :
       {std::pair{"vlm.mrope", &vlm.mrope}, std::pair{"vlm.deepstack", &vlm.deepstack}})
    if (!value->empty())
      fail(ErrorKind::kUsage,
           "{}={}: it applies to image tokens within a row, but vlm.cross has none; leave one of "
           "both out",
           key, *value);
  if (every > job.model.layers)
    fail(ErrorKind::kUsage,
         "vlm.cross=[{}, {}]: the decoder has model.layers={} blocks, so none would get "
         "cross-attention; set [{}, {}] or fewer blocks",
         every, heads, job.model.layers, job.model.layers, heads);
  if (job.parallel.tp > heads)
    fail(ErrorKind::kUsage,
         "parallel.tp={} is more than the heads of vlm.cross=[{}, {}]; a rank needs at least one: "
         "parallel.tp={} or less",
         job.parallel.tp, every, heads, heads);
}

// The units that make a tile's features.
std::vector<std::string> tower_units(const Job& job) {
  std::vector<std::string> units = {"vision.embed"};
  for (std::int64_t layer = 0; layer < blocks_read(job); ++layer)
    units.push_back(fmt::format("vision.block.{}", layer));
  return units;
}

void check_features(const Job& job) {
  if (job.vlm.features.empty()) return;
  if (job.parallel.cp > 1)
    fail(ErrorKind::kUsage,
         "vlm.features={}: ranks along parallel.cp={} do not agree on the features that are kept; "
         "set parallel.cp=1 or leave vlm.features out",
         job.vlm.features, job.parallel.cp);
  const std::vector<std::string_view> frozen = split_list(job.model.frozen);
  for (const std::string& unit : tower_units(job))
    if (std::ranges::none_of(frozen,
                             [&](std::string_view pattern) { return matches(pattern, unit); }))
      fail(ErrorKind::kUsage,
           "vlm.features={} caches the tower's output, but {} is trainable; set "
           "model.frozen=vision.* or leave vlm.features out",
           job.vlm.features, unit);
}

void check_widths(const Job& job) {
  for (const auto& [key, count] :
       {std::pair{"vision.ffn", job.vision.ffn}, std::pair{"model.ffn", job.model.ffn},
        std::pair{"model.vocab", job.model.vocab}})
    if (job.parallel.tp > count)
      fail(ErrorKind::kUsage,
           "parallel.tp={} is more than {}={}; a rank needs at least one: parallel.tp={} or less",
           job.parallel.tp, key, count, count);
}

}  // namespace

void resolve_vlm(Job& job) {
  if (job.vlm.tower == VlmTower::kJepa)
    resolve_clips(job);
  else
    resolve_tiles(job);
  resolve_projector(job);
  resolve_decoder(job.model, {.vocab = kVlmVocab});
  check_decoder_parts(job);
  check_features(job);
  check_fusion(job);
  deepstack_layers(job);
}

void check_decoder_parts(const Job& job) {
  check_mrope(job);
  check_widths(job);
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

}  // namespace trireme::config
