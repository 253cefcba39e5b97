#include "trireme/checkpoint/convert/adapters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/adapter_tensors.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/checkpoint/convert/turn.h"
#include "trireme/checkpoint/convert/values.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/model/training.h"
#include "trireme/plan/unit_types.h"

namespace trireme::convert {
namespace {

using Bytes = std::vector<std::byte>;

void make_new(const Path& out) {
  std::error_code cause;
  if (std::filesystem::exists(out) && !std::filesystem::is_empty(out, cause))
    fail(ErrorKind::kUsage, "{} is not empty; choose another directory", out.string());
  make_directories(out);
}

// Throws Error{kUsage} for a model that PEFT's files cannot hold.
void check_peft(const std::string& what, const config::Job& job, const model::ModelSpec& model) {
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    if (model.program.units[unit].trainable && !model::holds_adapters(model.units[unit].name))
      fail(
          ErrorKind::kUsage,
          "{}: unit {} trained too (lora.also={}), which adapters cannot hold; merge them into the "
          "weights with --merge",
          what, model.units[unit].name, job.lora.also);
  hugging_face_config(without_adapters(job));
}

template <typename TypeOf>  // (unit)
std::vector<formats::TensorInfo> infos_of(const std::vector<AdapterTensor>& tensors,
                                          const TypeOf& type_of) {
  std::vector<formats::TensorInfo> infos;
  for (const AdapterTensor& tensor : tensors)
    infos.push_back({.name = tensor.name,
                     .dtype = type_of(tensor.pieces.front().slot.unit),
                     .shape = tensor.shape});
  return infos;
}

// The layers that have adapters, as PEFT finds them by the ends of their names. Names in a block of GPT-2 need the part
// of the block too.
std::string target_of(bool in_block, std::string_view module) {
  std::size_t dot = module.rfind('.');
  if (in_block) dot = module.rfind('.', dot - 1);
  return std::string(module.substr(dot + 1));
}

Json whole_if_whole(double number) {
  return number == std::floor(number) ? Json(static_cast<std::int64_t>(number)) : Json(number);
}

// target_modules: these ends of names. Where a model's tower has layers of such names too, an expression for the whole
// names of the decoder's, whether its module is the model's or that of its base.
Json target_modules(const Names& names, const std::set<std::string>& ends) {
  if (names.decoder.empty()) return ends;
  return fmt::format(R"((.*\.)?{}\..*\.({}))", names.decoder, fmt::join(ends, "|"));
}

std::string adapter_config(const config::Job& job, const Names& names,
                           const std::vector<AdapterTensor>& tensors) {
  const config::Lora& lora = job.lora;
  const bool by_root = lora.scaling == config::LoraScaling::kRootRank;
  std::set<std::string> targets;
  Json ranks = Json::object(), alphas = Json::object();
  for (const AdapterTensor& tensor : tensors) {
    const std::string target = target_of(config::info(job).decoder->fused_heads, tensor.layer);
    targets.insert(target);
    if (tensor.ranks() == 1) continue;
    // The scale stays the same.
    const auto times = static_cast<double>(tensor.ranks());
    ranks[target] = tensor.ranks() * lora.rank;
    alphas[target] = whole_if_whole((by_root ? std::sqrt(times) : times) * lora.alpha);
  }
  const Json json = {{"peft_type", "LORA"},
                     {"task_type", "CAUSAL_LM"},
                     {"base_model_name_or_path", job.model.weights},
                     {"r", lora.rank},
                     {"lora_alpha", whole_if_whole(lora.alpha)},
                     {"lora_dropout", lora.dropout},
                     {"target_modules", target_modules(names, targets)},
                     {"bias", "none"},
                     {"fan_in_fan_out", tensors.front().turned},
                     {"use_rslora", by_root},
                     {"use_dora", lora.dora},
                     {"rank_pattern", ranks},
                     {"alpha_pattern", alphas},
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

// W + scale B A, W of `out` rows and A of `rank`; with magnitudes its rows have these norms.
void add_product(std::vector<float>& w, const std::vector<float>& b, const std::vector<float>& a,
                 std::size_t rank, float scale, const std::vector<float>& magnitudes) {
  const std::size_t rows = b.size() / rank, columns = a.size() / rank;
  std::vector<float> sum(columns);
  for (std::size_t row = 0; row < rows; ++row) {
    std::ranges::fill(sum, 0.0F);
    for (std::size_t k = 0; k < rank; ++k)
      for (std::size_t column = 0; column < columns; ++column)
        sum[column] += b[row * rank + k] * a[k * columns + column];
    for (std::size_t column = 0; column < columns; ++column)
      w[row * columns + column] += scale * sum[column];
    if (magnitudes.empty()) continue;
    const std::span<float> whole(w.data() + row * columns, columns);
    double squares = 0;
    for (const float value : whole) squares += static_cast<double>(value) * value;
    constexpr double kLeast = std::numeric_limits<float>::min();  // of a row of zeros
    const double factor = magnitudes[row] / std::max(std::sqrt(squares), kLeast);
    for (float& value : whole) value = static_cast<float>(factor * value);
  }
}

// A tensor of theirs, and the elements of our parameters that it is made of.
struct Merged {
  struct Piece {
    std::string param;
    std::int64_t begin = 0;
    Part part;
  };
  formats::TensorInfo info;
  std::vector<Piece> pieces;  // those of a parameter follow one another
};

std::vector<Merged> merged_tensors(const config::Job& job, const model::ModelSpec& whole,
                                   const Parameters& parameters) {
  std::vector<Merged> made;
  std::map<std::string, std::size_t> places;
  for (const auto& [name, weight] : slots_of(whole)) {
    std::int64_t begin = 0;
    for (Part& part : parts_of(*names_of(job).front(), job, *weight.param)) {
      const auto [place, added] = places.try_emplace(part.name, made.size());
      if (added)
        made.push_back(
            {.info = {.name = part.name, .dtype = parameters.type(name), .shape = part.shape}});
      const std::int64_t count = part.count;
      made[place->second].pieces.push_back(
          {.param = name, .begin = begin, .part = std::move(part)});
      begin += count;
    }
  }
  return made;
}

// With what its adapter adds, if it has one.
std::vector<float> merged_values(const std::string& name, const Parameters& parameters,
                                 const config::Lora& lora) {
  std::vector<float> values = parameters.read(name);
  const std::string a = adapter_name(name, "lora_A");
  if (!parameters.has(a)) return values;
  std::vector<float> magnitudes;
  if (lora.dora) magnitudes = parameters.read(adapter_name(name, "lora_magnitude_vector"));
  add_product(values, parameters.read(adapter_name(name, "lora_B")), parameters.read(a),
              static_cast<std::size_t>(lora.rank), static_cast<float>(config::lora_scale(lora)),
              magnitudes);
  return values;
}

Bytes contents(const Merged& made, const Parameters& parameters, const config::Lora& lora) {
  const std::size_t width = size_of(made.info.dtype);
  Bytes all;
  std::string name;
  std::vector<float> values;
  for (const Merged::Piece& piece : made.pieces) {
    if (piece.param != name) values = merged_values(name = piece.param, parameters, lora);
    const auto first = values.begin() + piece.begin;
    Bytes now = narrowed({first, first + piece.part.count}, made.info.dtype);
    if (piece.part.form == Form::kTurned)
      now = turn(now, piece.part.shape[1], piece.part.shape[0], width);
    const std::size_t at = static_cast<std::size_t>(piece.part.offset) * width;
    all.resize(std::max(all.size(), at + now.size()));
    std::ranges::copy(now, all.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return all;
}

}  // namespace

std::vector<formats::TensorInfo> peft_tensors(const config::Job& job,
                                              const model::ModelSpec& model) {
  check_peft("the job", job, model);
  const plan::Recipe recipe = model::recipe_of(job);
  return infos_of(adapter_tensors(job, model, names_of_base(job)), [&](std::size_t unit) {
    return plan::stored_type(recipe, model.program.units[unit]);
  });
}

std::vector<formats::TensorInfo> peft_tensors(const Path& checkpoint, const config::Job& job,
                                              const model::ModelSpec& model) {
  check_peft(checkpoint.string(), job, model);
  const StateReader stored(checkpoint, model.units);
  return infos_of(adapter_tensors(job, model, names_of_base(job)),
                  [&](std::size_t unit) { return kind_of_params(stored, unit).type; });
}

void to_peft(const Path& checkpoint, const config::Job& job, const model::ModelSpec& model,
             const Path& out) {
  check_peft(checkpoint.string(), job, model);
  const StateReader stored(checkpoint, model.units);
  const Names& names = names_of_base(job);
  const std::vector<AdapterTensor> tensors = adapter_tensors(job, model, names);
  const std::vector<formats::TensorInfo> infos =
      infos_of(tensors, [&](std::size_t unit) { return kind_of_params(stored, unit).type; });
  make_new(out);
  Bytes now;
  formats::stream_safetensors(
      out / kAdapterModelName, infos, {{"format", "pt"}}, formats::TensorOrder::kOfficial,
      [&](std::size_t index) {
        now = tensors[index].joined(size_of(infos[index].dtype), [&](const Slot& slot) {
          return stored.read_whole(slot.unit, slot.index, kind_of_params(stored, slot.unit));
        });
        return std::span<const std::byte>(now);
      });
  write_file_synced(out / kAdapterConfigName, adapter_config(job, names, tensors));
}

void merged_to_hugging_face(const Path& checkpoint, const config::Job& job,
                            const model::ModelSpec& model, const Path& out) {
  const config::Job plain = without_adapters(job);
  const std::string config = hugging_face_config(plain);
  const model::ModelSpec whole = model::describe(plain);
  const Parameters parameters(checkpoint, job, model);
  const std::vector<Merged> made = merged_tensors(plain, whole, parameters);
  std::vector<formats::TensorInfo> infos;
  for (const Merged& one : made) infos.push_back(one.info);
  make_new(out);
  Bytes now;
  formats::stream_safetensors(out / kModelName, infos, {{"format", "pt"}},
                              formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                now = contents(made[index], parameters, job.lora);
                                return std::span<const std::byte>(now);
                              });
  write_file_synced(out / kConfigName, config);
  if (const char* name = preprocessor_name(job))
    write_file_synced(out / name, preprocessor_config(plain));
}

}  // namespace trireme::convert
