// H-Net's own config.json, as its reference code reads it: lists with one entry a stage, and no model_type.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/families/hnet/keys_stages.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::DataSource;
using config::HnetStage;
using config::Job;
using formats::JsonFields;

namespace {

constexpr std::int64_t kFeatures =
    128;  // the reference rounds widths of feed-forward layers up to a multiple
constexpr std::int64_t kBytes = 8192;  // of a sequence that the published models are trained on

bool attends(const HnetStage& stage) { return stage.has('t') || stage.has('T'); }

// ["m4", ["T22"], "m4"] as "m4,[T22],m4".
std::string layout_of(const Json& list, const std::string& where) {
  const bool nested = list.is_array() && list.size() == 3 && list[0].is_string() &&
                      list[1].is_array() && list[2].is_string();
  if (nested)
    return fmt::format("{},[{}],{}", list[0].get_ref<const std::string&>(),
                       layout_of(list[1], where), list[2].get_ref<const std::string&>());
  if (!list.is_array() || list.size() != 1 || !list[0].is_string())
    fail(ErrorKind::kData,
         "{}: arch_layout has {}; needs [ENCODER, [INNER], DECODER] with blocks such as \"m4\", "
         "and [BLOCKS] innermost",
         where, formats::shown_json(list));
  return list[0].get<std::string>();
}

Json layout_json(const std::vector<HnetStage>& stages, std::size_t s) {
  const auto blocks = [](const std::string& letters) {
    std::string text;
    for (std::size_t i = 0, end = 0; i < letters.size(); i = end) {
      end = std::min(letters.find_first_not_of(letters[i], i), letters.size());
      text += fmt::format("{}{}", letters[i], end - i);
    }
    return text;
  };
  if (stages[s].inner()) return Json::array({blocks(stages[s].encoder)});
  return Json::array(
      {blocks(stages[s].encoder), layout_json(stages, s + 1), blocks(stages[s].decoder)});
}

// A list of one entry a stage.
std::vector<std::int64_t> integers(const JsonFields& fields, const char* key, std::size_t stages,
                                   std::int64_t low) {
  std::vector<std::int64_t> values;
  for (const Json& value : fields.array(key))
    values.push_back(
        formats::json_integer(value, fmt::format("{}: {}", fields.where(), key), low, kMostSize));
  if (values.size() != stages)
    fail(ErrorKind::kData, "{}: {} has {} entries; arch_layout has {} stages, each needs one",
         fields.where(), key, values.size(), stages);
  return values;
}

std::string joined(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values)
    text += fmt::format("{}{}", text.empty() ? "" : ",", value);
  return text;
}

// Rotary positions are those of half a head.
void check_rotated(const JsonFields& attention, const std::vector<HnetStage>& stages) {
  const std::vector<std::int64_t> rotated = integers(attention, "rotary_emb_dim", stages.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::int64_t half = stages[s].hidden / stages[s].heads / 2;
    if (attends(stages[s]) && rotated[s] != half)
      fail(ErrorKind::kData,
           "{}: rotary_emb_dim is [{}]; needs {}, half of a head, for stage {}: other widths are "
           "not built here",
           attention.where(), joined(rotated), half, s);
  }
}

void read_hnet(const JsonFields& fields, Job& job) {
  const JsonFields attention(fields.object("attn_cfg"), fields.where() + ": attn_cfg");
  const JsonFields mamba(fields.object("ssm_cfg"), fields.where() + ": ssm_cfg");
  need(mamba, "d_conv", 4);
  need(mamba, "d_state", 128);
  need(mamba, "expand", 2);
  need(fields, "tie_embeddings", false);
  const std::string layout = layout_of(fields.array("arch_layout"), fields.where());
  const auto routers = static_cast<std::size_t>(std::ranges::count(layout, '['));
  const auto list = [&](const JsonFields& of, const char* key, std::int64_t low) {
    return integers(of, key, routers + 1, low);
  };
  std::vector<std::int64_t> widths = list(fields, "d_intermediate", 0);
  for (std::int64_t& width : widths) width = (width + kFeatures - 1) / kFeatures * kFeatures;
  job.model.vocab = fields.integer("vocab_size", 1, kMostSize);
  job.model.seq_len = kBytes;
  job.hnet = {.layout = layout,
              .hidden = joined(list(fields, "d_model", 1)),
              .heads = joined(list(attention, "num_heads", 1)),
              .ffn = joined(widths),
              .window = joined(list(attention, "window_size", -1))};
  // Which ratios a router aims at is no part of the file: the published models' are these.
  job.hnet.ratio = routers == 1 ? "6" : joined(std::vector<std::int64_t>(routers, 3));
  check_rotated(attention, config::hnet_stages(job.hnet));
}

void write_hnet(const Job& job, Json& json) {
  const std::vector<HnetStage> stages = config::hnet_stages(job.hnet);
  Json widths = Json::array(), inner = Json::array(), heads = Json::array(),
       rotated = Json::array(), windows = Json::array();
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const HnetStage& stage = stages[s];
    if (stage.ffn % kFeatures != 0)
      fail(ErrorKind::kUsage,
           "hnet.ffn={}: the reference code rounds {} of stage {} up to {}; only multiples of {} "
           "can be written as its config.json",
           job.hnet.ffn, stage.ffn, s, (stage.ffn / kFeatures + 1) * kFeatures, kFeatures);
    widths.push_back(stage.hidden), inner.push_back(stage.ffn), heads.push_back(stage.heads);
    rotated.push_back(stage.hidden / stage.heads / 2), windows.push_back(stage.window);
  }
  json = {
      {"arch_layout", layout_json(stages, 0)},
      {"d_model", widths},
      {"d_intermediate", inner},
      {"vocab_size", job.model.vocab},
      {"ssm_cfg", {{"chunk_size", 256}, {"d_conv", 4}, {"d_state", 128}, {"expand", 2}}},
      {"attn_cfg", {{"num_heads", heads}, {"rotary_emb_dim", rotated}, {"window_size", windows}}},
      {"tie_embeddings", false}};
}

// Defaults of the reference code that no file contains.
void as_hnet(Job& job) {
  job.model.norm_eps = 1e-5;
  job.model.rope_theta = 10000;
}

constexpr std::array kHnetRules = {Rule{"**", "**"}};

}  // namespace

FamilyFiles hnet_hugging_face() {
  return {.classes = {{DataSource::kText, "hnet", nullptr, as_hnet, read_hnet, write_hnet}},
          .names = {{.name = "HNetForCausalLM", .rules = kHnetRules}}};
}

}  // namespace trireme::convert
