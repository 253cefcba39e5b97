#include "trireme/families/arrcoc/keys_checks.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/head_width.h"
#include "trireme/config/resolve/resolve_family.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::config {
namespace {

struct ChannelGroup {
  std::string_view name;
  std::size_t first, count;
};
constexpr std::array kChannelGroups = {
    ChannelGroup{"rgb", 0, 3},          ChannelGroup{"lab", 3, 3},
    ChannelGroup{"sobel", 6, 2},        ChannelGroup{"magnitude", 8, 1},
    ChannelGroup{"orientation", 9, 1},  ChannelGroup{"position", 10, 2},
    ChannelGroup{"eccentricity", 12, 1}};

void check_image(const Job& job) {
  const std::int64_t image = job.vision.image, grid = job.arrcoc.grid;
  constexpr std::int64_t kTexture = 256;
  if (image % grid != 0 || std::min(image, kTexture) % grid != 0)
    fail(ErrorKind::kUsage,
         "vision.image={}, or its texture of at most 256 pixels, is not divisible by the "
         "arrcoc.grid={} regions of a side; nearest that work: {}",
         image, grid, nearest_multiples("vision.image", image, grid));
  if (job.data.source == DataSource::kQuadrants && grid * grid != kQuadrants)
    fail(ErrorKind::kUsage,
         "arrcoc.grid={}: questions of data.source=quadrants are about four regions; set "
         "arrcoc.grid=2",
         grid);
}

void resolve_budget(Job& job) {
  Arrcoc& arrcoc = job.arrcoc;
  if (arrcoc.least >= arrcoc.most)
    fail(ErrorKind::kUsage, "arrcoc.sides=[{}, {}]: the first is not below the second; lower it",
         arrcoc.least, arrcoc.most);
  const std::int64_t regions = arrcoc.grid * arrcoc.grid;
  const std::int64_t least = regions * arrcoc.least * arrcoc.least;
  const std::int64_t most = regions * arrcoc.most * arrcoc.most;
  if (arrcoc.budget == 0) arrcoc.budget = std::min(most, 9 * least / 4);
  if (arrcoc.budget < least || arrcoc.budget > most)
    fail(ErrorKind::kUsage,
         "arrcoc.budget={}: {} regions of {} x {} to {} x {} tokens need {} to {}; set it in this "
         "range",
         arrcoc.budget, regions, arrcoc.least, arrcoc.least, arrcoc.most, arrcoc.most, least, most);
  const std::int64_t text = asks_regions(job) ? 1 : 2;
  if (job.model.seq_len < arrcoc.budget + text)
    fail(ErrorKind::kUsage,
         "model.seq_len={}: an image has up to arrcoc.budget={} tokens and a question follows; set "
         "model.seq_len={}{}",
         job.model.seq_len, arrcoc.budget, arrcoc.budget + text,
         asks_regions(job) ? "" : " or more, a byte of question and answer being a token");
}

// Training signals of scorers in addition to answers.
void check_charges(const Arrcoc& arrcoc) {
  const bool learns = arrcoc.allocation == Allocation::kLearned && arrcoc.gate;
  if ((arrcoc.learn_budget || charges(arrcoc)) && !learns)
    fail(ErrorKind::kUsage,
         "budget in arrcoc.scorers, arrcoc.penalties=[{}, {}]: these need scorers that train; name "
         "them in arrcoc.scorers and set arrcoc.gate=true, or leave them out",
         arrcoc.budget_weight, arrcoc.entropy_weight);
  if (arrcoc.budget_weight > 0 && !arrcoc.learn_budget)
    fail(ErrorKind::kUsage,
         "arrcoc.penalties=[{}, {}]: all of the budget is always used, so its cost has no effect; "
         "set arrcoc.scorers={},budget, or leave it out",
         arrcoc.budget_weight, arrcoc.entropy_weight, arrcoc.scorers);
}

void resolve_scorers(Arrcoc& arrcoc) {
  if (arrcoc.coupling == 0) arrcoc.coupling = arrcoc.hidden / 2;
  if (arrcoc.balancer == 0) arrcoc.balancer = arrcoc.hidden;
  texture_channels(arrcoc);
  scored(arrcoc);
  check_charges(arrcoc);
}

void check_projector(const Job& job) {
  Projector plain;
  plain.kind = job.projector.kind;
  if (!keeps_grid(job.projector) || job.projector.kind == ProjectorKind::kMerger ||
      job.projector != plain)
    fail(ErrorKind::kUsage,
         "projector.kind: family arrcoc needs a token for each feature; set projector.kind=mlp, "
         "linear or none, and leave the rest of projector out");
  if (job.projector.kind == ProjectorKind::kNone && job.vision.hidden != job.model.hidden)
    fail(ErrorKind::kUsage,
         "projector.kind=none: features of vision.hidden={} do not have the width of tokens, "
         "model.hidden={}; make them equal, or set projector.kind=linear",
         job.vision.hidden, job.model.hidden);
}

void resolve_region_decoder(Job& job) {
  Model& model = job.model;
  if (job.arrcoc.decoder == RegionDecoder::kGpt) {
    if (model.ffn == 0) model.ffn = 4 * model.hidden;
    if (model.kv_heads != 0 && model.kv_heads != model.heads)
      fail(ErrorKind::kUsage,
           "model.kv_heads={}: arrcoc.decoder=gpt has one key-value head per head; needs {} (or 0)",
           model.kv_heads, model.heads);
    if (model.head_dim != 0 || model.qkv_bias || model.qk_norm || !model.attention_layers.empty())
      fail(ErrorKind::kUsage,
           "model.head_dim={}, model.qkv_bias={}, model.qk_norm={}, model.attention_layers={}: "
           "arrcoc.decoder=gpt does not use them; leave it out",
           model.head_dim, model.qkv_bias, model.qk_norm, model.attention_layers);
    if (job.lora.rank > 0 && job.lora.targets == LoraTargets::kQueryValue)
      fail(ErrorKind::kUsage,
           "lora.targets=query_value: queries, keys and values of arrcoc.decoder=gpt are one "
           "layer; set lora.targets=attention");
  }
  resolve_decoder(model, {.vocab = asks_regions(job) ? kQuadrantVocab : kVlmVocab});
}

// Two axes of a region, three of an image and what follows it.
void resolve_turned_heads(Job& job) {
  const std::int64_t width = job.vision.hidden / job.vision.heads;
  if (width % 2 != 0 || width < 4)
    fail(ErrorKind::kUsage,
         "vision.hidden={} / vision.heads={} = {} per head: rotary positions over row and column "
         "need an even number of 4 or more; change one",
         job.vision.hidden, job.vision.heads, width);
  if (!job.vlm.mrope.empty()) return;
  const std::int64_t half = head_width(job.model) / 2, plane = 3 * half / 8;
  if (plane == 0)
    fail(ErrorKind::kUsage,
         "heads of {} channels (model.head_dim, or model.hidden={} / model.heads={}): positions in "
         "time, row and column need 6 or more; change one, or set vlm.mrope",
         2 * half, job.model.hidden, job.model.heads);
  job.vlm.mrope = fmt::format("{},{},{}", half - 2 * plane, plane, plane);
}

}  // namespace

std::array<bool, 13> texture_channels(const Arrcoc& arrcoc) {
  std::array<bool, 13> chosen{};
  if (arrcoc.channels == "all") {
    chosen.fill(true);
    return chosen;
  }
  for (const std::string_view name : split_list(arrcoc.channels)) {
    const auto* group = std::ranges::find(kChannelGroups, name, &ChannelGroup::name);
    if (group == kChannelGroups.end())
      fail(ErrorKind::kUsage,
           "arrcoc.channels={}: there is no {}; needs all, or some of rgb, lab, sobel, magnitude, "
           "orientation, position and eccentricity between commas",
           arrcoc.channels, name);
    for (std::size_t i = 0; i < group->count; ++i) chosen[group->first + i] = true;
  }
  if (std::ranges::none_of(chosen, std::identity{}))
    fail(ErrorKind::kUsage, "arrcoc.channels names nothing; set it to all, or to some of them");
  return chosen;
}

Scored scored(const Arrcoc& arrcoc) {
  Scored result;
  for (const std::string_view name : split_list(arrcoc.scorers)) {
    if (name == "information")
      result.information = true;
    else if (name == "salience")
      result.salience = true;
    else if (name == "coupling")
      result.coupling = true;
    else
      fail(ErrorKind::kUsage,
           "arrcoc.scorers={}: there is no {}; needs some of information, salience and coupling "
           "between commas, then budget or not",
           arrcoc.scorers, name);
  }
  if (result.count() == 0)
    fail(ErrorKind::kUsage,
         "arrcoc.scorers names nothing; set it to some of information, salience and coupling, or "
         "to uniform, which needs none");
  return result;
}

void resolve_arrcoc(Job& job) {
  check_reads(job, DataSource::kQuadrants, DataSource::kPairs, "images with a question about each");
  check_text_keys(job);
  resolve_vision(job.vision);
  check_projector(job);
  check_image(job);
  resolve_region_decoder(job);
  resolve_budget(job);
  resolve_turned_heads(job);
  check_decoder_parts(job);
  resolve_scorers(job.arrcoc);
}

std::int64_t text_tokens(const Job& job) { return job.model.seq_len - job.arrcoc.budget; }

}  // namespace trireme::config
