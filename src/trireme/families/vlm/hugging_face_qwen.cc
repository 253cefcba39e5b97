// Qwen3-VL: a tower with a table of positions and rotary ones, mergers of 2 x 2 features, and Qwen3.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/families.h"
#include "trireme/config/sections/mrope.h"
#include "trireme/families/vit/hugging_face.h"
#include "trireme/families/vlm/hugging_face.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using config::Vision;
using formats::JsonFields;

namespace {

constexpr const char *kTower = "qwen3_vl", *kText = "qwen3_vl_text", *kDecoder = "qwen3";

constexpr std::array kSizes = {Size<Vision>{"depth", &Vision::layers, 27, kMostLayers},
                               Size<Vision>{"hidden_size", &Vision::hidden, 1152},
                               Size<Vision>{"intermediate_size", &Vision::ffn, 4304},
                               Size<Vision>{"num_heads", &Vision::heads, 16},
                               Size<Vision>{"patch_size", &Vision::patch, 16},
                               Size<Vision>{"temporal_patch_size", &Vision::tubelet, 2}};
constexpr std::int64_t kPositions = 2304, kOutput = 3584;
constexpr std::array<std::int64_t, 3> kDeepstack = {8, 16, 24}, kMropeSections = {24, 20, 20};
constexpr double kTheta = 5e6, kEps = 1e-6;
constexpr std::int64_t kImageToken = 151655;
// Marks around a picture in a text, and of clips. Their tokenizers have them, a job does not.
constexpr std::array kMarks = {std::pair{"vision_start_token_id", 151652},
                               std::pair{"vision_end_token_id", 151653},
                               std::pair{"video_token_id", 151656}};

Json object_of(const JsonFields& fields, const char* key) {
  return says(fields, key) ? fields.object(key) : Json::object();
}

// Whole numbers of a list, with commas between them.
template <std::size_t kCount>
std::vector<std::int64_t> numbers_of(const JsonFields& fields, const char* key,
                                     const std::array<std::int64_t, kCount>& otherwise) {
  if (!says(fields, key)) return {otherwise.begin(), otherwise.end()};
  std::vector<std::int64_t> numbers;
  for (const Json& one : fields.array(key))
    numbers.push_back(formats::json_integer(one, fields.where() + ": " + key, 0, kMostSize));
  return numbers;
}

// Rows, and as many columns, of a table of so many positions.
std::int64_t grid_of(const JsonFields& tower) {
  const std::int64_t positions = size_or(tower, "num_position_embeddings", kPositions);
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(positions)));
  if (side * side != positions)
    fail(ErrorKind::kData,
         "{}: num_position_embeddings is {}; needs a square, such as {}, as the table has as many "
         "rows as columns",
         tower.where(), positions, kPositions);
  return side;
}

void read_qwen_tower(const JsonFields& tower, Job& job) {
  need(tower, "model_type", kTower);
  need_plain_tower(tower, "in_channels");
  need(tower, "spatial_merge_size", 2);
  Vision& vision = job.vision;
  read_sizes(tower, kSizes, vision);
  need_multiple(tower, {"hidden_size", vision.hidden}, {"num_heads", vision.heads});
  vision.frames = vision.tubelet;
  vision.activation = activation_of(tower, "gelu_pytorch_tanh");
  vision.position_grid = grid_of(tower);
  // As many tokens as the table has places, in squares of 2 x 2.
  vision.image = std::max<std::int64_t>(1, vision.position_grid / 2) * 2 * vision.patch;
  vision.pixels = "siglip";
  job.vlm.deepstack =
      fmt::format("{}", fmt::join(numbers_of(tower, "deepstack_visual_indexes", kDeepstack), ","));
}

// Frequencies of each axis; where they are is a key of the older files and of the newer ones.
std::string mrope_of(const JsonFields& decoder) {
  const char* key = says(decoder, "rope_scaling") ? "rope_scaling" : "rope_parameters";
  const Json rope = object_of(decoder, key), newer = object_of(decoder, "rope_parameters");
  if (!newer.empty() && newer != rope)
    fail(ErrorKind::kData,
         "{}: rope_scaling and rope_parameters differ; needs one of them, or the same in both",
         decoder.where());
  const JsonFields fields(rope, fmt::format("{}: {}", decoder.where(), key));
  need(fields, "mrope_interleaved", true);
  const std::vector<std::int64_t> sections = numbers_of(fields, "mrope_section", kMropeSections);
  if (sections.size() != kMropeSections.size())
    fail(ErrorKind::kData, "{}: mrope_section has {} numbers; needs 3, such as [24, 20, 20]",
         fields.where(), sections.size());
  return fmt::format("{} interleaved", fmt::join(sections, ","));
}

void read_qwen3_vl(const JsonFields& fields, Job& job) {
  for (const auto& [key, id] : kMarks) need(fields, key, id);
  const Json vision = object_of(fields, "vision_config");
  const JsonFields tower(vision, fields.where() + ": vision_config");
  read_qwen_tower(tower, job);
  const std::string where = fields.where() + ": text_config";
  Json decoder = object_of(fields, "text_config");
  const JsonFields text(decoder, where);
  need(text, "model_type", kText);
  job.vlm.mrope = mrope_of(text);
  job.vlm.tokens = {size_or(fields, "image_token_id", kImageToken),
                    token_id_of(text, {"eos_token_id"})};
  decoder["model_type"] = kDecoder;
  decoder.erase("architectures");
  if (!says(text, "rope_theta")) decoder["rope_theta"] = kTheta;  // unless its object has one
  if (!says(text, "tie_word_embeddings") && says(fields, "tie_word_embeddings"))
    decoder["tie_word_embeddings"] = fields.boolean("tie_word_embeddings");
  read_decoder(decoder, where, kDecoder, job);
  const std::int64_t out = size_or(tower, "out_hidden_size", kOutput);
  if (out != job.model.hidden)
    fail(ErrorKind::kData, "{}: out_hidden_size is {}; needs {}, the hidden_size of text_config",
         tower.where(), out, job.model.hidden);
}

Json deepstack_of(const Job& job) {
  Json list = Json::array();
  for (const std::int64_t layer : config::deepstack_layers(job)) list.push_back(layer);
  return list;
}

Json written_tower(const Job& job) {
  Json tower{{"model_type", kTower}};
  write_sizes(tower, kSizes, job.vision);
  tower.update({{"in_channels", 3},
                {"hidden_act", name_of(job.vision.activation)},
                {"spatial_merge_size", 2},
                {"out_hidden_size", job.model.hidden},
                {"num_position_embeddings", job.vision.position_grid * job.vision.position_grid},
                {"deepstack_visual_indexes", deepstack_of(job)}});
  return tower;
}

Json written_decoder(const Job& job) {
  Json decoder = Json::parse(hugging_face_config(decoder_of(job)));
  if (decoder["model_type"] != kDecoder)
    fail(ErrorKind::kUsage,
         "model.qk_norm={}: config.json of a Qwen3VLForConditionalGeneration has {} for its "
         "decoder, and this one is a {}",
         job.model.qk_norm, kDecoder, decoder["model_type"].get<std::string>());
  const config::Mrope mrope = config::parse_mrope(job.vlm.mrope);
  decoder.erase("architectures");
  decoder.update({{"model_type", kText},
                  {"eos_token_id", job.vlm.tokens[1]},
                  {"rope_scaling",
                   {{"rope_type", "default"},
                    {"mrope_section", mrope.sections},
                    {"mrope_interleaved", true}}}});
  return decoder;
}

void refuse_positions(const Job& job) {
  const bool interleaved = !job.vlm.mrope.empty() && config::parse_mrope(job.vlm.mrope).interleaved;
  if (!interleaved || !job.model.rope_scaling.empty())
    fail(ErrorKind::kUsage,
         "vlm.mrope={} with model.rope_scaling={}: config.json of a "
         "Qwen3VLForConditionalGeneration has interleaved sections, such as \"24,20,20 "
         "interleaved\", and unscaled frequencies",
         job.vlm.mrope, job.model.rope_scaling);
  if (job.vision.position_grid == 0)
    fail(ErrorKind::kUsage,
         "vision.position_grid=0: config.json of a Qwen3VLForConditionalGeneration has the size of "
         "a table for images of any size; set it to the tokens on a side");
}

void write_qwen3_vl(const Job& job, Json& json) {
  refuse_positions(job);
  json.update({{"vision_config", written_tower(job)},
               {"text_config", written_decoder(job)},
               {"image_token_id", job.vlm.tokens[0]},
               {"tie_word_embeddings", job.model.tied}});
  for (const auto& [key, id] : kMarks) json[key] = id;
}

// A still fills the frames of one patch, so that the weights of all frames are kept as they are.
void as_qwen3_vl(Job& job) {
  job.vision.frames = job.vision.tubelet;
  job.vision.positions = config::Positions::kLearnedRotary;
  job.vision.pooling = config::Pooling::kMean;
  job.vision.pre_norm = false;
  job.vision.norm_eps = kEps;
  job.projector = {.kind = config::ProjectorKind::kMerger};
  job.vlm.layer = -1;
  job.vlm.max_tiles = 0;
  job.vlm.fit = config::VlmFit::kTall;
  job.vlm.cross = config::Vlm{}.cross;
}

constexpr std::array kRules = {
    Rule{"vision_tower.patch_embed.proj.weight", "model.visual.patch_embed.proj.weight",
         Form::kPatches},
    Rule{"vision_tower.pos_embed", "model.visual.pos_embed.weight"},
    Rule{"vision_tower.blocks.*.mlp.fc1.*", "model.visual.blocks.*.mlp.linear_fc1.*"},
    Rule{"vision_tower.blocks.*.mlp.fc2.*", "model.visual.blocks.*.mlp.linear_fc2.*"},
    Rule{"vision_tower.**", "model.visual.**"},
    Rule{"multi_modal_projector.norm.*", "model.visual.merger.norm.*"},
    Rule{"multi_modal_projector.linear_1.*", "model.visual.merger.linear_fc1.*"},
    Rule{"multi_modal_projector.linear_2.*", "model.visual.merger.linear_fc2.*"},
    Rule{"deepstack_projectors.*.norm.*", "model.visual.deepstack_merger_list.*.norm.*"},
    Rule{"deepstack_projectors.*.linear_1.*", "model.visual.deepstack_merger_list.*.linear_fc1.*"},
    Rule{"deepstack_projectors.*.linear_2.*", "model.visual.deepstack_merger_list.*.linear_fc2.*"},
    Rule{"model.**", "model.language_model.**"},
    Rule{"**", "**"},
};

}  // namespace

HuggingFaceClass qwen3_vl_class() {
  return {DataSource::kScenes, "qwen3_vl",     "Qwen3VLForConditionalGeneration", as_qwen3_vl,
          read_qwen3_vl,       write_qwen3_vl, "Qwen2VLImageProcessorFast"};
}

Names qwen3_vl_names() {
  return {
      .name = "Qwen3VLForConditionalGeneration",
      .rules = kRules,
      .decoder = "language_model",
      .idle = "*.rotary_emb.inv_freq,lm_head.weight",
      .fits = [](const Job& job) { return job.projector.kind == config::ProjectorKind::kMerger; }};
}

}  // namespace trireme::convert
