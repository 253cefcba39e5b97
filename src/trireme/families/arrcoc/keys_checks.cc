#include "trireme/families/arrcoc/keys_checks.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/head_width.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
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

bool has_gpt(const Job& job) { return job.arrcoc.decoder == RegionDecoder::kGpt; }
bool trains_scorers(const Arrcoc& arrcoc) {
  return arrcoc.allocation == Allocation::kLearned && arrcoc.gate;
}

// Tokens of an image whose regions have so many a side.
double tokens_of(const Job& job, std::int64_t side) {
  return static_cast<double>(job.arrcoc.grid * job.arrcoc.grid * side * side);
}
std::int64_t vocab_of(const Job& job) { return asks_regions(job) ? kQuadrantVocab : kVlmVocab; }

std::vector<Rule> region_rules() {
  const Number texture("{} pixels of texture", [](const Job& job) {
    return static_cast<double>(std::min<std::int64_t>(job.vision.image, 256));
  });
  constexpr std::string_view kGrid = "the regions of a side";
  return {
      {"projector-grid", refused("projector.kind=merger|qformer|perceiver",
                                 "{model.family} needs a token for each feature",
                                 "set projector.kind=mlp, linear or none")},
      {"no-projector",
       equal_to("vision.hidden", "model.hidden", "{projector.kind} makes tokens of features",
                "projector.kind=linear"),
       [](const Job& job) { return job.projector.kind == ProjectorKind::kNone; }},
      {"grid", multiple_of("vision.image", "arrcoc.grid", kGrid)},
      {"texture", multiple_of(texture, "arrcoc.grid", kGrid)},
      {"quadrants", needs("data.source=quadrants", {"arrcoc.grid=2"},
                          "its questions are about four regions", "data.source=pairs")},
      {"turned-regions",
       turned_heads("vision.hidden", "vision.heads", {.axes = " over row and column", .least = 4})},
  };
}

std::vector<Rule> gpt_region_rules() {
  return only_for(
      has_gpt,
      {{"gpt-blocks", refused("model.head_dim,model.qkv_bias,model.qk_norm,model.attention_layers",
                              "{arrcoc.decoder} does not use it")},
       {"gpt-kv-heads",
        equal_to("model.kv_heads", "model.heads",
                 "{arrcoc.decoder} has one key-value head per head", "model.kv_heads=0"),
        [](const Job& job) { return job.model.kv_heads != 0; },
        [](Job& job, const Given&) {
          if (has_gpt(job) && job.model.ffn == 0) job.model.ffn = 4 * job.model.hidden;
        }},
       {"gpt-lora", refused("lora.targets=query_value with lora.rank",
                            "queries, keys and values of {arrcoc.decoder} are one layer",
                            "set lora.targets=attention")}});
}

std::vector<Rule> budget_rules() {
  const Number least("({arrcoc.grid} x the first of {arrcoc.sides})^2 = {} tokens",
                     [](const Job&job) { return tokens_of(job, job.arrcoc.least); }),
      most("({arrcoc.grid} x the second of {arrcoc.sides})^2 = {} tokens",
           [](const Job&job) { return tokens_of(job, job.arrcoc.most); }),
      row("{arrcoc.budget} tokens of an image with those of a question = {}", [](const Job&job) {
        return static_cast<double>(job.arrcoc.budget + (asks_regions(job) ? 1 : 2));
      });
  return {
      {"sides", refused("arrcoc.sides", "the first is not below the second", "lower it"),
       [](const Job& job) { return job.arrcoc.least >= job.arrcoc.most; }},
      {"least-budget", at_least("arrcoc.budget", least, "every region has tokens"), nullptr,
       [](Job& job, const Given&) {
         if (job.arrcoc.budget == 0)
           job.arrcoc.budget = static_cast<std::int64_t>(
               std::min(tokens_of(job, job.arrcoc.most), 9 * tokens_of(job, job.arrcoc.least) / 4));
       }},
      {"most-budget", at_most("arrcoc.budget", most, "no region has more tokens")},
      {"question", at_least("model.seq_len", row, "a row has both")},
  };
}

// Two axes of a region, three of an image and what follows it.
void share_out_head(Job& job, const Given&) {
  if (!job.vlm.mrope.empty()) return;
  const std::int64_t half = head_width(job.model) / 2, plane = 3 * half / 8;
  job.vlm.mrope = fmt::format("{},{},{}", half - 2 * plane, plane, plane);
}
std::vector<Rule> position_rules() {
  const Number channels("{} channels a head ({model.head_dim}, or {model.hidden} / {model.heads})",
                        [](const Job& job) { return static_cast<double>(head_width(job.model)); });
  return {
      {"axes",
       at_least(channels, 6, "positions in time, row and column need a pair each", "set vlm.mrope"),
       [](const Job& job) { return job.vlm.mrope.empty(); }},
      {.id = "head-axes", .fill = share_out_head},
      mrope_rule()};
}

void resolve_widths(Job& job, const Given&) {
  Arrcoc& arrcoc = job.arrcoc;
  if (arrcoc.coupling == 0) arrcoc.coupling = arrcoc.hidden / 2;
  if (arrcoc.balancer == 0) arrcoc.balancer = arrcoc.hidden;
}

std::vector<Rule> scorer_rules() {
  return {
      {"channels", [](const Job& job) { texture_channels(job.arrcoc); }, nullptr, resolve_widths},
      {"scorers", [](const Job& job) { scored(job.arrcoc); }},
      {"training-scorers",
       refused("arrcoc.scorers,arrcoc.penalties,arrcoc.gate",
               "a budget that is chosen and penalties need scorers that train",
               "name them in arrcoc.scorers and set arrcoc.gate=true, or leave it out"),
       [](const Job& job) {
         const Arrcoc& arrcoc = job.arrcoc;
         return (arrcoc.learn_budget || charges(arrcoc)) && !trains_scorers(arrcoc);
       }},
      {"whole-budget",
       refused("arrcoc.penalties", "all of the budget is always used, so its cost has no effect",
               "set {arrcoc.scorers},budget, or leave it out"),
       [](const Job& job) { return job.arrcoc.budget_weight > 0 && !job.arrcoc.learn_budget; }},
  };
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

std::vector<Rule> arrcoc_rules() {
  return joined(
      {{reads("data.source=quadrants|pairs", "it reads images with questions about them")},
       tower_rules(),
       region_rules(),
       gpt_region_rules(),
       {{"arrcoc-vocab",
         at_least("model.vocab", Number("{}", vocab_of), "samples have ids up to it",
                  "set model.vocab=0"),
         nullptr,
         [](Job& job, const Given&) {
           if (job.model.vocab == 0) job.model.vocab = vocab_of(job);
         }}},
       decoder_rules(),
       budget_rules(),
       position_rules(),
       scorer_rules()});
}

std::int64_t text_tokens(const Job& job) { return job.model.seq_len - job.arrcoc.budget; }

}  // namespace trireme::config
