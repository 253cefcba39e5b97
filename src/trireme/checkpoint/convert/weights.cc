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
#include "trireme/checkpoint/convert/adapter_tensors.h"
#include "trireme/checkpoint/convert/config_classes.h"
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
  config::DatasetFacts facts{.vocab = job.model.vocab, .classes = job.vision.classes};
  if (config::info(job).tokenizes_questions && std::ranges::min(job.vlm.tokens) < 0 &&
      text::find_vocabulary(directory))
    facts.tokens = text::picture_tokens(text::read_vocabulary(directory));
  return as_job(file.string(), [&] { return config::resolve(job, 1, facts); });
}

// Of each tensor the file that the index says it is in; empty: there is no index.
std::map<std::string, std::string> weight_map(const Path& directory) {
  const Path index = directory / kIndexName;
  if (!is_there(index)) return {};
  return read_weight_map(read_file(index), index.string());
}

// Names in a directory of the files of tensors.
std::set<std::string> tensor_files(const std::map<std::string, std::string>& weight_map) {
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  return files.empty() ? std::set<std::string>{kModelName} : files;
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

// Their tensors of a decoder's output matrix, if it is no other matrix, and of its token table; nothing for other models.
std::optional<std::pair<Part, Part>> head_and_table(const Names& names, const config::Job& job,
                                                    const model::ModelSpec& model) {
  config::Job other = job;
  other.model.tied = !job.model.tied;
  const model::ModelSpec twin = model::describe(other);
  const model::ModelSpec &whole = job.model.tied ? twin : model,
                         &less = job.model.tied ? model : twin;
  const Slots tied = slots_of(less);
  const model::ParamSpec* table = nullptr;
  for (const auto& [name, slot] : slots_of(whole)) {
    if (tied.contains(name)) continue;
    for (const model::UnitSpec& unit : less.units)
      for (const model::ParamSpec& param : unit.params)
        if (table == nullptr && param.shape == slot.param->shape) table = &param;
    if (table != nullptr)
      return std::pair(parts_of(names, job, *slot.param).front(),
                       parts_of(names, job, *table).front());
  }
  return std::nullopt;
}

void check_ids(const Path& file, const text::Tokenizer& tokenizer, std::int64_t vocab) {
  const std::int32_t last = tokenizer.vocab_size() - 1;
  if (last >= vocab)
    fail(ErrorKind::kData,
         "{}: token {} has id {}, and the model has vocab_size {}; needs smaller ids. Remove such "
         "tokens, or copy the tokenizer of this model",
         file.string(), formats::shown(tokenizer.decode({&last, 1})), last, vocab);
}

}  // namespace

bool is_there(const Path& file) {
  std::error_code cause;
  const bool there = std::filesystem::exists(file, cause);
  if (!there && std::filesystem::is_symlink(file, cause))
    fail(ErrorKind::kData, "{}: is a link to {}, which is not there; put the file itself here",
         file.string(), std::filesystem::read_symlink(file).string());
  return there;
}

void refuse_pickles(const Path& directory, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (is_there(directory / name))
      fail(ErrorKind::kData,
           "{}: has tensors as a Python pickle, which may run code; save them as safetensors, as "
           "save_pretrained of transformers does",
           (directory / name).string());
}

// The tensors of a directory by name, whatever files they are in.
class HuggingFaceWeights::Tensors {
 public:
  Tensors(const Path& directory, const config::Job& job) : directory_(directory) {
    const std::map<std::string, std::string> map = weight_map(directory);
    listed_ = directory / (map.empty() ? kModelName : kIndexName);
    for (const std::string& name : tensor_files(map)) add_file(name);
    for (const auto& [tensor, file] : map)
      if (files_.at(file).find(tensor) == nullptr)
        fail(ErrorKind::kData, "{}: says that {} is in {}, which does not have it; copy both again",
             listed_.string(), formats::shown(tensor), file);
    const std::vector<const Names*> all = names_of(job);
    const auto told = std::ranges::find_if(all, [&](const Names* names) {
      const std::string_view sign = names->sign;
      const bool lacks = sign.starts_with('!');
      return !sign.empty() && tensors_.contains(std::string(sign.substr(lacks ? 1 : 0))) != lacks;
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
      fail(ErrorKind::kData,
           "{}: has {} tensor{} that the model of its config.json has no place for, such as {}",
           listed_.string(), unused.size(), unused.size() == 1 ? "" : "s", unused.front());
    for (const Part& part : parts) places(part);
  }

  // The output matrix of a decoder is there if it is no other matrix, else it is absent or the same.
  void check_head(const Part& head, const Part& table, bool tied) const {
    const auto found = find(head.name);
    const std::string config = (directory_ / kConfigName).string();
    if (!tied && found == tensors_.end())
      fail(ErrorKind::kData, "{}: tie_word_embeddings is false, but {} has no {}; copy all tensors",
           config, listed_.string(), head.name);
    if (!tied || found == tensors_.end()) return;
    const formats::Tensor &own = *found->second, &shared = needed(table);
    if (own.dtype != shared.dtype || own.bytes.size() != shared.bytes.size() ||
        std::memcmp(own.bytes.data(), shared.bytes.data(), own.bytes.size()) != 0)
      fail(ErrorKind::kData,
           "{}: tie_word_embeddings is true, but {} has {} with other values than {}; set it to "
           "false there",
           config, listed_.string(), head.name, table.name);
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
    if (found == tensors_.end())
      fail(ErrorKind::kData, "{}: has no tensor {}, which the model of its config.json has",
           listed_.string(), part.name);
    const formats::Tensor& tensor = *found->second;
    if (!has_shape(tensor, part))
      fail(ErrorKind::kData, "{}: {} is [{}], the model of its config.json needs [{}]",
           file_of(tensor), part.name, fmt::join(tensor.shape, ", "), fmt::join(part.shape, ", "));
    constexpr DType kRead[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
    if (std::ranges::find(kRead, tensor.dtype) == std::end(kRead))
      fail(ErrorKind::kData, "{}: {} is {}; needs F64, F32, BF16 or F16", file_of(tensor),
           part.name, formats::safetensors_type(tensor.dtype));
    return tensor;
  }

 private:
  using ByName = std::map<std::string, const formats::Tensor*>;

  static std::string numbered(std::string_view name, std::size_t number) {
    return fmt::format("{}{}", name.substr(0, name.rfind('.') + 1), number);
  }

  void add_file(const std::string& name) {
    const Path path = directory_ / name;
    if (!is_there(path)) {
      if (name != kModelName)
        fail(ErrorKind::kData, "{}: names {}, which is not there; copy it into the directory",
             listed_.string(), formats::shown(name));
      refuse_pickles(directory_, {"pytorch_model.bin", "pytorch_model.bin.index.json"});
      fail(ErrorKind::kData, "{}: has no {} and no {}; copy the tensors too", directory_.string(),
           kModelName, kIndexName);
    }
    for (const formats::Tensor& tensor : files_.try_emplace(name, path).first->second.tensors()) {
      const auto [known, added] = tensors_.try_emplace(tensor.name, &tensor);
      if (!added)
        fail(ErrorKind::kData, "{}: tensor {} is in {} too; needs it in one file", path.string(),
             formats::shown(tensor.name), file_of(*known->second));
    }
  }

  std::string file_of(const formats::Tensor& tensor) const {
    const auto found = std::ranges::find_if(
        files_, [&](const auto& file) { return file.second.find(tensor.name) == &tensor; });
    return (directory_ / found->first).string();
  }

  // With or without the prefix that files of a bare model leave out.
  ByName::const_iterator find(const std::string& name) const {
    const auto found = tensors_.find(name);
    const std::string_view bare = names_->bare;
    if (found != tensors_.end() || bare.empty() || !name.starts_with(bare)) return found;
    return tensors_.find(name.substr(bare.size()));
  }

  Path directory_;
  Path listed_;  // the file that names the tensors: the index, or the only one that has some
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
  if (const auto head = head_and_table(tensors_->names(), job_, model_))
    tensors_->check_head(head->first, head->second, job_.model.tied);
  tensors_->check(parts, idle_tensors(tensors_->names(), job_));
}

HuggingFaceWeights::~HuggingFaceWeights() = default;
HuggingFaceWeights::HuggingFaceWeights(HuggingFaceWeights&&) noexcept = default;

std::string_view HuggingFaceWeights::names() const { return table().name; }

const Names& HuggingFaceWeights::table() const { return tensors_->names(); }

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

std::optional<text::Tokenizer> vocabulary_of_weights(const Path& directory,
                                                     const config::Job& job) {
  if (const std::optional<Path> file = text::find_vocabulary(directory)) {
    text::Tokenizer read = text::read_vocabulary(*file);
    if (config::info(job).reads_tokens || config::info(job).tokenizes_questions)
      check_ids(*file, read, job.model.vocab);
    return read;
  }
  if (!config::info(job).has_vocabulary || !is_hugging_face(directory)) return std::nullopt;
  constexpr std::int32_t kBegin = 254, kEnd = 255;
  return text::Tokenizer::bytes().with_ends({kEnd}).with_begin(kBegin);
}

std::string identity_of_weights(const Path& directory) {
  if (!is_hugging_face(directory)) {
    formats::read_manifest(directory);  // is one
    return hex64(hash64(read_file(directory / formats::kManifestName)));
  }
  std::uint64_t key = hash64(read_file(directory / kConfigName));
  for (const std::string& name : tensor_files(weight_map(directory)))
    key = mix(key, hash64(MappedFile(directory / name).bytes()));
  return hex64(key);
}

}  // namespace trireme::convert
