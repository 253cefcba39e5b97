#include "trireme/checkpoint/convert/adapters.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/hugging_face_names.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/checkpoint/convert/turn.h"
#include "trireme/checkpoint/convert/values.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"
#include "trireme/model/describe.h"
#include "trireme/model/training.h"

namespace trireme::convert {
namespace {

using Bytes = std::vector<std::byte>;

// Parameters of a model by name, with their place among its units.
struct Slot {
  std::size_t unit = 0, index = 0;
  const model::ParamSpec* param = nullptr;
};
using Slots = std::map<std::string, Slot, std::less<>>;

Slots slots_of(const model::ModelSpec& model) {
  Slots slots;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    for (std::size_t i = 0; i < model.units[unit].params.size(); ++i) {
      const model::ParamSpec& param = model.units[unit].params[i];
      slots[param.name] = {unit, i, &param};
    }
  return slots;
}

// "q_proj.lora_A.weight" of "q_proj.weight".
std::string adapter_name(const std::string& weight, std::string_view matrix) {
  const std::size_t last = weight.rfind('.');
  return fmt::format("{}.{}{}", weight.substr(0, last), matrix, weight.substr(last));
}

// The one tensor of theirs that is a weight with an adapter.
Part part_of(const config::Job& job, const model::ParamSpec& weight) {
  std::vector<Part> parts = parts_of(*names_of(job).front(), job, weight);
  TRIREME_CHECK(parts.size() == 1, "{} is {} tensors there", weight.name, parts.size());
  return std::move(parts.front());
}

config::Job without_adapters(config::Job job) {
  job.lora = {};
  job.checkpoint.trainable_only = false;
  return job;
}

void make_new(const Path& out) {
  std::error_code cause;
  if (std::filesystem::exists(out) && !std::filesystem::is_empty(out, cause))
    fail(ErrorKind::kUsage, "{} is not empty; choose another directory", out.string());
  make_directories(out);
}

void refuse_other_units(const Path& checkpoint, const config::Job& job,
                        const model::ModelSpec& model) {
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    if (model.program.units[unit].trainable && !model::holds_adapters(model.units[unit].name))
      fail(
          ErrorKind::kUsage,
          "{}: unit {} trained too (lora.also={}), which adapters cannot hold; merge them into the "
          "weights with --merge",
          checkpoint.string(), model.units[unit].name, job.lora.also);
}

// The layers that have adapters, as PEFT finds them by the ends of their names. Names in a block of GPT-2 need the part
// of the block too.
std::string target_of(config::DecoderBlock block, std::string_view module) {
  std::size_t dot = module.rfind('.');
  if (block == config::DecoderBlock::kGpt) dot = module.rfind('.', dot - 1);
  return std::string(module.substr(dot + 1));
}

Json whole_if_whole(double number) {
  return number == std::floor(number) ? Json(static_cast<std::int64_t>(number)) : Json(number);
}

std::string adapter_config(const config::Job& job, const std::set<std::string>& targets) {
  const Json json = {{"peft_type", "LORA"},
                     {"task_type", "CAUSAL_LM"},
                     {"base_model_name_or_path", job.model.weights},
                     {"r", job.lora.rank},
                     {"lora_alpha", whole_if_whole(job.lora.alpha)},
                     {"lora_dropout", job.lora.dropout},
                     {"target_modules", targets},
                     {"bias", "none"},
                     {"fan_in_fan_out", config::info(job).decoder == config::DecoderBlock::kGpt},
                     {"use_rslora", false},
                     {"use_dora", false},
                     {"modules_to_save", nullptr},
                     {"inference_mode", true}};
  return json.dump(2) + "\n";
}

Kind kind_of_params(const StateReader& stored, std::size_t unit) {
  return stored.kind(unit, "param").value();
}

std::vector<float> widened(std::span<const std::byte> bytes, DType type) {
  std::vector<float> values(bytes.size() / size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(value_at(bytes, type, static_cast<std::int64_t>(i)));
  return values;
}

// In bf16, to the nearest and of two the even one, or as they are.
Bytes narrowed(const std::vector<float>& values, DType type) {
  Bytes bytes(values.size() * size_of(type));
  if (type == DType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto bits = std::bit_cast<std::uint32_t>(values[i]);
    if (!std::isnan(values[i])) bits += 0x7fffU + ((bits >> 16) & 1U);
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(bytes.data() + 2 * i, &half, sizeof half);
  }
  return bytes;
}

// Parameters of a model that are in the checkpoint or, where it leaves them out, in the weights that its run began with.
class Parameters {
 public:
  Parameters(const Path& checkpoint, const config::Job& job, const model::ModelSpec& model)
      : slots_(slots_of(model)), stored_(checkpoint, model.units) {
    const std::string& base = stored_.manifest().base;
    if (base.empty()) return;
    const Path weights = job.model.weights;
    if (const std::string is = identity_of_weights(weights); is != base)
      fail(ErrorKind::kData,
           "{}: its run began with weights whose digest is {}, model.weights={} has {}; put the "
           "original ones there",
           checkpoint.string(), base, weights.string(), is);
    if (is_hugging_face(weights)) {
      published_.emplace(weights);
      base_slots_ = slots_of(published_->model());
      return;
    }
    const formats::Manifest manifest = formats::read_manifest(weights);
    base_model_ = model::describe(config::parse_job(manifest.job, weights.string()));
    base_slots_ = slots_of(base_model_);
    base_.emplace(weights, base_model_.units);
  }

  bool has(std::string_view name) const { return slots_.contains(name); }

  // bf16 where the file has that.
  DType type(const std::string& name) const {
    const Slot& slot = slots_.at(name);
    const DType type = stored_.has(slot.unit) ? kind_of_params(stored_, slot.unit).type
                       : published_           ? published_->type(*base_slots_.at(name).param)
                                    : kind_of_params(*base_, base_slots_.at(name).unit).type;
    return type == DType::kBF16 ? type : DType::kF32;
  }

  std::vector<float> read(const std::string& name) const {
    const Slot& slot = slots_.at(name);
    if (stored_.has(slot.unit)) return read(stored_, slot);
    const Slot& there = base_slots_.at(name);
    return published_ ? widened(published_->read(*there.param), DType::kF32) : read(*base_, there);
  }

 private:
  static std::vector<float> read(const StateReader& from, const Slot& slot) {
    const Kind kind = kind_of_params(from, slot.unit);
    return widened(from.read_whole(slot.unit, slot.index, kind), kind.type);
  }

  Slots slots_, base_slots_;
  StateReader stored_;
  model::ModelSpec base_model_;
  std::optional<HuggingFaceWeights> published_;
  std::optional<StateReader> base_;
};

// W + scale B A, W of `out` rows and A of `rank`.
void add_product(std::vector<float>& w, const std::vector<float>& b, const std::vector<float>& a,
                 std::size_t rank, float scale) {
  const std::size_t rows = b.size() / rank, columns = a.size() / rank;
  std::vector<float> sum(columns);
  for (std::size_t row = 0; row < rows; ++row) {
    std::ranges::fill(sum, 0.0F);
    for (std::size_t k = 0; k < rank; ++k)
      for (std::size_t column = 0; column < columns; ++column)
        sum[column] += b[row * rank + k] * a[k * columns + column];
    for (std::size_t column = 0; column < columns; ++column)
      w[row * columns + column] += scale * sum[column];
  }
}

}  // namespace

void to_peft(const Path& checkpoint, const config::Job& job, const model::ModelSpec& model,
             const Path& out) {
  refuse_other_units(checkpoint, job, model);
  const config::Job plain = without_adapters(job);
  hugging_face_config(plain);  // refuses what has no class
  const model::ModelSpec whole = model::describe(plain);
  const Slots slots = slots_of(model);
  const StateReader stored(checkpoint, model.units);
  std::vector<formats::TensorInfo> infos;
  std::vector<Slot> sources;  // parallel to infos
  std::set<std::string> targets;
  for (const auto& [name, weight] : slots_of(whole))
    for (const char* matrix : {"lora_A", "lora_B"}) {
      const auto found = slots.find(adapter_name(name, matrix));
      if (found == slots.end()) continue;
      const std::string theirs = part_of(plain, *weight.param).name;
      targets.insert(target_of(config::info(job).decoder, theirs.substr(0, theirs.rfind('.'))));
      infos.push_back({.name = "base_model.model." + adapter_name(theirs, matrix),
                       .dtype = kind_of_params(stored, found->second.unit).type,
                       .shape = found->second.param->shape});
      sources.push_back(found->second);
    }
  make_new(out);
  Bytes now;
  formats::stream_safetensors(out / kAdapterModelName, infos, {{"format", "pt"}},
                              formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                const Slot& slot = sources[index];
                                now = stored.read_whole(slot.unit, slot.index,
                                                        kind_of_params(stored, slot.unit));
                                return std::span<const std::byte>(now);
                              });
  write_file_synced(out / kAdapterConfigName, adapter_config(job, targets));
}

void merged_to_hugging_face(const Path& checkpoint, const config::Job& job,
                            const model::ModelSpec& model, const Path& out) {
  const config::Job plain = without_adapters(job);
  const std::string config = hugging_face_config(plain);
  const model::ModelSpec whole = model::describe(plain);
  const Parameters parameters(checkpoint, job, model);
  std::vector<formats::TensorInfo> infos;
  std::vector<std::pair<std::string, Part>> sources;  // parallel to infos
  for (const auto& [name, weight] : slots_of(whole)) {
    Part part = part_of(plain, *weight.param);
    infos.push_back({.name = part.name, .dtype = parameters.type(name), .shape = part.shape});
    sources.emplace_back(name, std::move(part));
  }
  make_new(out);
  Bytes now;
  formats::stream_safetensors(
      out / kModelName, infos, {{"format", "pt"}}, formats::TensorOrder::kOfficial,
      [&](std::size_t index) {
        const auto& [name, part] = sources[index];
        std::vector<float> values = parameters.read(name);
        if (const std::string a = adapter_name(name, "lora_A"); parameters.has(a))
          add_product(values, parameters.read(adapter_name(name, "lora_B")), parameters.read(a),
                      static_cast<std::size_t>(job.lora.rank),
                      static_cast<float>(job.lora.alpha / static_cast<double>(job.lora.rank)));
        now = narrowed(values, infos[index].dtype);
        if (part.form == Form::kTurned)
          now = turn(now, part.shape[1], part.shape[0], size_of(infos[index].dtype));
        return std::span<const std::byte>(now);
      });
  write_file_synced(out / kConfigName, config);
}

}  // namespace trireme::convert
