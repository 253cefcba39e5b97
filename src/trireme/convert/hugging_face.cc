#include "trireme/convert/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/convert/described.h"
#include "trireme/convert/hugging_face_names.h"
#include "trireme/convert/state_reader.h"
#include "trireme/convert/values.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {
namespace {

using Bytes = std::vector<std::byte>;

constexpr char kConfig[] = "config.json", kModel[] = "model.safetensors",
               kIndex[] = "model.safetensors.index.json";

// A matrix of `rows` x `columns` elements of `width` bytes, turned.
Bytes turn(std::span<const std::byte> in, std::int64_t rows, std::int64_t columns,
           std::size_t width) {
  Bytes out(in.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      std::memcpy(out.data() + static_cast<std::size_t>(c * rows + r) * width,
                  in.data() + static_cast<std::size_t>(r * columns + c) * width, width);
  return out;
}

Kind parameter_kind(const StateReader& stored, std::size_t unit) {
  const std::vector<Kind> kinds = stored.kinds(unit);
  return *std::ranges::find(kinds, "param", &Kind::name);
}

// The tensors of a directory by name, whatever files they are in.
class Tensors {
 public:
  explicit Tensors(const Path& directory) : directory_(directory) {
    if (std::filesystem::exists(directory / kIndex)) {
      const std::string what = (directory / kIndex).string();
      for (const std::string& file : files_of_index(read_file(what), what)) open(file);
    } else {
      open(kModel);
    }
  }

  std::string where() const { return directory_.string(); }

  // With or without the prefix that files of a bare model leave out. Nothing if it is not there.
  const formats::Tensor* find(const std::string& name, std::string_view prefix) {
    auto found = tensors_.find(name);
    if (found == tensors_.end() && !prefix.empty() && name.starts_with(prefix))
      found = tensors_.find(name.substr(prefix.size()));
    if (found == tensors_.end()) return nullptr;
    used_.insert(found->first);
    return found->second;
  }

  bool has(std::string_view name) const { return tensors_.contains(std::string(name)); }

  // Beside those that `idle` patterns name.
  std::vector<std::string> unused(std::string_view idle) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_)
      if (!used_.contains(name) &&
          std::ranges::none_of(split_list(idle), [&name = name](std::string_view pattern) {
            return matches(pattern, name);
          }))
        names.push_back(formats::shown(name));
    return names;
  }

 private:
  void open(const std::string& name) {
    const auto file = files_.try_emplace(name, directory_ / name).first;
    for (const formats::Tensor& tensor : file->second.tensors()) tensors_[tensor.name] = &tensor;
  }

  Path directory_;
  std::map<std::string, formats::SafetensorsFile> files_;
  std::map<std::string, const formats::Tensor*> tensors_;
  std::set<std::string> used_;
};

// The names that the files go by.
const Names& names_in(const Tensors& tensors, const config::Job& job) {
  const std::vector<const Names*> all = names_of(job);
  const auto told = std::ranges::find_if(
      all, [&](const Names* names) { return !names->sign.empty() && tensors.has(names->sign); });
  return told == all.end() ? *all.front() : **told;
}

bool has_shape(const formats::Tensor& tensor, const Part& part) {
  if (!part.stacked) return tensor.shape == part.shape;
  return tensor.shape.size() == part.shape.size() && tensor.shape[0] >= part.shape[0] &&
         std::equal(part.shape.begin() + 1, part.shape.end(), tensor.shape.begin() + 1);
}

const formats::Tensor& needed(Tensors& tensors, const Names& names, const Part& part) {
  const formats::Tensor* tensor = tensors.find(part.name, names.bare);
  if (tensor == nullptr) fail(ErrorKind::kData, "{}: has no tensor {}", tensors.where(), part.name);
  if (!has_shape(*tensor, part))
    fail(ErrorKind::kData, "{}: {} is [{}], the model of its config.json needs [{}]",
         tensors.where(), part.name, fmt::join(tensor->shape, ", "), fmt::join(part.shape, ", "));
  constexpr DType kRead[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
  if (std::ranges::find(kRead, tensor->dtype) == std::end(kRead))
    fail(ErrorKind::kData, "{}: {} is {}; needs numbers with a fraction", tensors.where(),
         part.name, name(tensor->dtype));
  return *tensor;
}

// Every tensor is there, of the shape that it must have, and none is left over.
void check_tensors(Tensors& tensors, const Names& names, const std::string& idle,
                   const std::vector<std::vector<Part>>& parts) {
  for (const std::vector<Part>& made_of : parts)
    for (const Part& part : made_of) tensors.find(part.name, names.bare);
  if (const std::vector<std::string> unused = tensors.unused(idle); !unused.empty())
    fail(ErrorKind::kData, "{}: has {} tensor{} that this model has no place for, such as {}",
         tensors.where(), unused.size(), unused.size() == 1 ? "" : "s", unused.front());
  for (const std::vector<Part>& made_of : parts)
    for (const Part& part : made_of) needed(tensors, names, part);
}

// Adds the part to `values` in fp32, as it stands here.
void append_part(const formats::Tensor& tensor, const Part& part, Bytes& values) {
  Bytes read(static_cast<std::size_t>(part.count) * sizeof(float));
  for (std::int64_t i = 0; i < part.count; ++i) {
    const auto value = static_cast<float>(value_at(tensor.bytes, tensor.dtype, part.offset + i));
    std::memcpy(read.data() + static_cast<std::size_t>(i) * sizeof(float), &value, sizeof value);
  }
  if (part.form == Form::kTurned) read = turn(read, part.shape[0], part.shape[1], sizeof(float));
  values.insert(values.end(), read.begin(), read.end());
}

// A tensor of theirs and what of a checkpoint it is made of.
struct Made {
  formats::TensorInfo info;
  Form form = Form::kSame;
  Kind kind;
  std::vector<Stretch> from;
};

std::vector<Made> made_tensors(const StateReader& stored, const Names& names,
                               const config::Job& job, const arch::ModelSpec& model) {
  std::vector<Made> made;
  std::map<std::string, std::size_t> places;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    std::int64_t offset = 0;
    for (const arch::ParamSpec& param : model.units[unit].params) {
      std::int64_t begin = std::exchange(offset, offset + param.numel());
      if (!has_place(names, param)) continue;
      for (const Part& part : parts_of(names, job, param)) {
        const auto [place, added] = places.try_emplace(part.name, made.size());
        if (added) {
          const Kind kind = parameter_kind(stored, unit);
          made.push_back({.info = {.name = part.name, .dtype = kind.type, .shape = part.shape},
                          .form = part.form,
                          .kind = kind});
        }
        made[place->second].from.push_back({.unit = unit, .offset = begin, .count = part.count});
        begin += part.count;
      }
    }
  }
  return made;
}

Bytes contents(const StateReader& stored, const Made& made) {
  const std::size_t width = size_of(made.kind.type);
  Bytes bytes;
  for (const Stretch& stretch : made.from) {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + static_cast<std::size_t>(stretch.count) * width);
    stored.read(stretch, made.kind, std::span(bytes).subspan(begin));
  }
  const std::vector<std::int64_t>& shape = made.info.shape;
  return made.form == Form::kTurned ? turn(bytes, shape[1], shape[0], width) : bytes;
}

}  // namespace

std::vector<std::string> to_hugging_face(const Path& checkpoint, const config::Job& job,
                                         const arch::ModelSpec& model, const Path& out) {
  if (job.lora.rank > 0)
    fail(ErrorKind::kUsage,
         "{}: has adapters (lora.rank={}), which config.json cannot say; train or convert the "
         "model without them",
         checkpoint.string(), job.lora.rank);
  const std::string config = hugging_face_config(job);
  const StateReader stored(checkpoint, model.units);
  if (!stored.manifest().base.empty())
    fail(ErrorKind::kUsage,
         "{}: has what trains alone (checkpoint.trainable_only); convert one that has all",
         checkpoint.string());
  std::error_code cause;
  if (std::filesystem::exists(out) && !std::filesystem::is_empty(out, cause))
    fail(ErrorKind::kUsage, "{} is not empty; choose another directory", out.string());
  make_directories(out);
  const Names& names = *names_of(job).front();
  const std::vector<Made> made = made_tensors(stored, names, job, model);
  std::vector<formats::TensorInfo> infos;
  for (const Made& tensor : made) infos.push_back(tensor.info);
  Bytes now;
  formats::stream_safetensors(out / kModel, infos, {{"format", "pt"}},
                              formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                now = contents(stored, made[index]);
                                return std::span<const std::byte>(now);
                              });
  write_file_synced(out / kConfig, config);
  std::vector<std::string> left_out;
  for (const arch::UnitSpec& unit : model.units)
    for (const arch::ParamSpec& param : unit.params)
      if (!has_place(names, param)) left_out.push_back(param.name);
  return left_out;
}

Path from_hugging_face(const Path& directory, const config::Job& job, const arch::ModelSpec& model,
                       const std::string& build, const Path& out) {
  Tensors tensors(directory);
  const Names& names = names_in(tensors, job);
  const std::string file = "rank-00000.safetensors";
  std::vector<formats::TensorInfo> infos;
  std::vector<std::vector<Part>> parts;  // parallel to infos
  std::vector<formats::ManifestUnit> units;
  for (const arch::UnitSpec& spec : model.units) {
    units.push_back(manifest_unit(spec, 0, 1));
    std::int64_t offset = 0;
    for (const arch::ParamSpec& param : spec.params) {
      const std::int64_t count = param.numel();
      infos.push_back(
          {.name = fmt::format("{}.param.{}", spec.name, param.name), .shape = {count}});
      units.back().slices.push_back({file, infos.back().name, "param", offset, count});
      offset += count;
      parts.push_back(parts_of(names, job, param));
    }
  }
  check_tensors(tensors, names, idle_tensors(names, job), parts);
  if (std::filesystem::exists(out / "step-0"))
    fail(ErrorKind::kUsage, "{} is there already; choose another directory",
         (out / "step-0").string());
  make_directories(out);
  formats::CheckpointDraft draft(env::real_file_system(), out, 0);
  Bytes now;
  formats::ManifestFile written = formats::write_shard(
      env::real_file_system(), formats::CheckpointDraft::directory(out, 0), file, 0, infos,
      [&](std::size_t index) {
        now.clear();
        if (parts[index].empty())
          now.resize(static_cast<std::size_t>(infos[index].shape[0]) * sizeof(float));
        for (const Part& part : parts[index]) append_part(needed(tensors, names, part), part, now);
        return std::span<const std::byte>(now);
      });
  return draft.commit({.world = 1,
                       .layout = manifest_layout(mesh::Mesh()),
                       .job = config::print_yaml(job),
                       .build = build,
                       .files = {std::move(written)},
                       .units = std::move(units)});
}

}  // namespace trireme::convert
