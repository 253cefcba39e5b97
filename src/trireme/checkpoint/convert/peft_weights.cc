#include "trireme/checkpoint/convert/peft_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
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
  for (const char* key :
       {"use_dora", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern",
        "layer_replication", "target_parameters", "trainable_token_indices"})
    if (fields.has(key) && !is_empty(fields.any(key)))
      refuse(key, "no key of a job says this; merge the adapter into its model with PEFT");
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

// Names of adapters in PEFT's files; nothing where these have no place for one of them.
std::optional<std::set<std::string>> names_there(const config::Job& job,
                                                 const model::ModelSpec& model,
                                                 const Names& table) {
  std::set<std::string> names;
  try {
    for (const AdapterTensor& adapter : adapter_tensors(job, model, &table))
      names.insert(adapter.name);
  } catch (const Error&) {
    return std::nullopt;
  }
  return names;
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
  constexpr std::int64_t kMostRank = 1 << 20;
  config.lora.rank = fields.integer("r", 1, kMostRank);
  config.lora.alpha = fields.number("lora_alpha");
  // Adapters of rank-stabilised LoRA (Kalajdzievski 2023) are scaled by alpha over the root of the rank.
  if (fields.has("use_rslora") && fields.boolean("use_rslora"))
    config.lora.alpha *= std::sqrt(static_cast<double>(config.lora.rank));
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

void PeftWeights::add_adapters(const PeftConfig& config) {
  std::set<std::string> layers;
  for (const AdapterTensor& adapter : adapter_tensors(job_, model_, &base_.table())) {
    const formats::Tensor& tensor = *file_.find(adapter.name);
    const std::vector<std::int64_t>& needed = adapter.slot.param->shape;
    if (tensor.shape != needed)
      fail(ErrorKind::kData, "{}: {} is [{}], rank {} of this model needs [{}]",
           (directory_ / kAdapterModelName).string(), formats::shown(adapter.name),
           fmt::join(tensor.shape, ", "), config.lora.rank, fmt::join(needed, ", "));
    if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16)
      fail(ErrorKind::kData, "{}: {} is {}; needs F32, BF16 or F16",
           (directory_ / kAdapterModelName).string(), formats::shown(adapter.name),
           formats::safetensors_type(tensor.dtype));
    adapters_[adapter.slot.param->name] = &tensor;
    layers.insert("." + adapter.layer);
  }
  for (const std::string& target : config.targets)
    if (std::ranges::none_of(layers,
                             [&](const auto& layer) { return layer.ends_with("." + target); }))
      fail(ErrorKind::kData, "{}: target_modules has {}, but {} has no adapter of such a layer",
           (directory_ / kAdapterConfigName).string(), formats::shown(target), kAdapterModelName);
}

// The targets whose adapters are exactly the tensors of the file.
void PeftWeights::choose_targets(const PeftConfig& config) {
  std::set<std::string> there;
  for (const formats::Tensor& tensor : file_.tensors()) there.insert(tensor.name);
  std::set<std::string> of_all;
  for (const config::LoraTargets targets : kTargets) {
    std::optional<config::Job> job = as_job((directory_ / kAdapterConfigName).string(), [&] {
      return with_adapters(base_.job(), config.lora, targets);
    });
    if (!job) continue;
    model::ModelSpec model = model::describe(*job);
    std::optional<std::set<std::string>> names = names_there(*job, model, base_.table());
    if (!names) continue;
    if (*names == there) {
      job_ = std::move(*job);
      model_ = std::move(model);
      return;
    }
    if (targets == config::LoraTargets::kAll) of_all = *std::move(names);
  }
  const std::string where = (directory_ / kAdapterModelName).string();
  if (of_all.empty())
    fail(ErrorKind::kData,
         "{}: of this model, whose queries, keys and values are one layer there, adapters of all "
         "feed-forward layers can be read (lora.targets=mlp); merge these into their model with "
         "PEFT",
         where);
  for (const std::string& name : there)
    if (!of_all.contains(name))
      fail(ErrorKind::kData, "{}: {} is no adapter of a linear layer of this model", where,
           formats::shown(name));
  const auto lacking =
      std::ranges::find_if(of_all, [&](const auto& name) { return !there.contains(name); });
  fail(
      ErrorKind::kData,
      "{}: has no {}; lora.targets are all layers of a block (all), attention, mlp, or queries and "
      "values (query_value). Merge other adapters into their model with PEFT",
      where, *lacking);
}

std::vector<std::byte> PeftWeights::read(const model::ParamSpec& param) const {
  const auto found = adapters_.find(param.name);
  if (found == adapters_.end()) return base_.read(param);
  const formats::Tensor& tensor = *found->second;
  std::vector<std::byte> values(static_cast<std::size_t>(tensor.numel()) * sizeof(float));
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const auto value = static_cast<float>(value_at(tensor.bytes, tensor.dtype, i));
    std::memcpy(values.data() + static_cast<std::size_t>(i) * sizeof(float), &value, sizeof value);
  }
  return values;
}

}  // namespace trireme::convert
