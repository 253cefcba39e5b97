#include "trireme/checkpoint/convert/peft_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/adapters.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/values.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/shown.h"
#include "trireme/model/families/describe.h"

namespace trireme::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostRank = 1 << 20;

bool is_empty(const Json& value) {
  return value.is_null() || value == false ||
         ((value.is_array() || value.is_object()) && value.empty());
}

// Features of PEFT that change what an adapter computes, and that a job has no key for.
void refuse_other_adapters(const formats::JsonFields& fields) {
  const auto refuse = [&](const char* key, const std::string& remedy) {
    fail(ErrorKind::kData, "{}: {}={}; {}", fields.where(), key,
         formats::shown_json(fields.any(key)), remedy);
  };
  if (fields.string("peft_type") != "LORA")
    refuse("peft_type", "only LORA is read; merge the adapter into its model with PEFT");
  if (fields.has("bias") && fields.any("bias") != "none")
    refuse("bias", "trained biases have no place among adapters; merge them with PEFT");
  for (const char* key : {"lora_bias", "modules_to_save", "layer_replication", "target_parameters",
                          "trainable_token_indices"})
    if (fields.has(key) && !is_empty(fields.any(key)))
      refuse(key, "no key of a job says this; merge the adapter into its model with PEFT");
}

// The name of a layer, or its end after a dot.
bool fits(std::string_view pattern, std::string_view layer) {
  return layer == pattern ||
         (layer.ends_with(pattern) && layer[layer.size() - pattern.size() - 1] == '.');
}

void read_patterns(const formats::JsonFields& fields, PeftConfig& config) {
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    if (!fields.has(key) || is_empty(fields.any(key))) continue;
    const formats::JsonFields patterns(fields.object(key), fields.where() + ": " + key);
    for (const auto& [layer, number] : fields.object(key).items()) {
      if (*key == 'r')
        config.ranks[layer] = patterns.integer(layer.c_str(), 1, kMostRank);
      else
        config.alphas[layer] = patterns.number(layer.c_str());
    }
  }
}

Path base_of(const PeftConfig& config, const Path& directory, const Path& given) {
  if (!given.empty()) {
    if (is_hugging_face(given)) return given;
    fail(ErrorKind::kUsage,
         "--base {}: no Hugging Face directory (config.json and safetensors); give that of the "
         "model which the adapter was trained on",
         given.string());
  }
  for (const Path& place : {Path(config.base), directory / config.base})
    if (!config.base.empty() && is_hugging_face(place)) return place;
  fail(ErrorKind::kUsage,
       "{}: its model, base_model_name_or_path={}, is no Hugging Face directory here; give it with "
       "--base",
       (directory / kAdapterConfigName).string(), formats::shown(config.base));
}

Path tensors_of(const Path& directory) {
  const Path file = directory / kAdapterModelName;
  if (!is_there(file)) refuse_pickles(directory, {"adapter_model.bin"});
  return file;
}

constexpr config::LoraTargets kTargets[] = {
    config::LoraTargets::kAll, config::LoraTargets::kAttention, config::LoraTargets::kQueryValue,
    config::LoraTargets::kMlp};

// Nothing where the model cannot have adapters of these layers alone.
std::optional<config::Job> with_adapters(const config::Job& base, config::Lora lora,
                                         config::LoraTargets targets) {
  config::Job job = base;
  lora.targets = targets;
  job.lora = lora;
  const config::DatasetFacts facts{.vocab = job.model.vocab, .classes = job.vision.classes};
  try {
    return config::resolve(std::move(job), 1, facts);
  } catch (const Error&) {
    if (targets == config::LoraTargets::kAll) throw;
    return std::nullopt;
  }
}

// Nothing where PEFT's files have no place for one of the adapters.
std::optional<std::vector<AdapterTensor>> tensors_there(const config::Job& job,
                                                        const model::ModelSpec& model,
                                                        const Names& names, FusedForm form) {
  try {
    return adapter_tensors(job, model, names, form);
  } catch (const Error&) {
    return std::nullopt;
  }
}

using Shapes = std::map<std::string, std::vector<std::int64_t>>;
Shapes shapes_of(const std::vector<AdapterTensor>& tensors) {
  Shapes shapes;
  for (const AdapterTensor& tensor : tensors) shapes[tensor.name] = tensor.shape;
  return shapes;
}

bool same_names(const Shapes& a, const Shapes& b) {
  return std::ranges::equal(a, b, {}, &Shapes::value_type::first, &Shapes::value_type::first);
}

}  // namespace

bool is_peft(const Path& directory) {
  std::error_code cause;
  return fs::is_regular_file(directory / kAdapterConfigName, cause) &&
         !fs::exists(directory / formats::kManifestName, cause);
}

void refuse_peft(const Path& directory) {
  if (is_peft(directory))
    fail(ErrorKind::kData,
         "{}: has adapters of PEFT, without their model; make a checkpoint of both: trireme "
         "checkpoint convert {} OUT",
         directory.string(), directory.string());
}

PeftConfig peft_config(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  const formats::JsonFields fields(json, what);
  refuse_other_adapters(fields);
  PeftConfig config;
  config.lora.rank = fields.integer("r", 1, kMostRank);
  config.lora.alpha = fields.number("lora_alpha");
  if (fields.has("use_rslora") && fields.boolean("use_rslora"))
    config.lora.scaling = config::LoraScaling::kRootRank;
  config.lora.dora = fields.has("use_dora") && fields.boolean("use_dora");
  read_patterns(fields, config);
  if (fields.has("lora_dropout")) config.lora.dropout = fields.number("lora_dropout");
  if (fields.has("base_model_name_or_path") && fields.any("base_model_name_or_path").is_string())
    config.base = fields.string("base_model_name_or_path");
  if (fields.has("target_modules") && fields.any("target_modules").is_array())
    for (const Json& target : fields.array("target_modules")) {
      if (!target.is_string())
        fail(ErrorKind::kData, "{}: target_modules has {}; needs names of layers", what,
             formats::shown_json(target));
      config.targets.push_back(target.get<std::string>());
    }
  config::Job job;
  job.lora = config.lora;
  within_ranges(job, what);
  return config;
}

PeftWeights::PeftWeights(const Path& directory, const Path& base)
    : PeftWeights(directory, base,
                  peft_config(read_file(directory / kAdapterConfigName),
                              (directory / kAdapterConfigName).string())) {}

PeftWeights::PeftWeights(const Path& directory, const Path& base, const PeftConfig& config)
    : directory_(directory),
      base_path_(base_of(config, directory, base)),
      file_(tensors_of(directory)),
      base_(base_path_) {
  choose_targets(config);
  add_adapters(config);
}

void PeftWeights::check_scale(const PeftConfig& config, const AdapterTensor& tensor) const {
  std::int64_t rank = config.lora.rank;
  double alpha = config.lora.alpha;
  for (const auto& [layer, own] : config.ranks)
    if (fits(layer, tensor.layer)) rank = own;
  for (const auto& [layer, own] : config.alphas)
    if (fits(layer, tensor.layer)) alpha = own;
  config::Lora there = config.lora;
  there.rank = rank;
  there.alpha = alpha;
  const double scale = config::lora_scale(config.lora);
  constexpr double kRounded = 1e-9;
  if (rank == tensor.ranks() * config.lora.rank &&
      std::abs(config::lora_scale(there) - scale) <= kRounded * scale)
    return;
  fail(ErrorKind::kData,
       "{}: rank_pattern and alpha_pattern give {} rank {} and alpha {:.6g}, and r={} with "
       "lora_alpha={:.6g}: a job has one rank and one scale. Merge the adapter into its model with "
       "PEFT",
       (directory_ / kAdapterConfigName).string(), formats::shown(tensor.layer), rank, alpha,
       config.lora.rank, config.lora.alpha);
}

// PEFT reads a pattern as a regular expression; here it is the end of a layer's name.
void PeftWeights::check_patterns(const PeftConfig& config,
                                 const std::set<std::string>& layers) const {
  const auto check = [&](const char* key, const std::string& pattern) {
    if (std::ranges::any_of(
            layers, [&](const std::string& layer) { return layer.ends_with("." + pattern); }))
      return;
    fail(ErrorKind::kData,
         "{}: {} has {}, which is the end of no adapted layer's name; needs names such as {}, and "
         "no other patterns",
         (directory_ / kAdapterConfigName).string(), key, formats::shown(pattern),
         formats::shown(layers.begin()->substr(1)));
  };
  for (const auto& [pattern, rank] : config.ranks) check("rank_pattern", pattern);
  for (const auto& [pattern, alpha] : config.alphas) check("alpha_pattern", pattern);
}

void PeftWeights::check_blocks(const AdapterTensor& adapter, const formats::Tensor& tensor) const {
  if (adapter.matrix != AdapterMatrix::kUp || adapter.ranks() == 1) return;
  const std::size_t width = size_of(tensor.dtype);
  std::vector<std::vector<std::byte>> own;
  for (std::size_t of = 0; of < adapter.pieces.size(); ++of)
    own.push_back(adapter.piece(of, tensor.bytes, width));
  std::size_t of = 0;
  const std::vector<std::byte> blocks =
      adapter.joined(width, [&](const Slot&) { return own[of++]; });
  if (!std::ranges::equal(blocks, tensor.bytes))
    fail(ErrorKind::kData,
         "{}: {} is not zero outside of its {} blocks, so that its layers share an adapter of rank "
         "{}; merge it into its model with PEFT",
         (directory_ / kAdapterModelName).string(), formats::shown(adapter.name), adapter.ranks(),
         adapter.shape[1]);
}

void PeftWeights::add_adapters(const PeftConfig& config) {
  std::set<std::string> layers;
  for (std::size_t index = 0; index < tensors_.size(); ++index) {
    const AdapterTensor& adapter = tensors_[index];
    const formats::Tensor& tensor = *file_.find(adapter.name);
    const std::vector<std::int64_t>& needed = adapter.shape;
    if (tensor.shape != needed)
      fail(ErrorKind::kData, "{}: {} is [{}], rank {} of this model needs [{}]",
           (directory_ / kAdapterModelName).string(), formats::shown(adapter.name),
           fmt::join(tensor.shape, ", "), config.lora.rank, fmt::join(needed, ", "));
    if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16)
      fail(ErrorKind::kData, "{}: {} is {}; needs F32, BF16 or F16",
           (directory_ / kAdapterModelName).string(), formats::shown(adapter.name),
           formats::safetensors_type(tensor.dtype));
    check_scale(config, adapter);
    check_blocks(adapter, tensor);
    for (std::size_t of = 0; of < adapter.pieces.size(); ++of)
      adapters_[adapter.pieces[of].slot.param->name] = {index, of};
    layers.insert("." + adapter.layer);
  }
  check_patterns(config, layers);
  for (const std::string& target : config.targets)
    if (std::ranges::none_of(layers,
                             [&](const auto& layer) { return layer.ends_with("." + target); }))
      fail(ErrorKind::kData, "{}: target_modules has {}, but {} has no adapter of such a layer",
           (directory_ / kAdapterConfigName).string(), formats::shown(target), kAdapterModelName);
}

// The targets, and the form of fused layers, whose adapters are exactly the tensors of the file; or with its names alone,
// for shapes to be refused one by one.
void PeftWeights::choose_targets(const PeftConfig& config) {
  Shapes there;
  for (const formats::Tensor& tensor : file_.tensors()) there[tensor.name] = tensor.shape;
  Shapes of_all;
  bool named = false;
  for (const config::LoraTargets targets : kTargets) {
    std::optional<config::Job> job = as_job((directory_ / kAdapterConfigName).string(), [&] {
      return with_adapters(base_.job(), config.lora, targets);
    });
    if (!job) continue;
    const auto model = std::make_shared<const model::ModelSpec>(model::describe(*job));
    for (const FusedForm form : {FusedForm::kStacked, FusedForm::kShared}) {
      std::optional<std::vector<AdapterTensor>> tensors =
          tensors_there(*job, *model, base_.table(), form);
      if (!tensors) continue;
      const Shapes shapes = shapes_of(*tensors);
      if (targets == config::LoraTargets::kAll) of_all = shapes;
      const bool same = shapes == there;
      if (!same && (named || !same_names(shapes, there))) continue;
      named = true;
      job_ = *job;
      model_ = model;
      tensors_ = *std::move(tensors);
      if (same) return;
    }
  }
  if (!named) refuse_tensors(there, of_all);
}

void PeftWeights::refuse_tensors(const Shapes& there, const Shapes& of_all) const {
  const std::string where = (directory_ / kAdapterModelName).string();
  const auto is_magnitude = [](const auto& tensor) {
    return tensor.first.ends_with(".lora_magnitude_vector");
  };
  if (std::ranges::any_of(of_all, is_magnitude) && std::ranges::none_of(there, is_magnitude))
    fail(ErrorKind::kData,
         "{}: has no lora_magnitude_vector, which use_dora of {} needs; copy both files again",
         where, kAdapterConfigName);
  for (const auto& [name, shape] : there)
    if (!of_all.contains(name))
      fail(ErrorKind::kData, "{}: {} is no adapter of a linear layer of this model", where,
           formats::shown(name));
  const auto lacking = std::ranges::find_if(
      of_all, [&](const auto& tensor) { return !there.contains(tensor.first); });
  fail(
      ErrorKind::kData,
      "{}: has no {}; lora.targets are all layers of a block (all), attention, mlp, or queries and "
      "values (query_value). Merge other adapters into their model with PEFT",
      where, lacking == of_all.end() ? "adapter of any layer" : lacking->first);
}

std::vector<std::byte> PeftWeights::read(const model::ParamSpec& param) const {
  const auto found = adapters_.find(param.name);
  if (found == adapters_.end()) return base_.read(param);
  const auto& [index, of] = found->second;
  const formats::Tensor& tensor = *file_.find(tensors_[index].name);
  const std::vector<std::byte> own = tensors_[index].piece(of, tensor.bytes, size_of(tensor.dtype));
  std::vector<std::byte> values(static_cast<std::size_t>(param.numel()) * sizeof(float));
  for (std::int64_t i = 0; i < param.numel(); ++i) {
    const auto value = static_cast<float>(value_at(own, tensor.dtype, i));
    std::memcpy(values.data() + static_cast<std::size_t>(i) * sizeof(float), &value, sizeof value);
  }
  return values;
}

}  // namespace trireme::convert
