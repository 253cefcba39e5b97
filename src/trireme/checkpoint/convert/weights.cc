#include "trireme/checkpoint/convert/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/patterns.h"
#include "trireme/checkpoint/convert/described.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/hugging_face_names.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/checkpoint/convert/turn.h"
#include "trireme/checkpoint/convert/values.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/formats/safetensors.h"
#include "trireme/formats/shown.h"
#include "trireme/model/families/describe.h"

namespace trireme::convert {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";

config::Job resolved_config(const Path& directory) {
  const Path file = directory / kConfigName;
  config::Job job = job_of_config(read_file(file), file.string());
  if (const char* name = preprocessor_name(job);
      name != nullptr && std::filesystem::exists(directory / name))
    read_preprocessor(read_file(directory / name), (directory / name).string(), job);
  const config::DatasetFacts facts{.vocab = job.model.vocab, .classes = job.vision.classes};
  return config::resolve(std::move(job), 1, facts);
}

// Names in a directory of the files of tensors.
std::set<std::string> tensor_files(const Path& directory) {
  if (!std::filesystem::exists(directory / kIndexName)) return {kModelName};
  return files_of_index(read_file(directory / kIndexName), (directory / kIndexName).string());
}

bool has_shape(const formats::Tensor& tensor, const Part& part) {
  if (part.form != Form::kStacked) return tensor.shape == part.shape;
  return tensor.shape.size() == part.shape.size() && tensor.shape[0] > part.offset / part.count &&
         std::equal(part.shape.begin() + 1, part.shape.end(), tensor.shape.begin() + 1);
}

// Where the elements of a part lie.
struct Place {
  const formats::Tensor* tensor = nullptr;
  std::int64_t offset = 0;
};

bool is_zero(const Place& place, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    if (value_at(place.tensor->bytes, place.tensor->dtype, place.offset + i) != 0) return false;
  return true;
}

// The first that is not all zeros, else the first.
const Place& trained_place(const std::vector<Place>& places, std::int64_t count) {
  const auto found =
      std::ranges::find_if(places, [&](const Place& place) { return !is_zero(place, count); });
  return found == places.end() ? places.front() : *found;
}

// Adds the stored part to `values` in fp32.
void append_part(const Place& place, const Part& part, std::vector<std::byte>& values) {
  const formats::Tensor& tensor = *place.tensor;
  std::vector<std::byte> read(static_cast<std::size_t>(part.count) * sizeof(float));
  for (std::int64_t i = 0; i < part.count; ++i) {
    const auto value = static_cast<float>(value_at(tensor.bytes, tensor.dtype, place.offset + i));
    std::memcpy(read.data() + static_cast<std::size_t>(i) * sizeof(float), &value, sizeof value);
  }
  if (part.form == Form::kTurned) read = turn(read, part.shape[0], part.shape[1], sizeof(float));
  values.insert(values.end(), read.begin(), read.end());
}

}  // namespace

// The tensors of a directory by name, whatever files they are in.
class HuggingFaceWeights::Tensors {
 public:
  Tensors(const Path& directory, const config::Job& job) : directory_(directory) {
    for (const std::string& name : tensor_files(directory)) {
      if (name != kModelName && !std::filesystem::exists(directory / name))
        fail(ErrorKind::kData, "{}: names {}, which is not there; copy it into the directory",
             (directory / kIndexName).string(), formats::shown(name));
      const auto file = files_.try_emplace(name, directory / name).first;
      for (const formats::Tensor& tensor : file->second.tensors()) tensors_[tensor.name] = &tensor;
    }
    const std::vector<const Names*> all = names_of(job);
    const auto told = std::ranges::find_if(all, [&](const Names* names) {
      return !names->sign.empty() && tensors_.contains(std::string(names->sign));
    });
    names_ = told == all.end() ? all.front() : *told;
  }

  // How the files name parameters.
  const Names& names() const { return *names_; }

  // Every tensor is there, of the shape that it must have, and none is left over.
  void check(const std::vector<Part>& parts, const std::string& idle) const {
    std::set<std::string_view> used;
    for (const Part& part : parts)
      if (const auto found = find(part.name); found != tensors_.end()) used.insert(found->first);
    std::vector<std::string> unused;
    for (const auto& [name, tensor] : tensors_)
      if (!used.contains(name) &&
          std::ranges::none_of(split_list(idle), [&name = name](std::string_view pattern) {
            return matches(pattern, name);
          }))
        unused.push_back(formats::shown(name));
    if (!unused.empty())
      fail(ErrorKind::kData, "{}: has {} tensor{} that this model has no place for, such as {}",
           directory_.string(), unused.size(), unused.size() == 1 ? "" : "s", unused.front());
    for (const Part& part : parts) places(part);
  }

  // Possible places of a part, its own first. Predictors have mask tokens for kinds of clips that were perhaps absent
  // in their training; such tokens are zeros. Any other mask token may replace them.
  std::vector<Place> places(const Part& part) const {
    std::vector<Place> all = {{&needed(part), part.offset}};
    const formats::Tensor& tensor = *all[0].tensor;
    if (part.form == Form::kStacked)
      for (std::int64_t i = 0; i < tensor.shape[0]; ++i) all.push_back({&tensor, i * part.count});
    if (part.form == Form::kNumbered)
      for (std::size_t i = 0; tensors_.contains(numbered(part.name, i)); ++i) {
        Part other = part;
        other.name = numbered(part.name, i);
        all.push_back({&needed(other), 0});
      }
    return all;
  }

  const formats::Tensor& needed(const Part& part) const {
    const auto found = find(part.name);
    const std::string where = directory_.string();
    if (found == tensors_.end()) fail(ErrorKind::kData, "{}: has no tensor {}", where, part.name);
    const formats::Tensor& tensor = *found->second;
    if (!has_shape(tensor, part))
      fail(ErrorKind::kData, "{}: {} is [{}], the model of its config.json needs [{}]", where,
           part.name, fmt::join(tensor.shape, ", "), fmt::join(part.shape, ", "));
    constexpr DType kRead[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
    if (std::ranges::find(kRead, tensor.dtype) == std::end(kRead))
      fail(ErrorKind::kData, "{}: {} is {}; needs numbers with a fraction", where, part.name,
           name(tensor.dtype));
    return tensor;
  }

 private:
  using ByName = std::map<std::string, const formats::Tensor*>;

  static std::string numbered(std::string_view name, std::size_t number) {
    return fmt::format("{}{}", name.substr(0, name.rfind('.') + 1), number);
  }

  // With or without the prefix that files of a bare model leave out.
  ByName::const_iterator find(const std::string& name) const {
    const auto found = tensors_.find(name);
    const std::string_view bare = names_->bare;
    if (found != tensors_.end() || bare.empty() || !name.starts_with(bare)) return found;
    return tensors_.find(name.substr(bare.size()));
  }

  Path directory_;
  std::map<std::string, formats::SafetensorsFile> files_;
  ByName tensors_;
  const Names* names_ = nullptr;
};

bool is_hugging_face(const Path& directory) {
  std::error_code cause;
  return std::filesystem::is_regular_file(directory / kConfigName, cause) &&
         !std::filesystem::exists(directory / formats::kManifestName, cause);
}

HuggingFaceWeights::HuggingFaceWeights(const Path& directory)
    : HuggingFaceWeights(directory, resolved_config(directory)) {}

HuggingFaceWeights::HuggingFaceWeights(const Path& directory, config::Job job)
    : job_(std::move(job)),
      model_(model::describe(job_)),
      tensors_(std::make_unique<Tensors>(directory, job_)) {
  std::vector<Part> parts;
  for (const model::UnitSpec& unit : model_.units)
    for (const model::ParamSpec& param : unit.params)
      std::ranges::move(parts_of(tensors_->names(), job_, param), std::back_inserter(parts));
  tensors_->check(parts, idle_tensors(tensors_->names(), job_));
}

HuggingFaceWeights::~HuggingFaceWeights() = default;
HuggingFaceWeights::HuggingFaceWeights(HuggingFaceWeights&&) noexcept = default;

std::string_view HuggingFaceWeights::names() const { return tensors_->names().name; }

DType HuggingFaceWeights::type(const model::ParamSpec& param) const {
  const std::vector<Part> parts = parts_of(tensors_->names(), job_, param);
  return parts.empty() ? DType::kF32 : tensors_->needed(parts.front()).dtype;
}

std::vector<std::byte> HuggingFaceWeights::read(const model::ParamSpec& param) const {
  const std::vector<Part> parts = parts_of(tensors_->names(), job_, param);
  std::vector<std::byte> values;
  if (parts.empty()) values.resize(static_cast<std::size_t>(param.numel()) * sizeof(float));
  for (const Part& part : parts) {
    const std::vector<Place> places = tensors_->places(part);
    append_part(places.size() > 1 ? trained_place(places, part.count) : places[0], part, values);
  }
  return values;
}

formats::Manifest manifest_of_weights(const Path& directory) {
  if (!is_hugging_face(directory)) return formats::read_manifest(directory);
  const HuggingFaceWeights weights(directory);
  formats::Manifest manifest{.job = config::print_yaml(weights.job())};
  for (const model::UnitSpec& unit : weights.model().units)
    manifest.units.push_back(manifest_unit(unit, 0, 1));
  return manifest;
}

std::optional<text::Tokenizer> vocabulary_of_weights(const Path& directory, config::Family family) {
  if (text::find_vocabulary(directory)) return text::read_vocabulary(directory);
  if (!config::info(family).has_vocabulary || !is_hugging_face(directory)) return std::nullopt;
  constexpr std::int32_t kBegin = 254, kEnd = 255;
  return text::Tokenizer::bytes().with_ends({kEnd}).with_begin(kBegin);
}

std::string identity_of_weights(const Path& directory) {
  if (!is_hugging_face(directory)) {
    formats::read_manifest(directory);  // is one
    return hex64(hash64(read_file(directory / formats::kManifestName)));
  }
  std::uint64_t key = hash64(read_file(directory / kConfigName));
  for (const std::string& name : tensor_files(directory))
    key = mix(key, hash64(MappedFile(directory / name).bytes()));
  return hex64(key);
}

}  // namespace trireme::convert
