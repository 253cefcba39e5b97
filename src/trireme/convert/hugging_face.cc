#include "trireme/convert/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/convert/described.h"
#include "trireme/convert/state_reader.h"
#include "trireme/convert/values.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {
namespace {

using Bytes = std::vector<std::byte>;

constexpr char kConfig[] = "config.json", kModel[] = "model.safetensors",
               kIndex[] = "model.safetensors.index.json";

// GPT-2's files hold the matrices of its Conv1D layers as [in, out].
bool transposed(const config::Model& model, const arch::ParamSpec& param) {
  if (model.family != config::Family::kGpt || param.shape.size() != 2) return false;
  return param.name.ends_with(".c_attn.weight") || param.name.ends_with(".c_proj.weight") ||
         param.name.ends_with(".c_fc.weight");
}

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

  // With or without the prefix that files of a bare transformer leave out. Nothing if it is not there.
  const formats::Tensor* find(const std::string& name) {
    constexpr std::string_view kPrefix = "transformer.";
    const auto found = tensors_.find(name);
    const auto bare = found == tensors_.end() && name.starts_with(kPrefix)
                          ? tensors_.find(name.substr(kPrefix.size()))
                          : found;
    if (bare == tensors_.end()) return nullptr;
    used_.insert(bare->first);
    return bare->second;
  }

  // Beside masks and rotary tables, which are no parameters.
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_)
      if (!used_.contains(name) && !name.ends_with(".attn.bias") &&
          !name.ends_with(".attn.masked_bias") && !name.ends_with(".rotary_emb.inv_freq") &&
          name != "lm_head.weight")
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

// As the parameter stands here, in fp32.
Bytes read_parameter(Tensors& tensors, const config::Model& model, const arch::ParamSpec& param,
                     const std::string& what) {
  const formats::Tensor* tensor = tensors.find(param.name);
  if (tensor == nullptr) fail(ErrorKind::kData, "{}: has no tensor {}", what, param.name);
  std::vector<std::int64_t> shape = param.shape;
  const bool turned = transposed(model, param);
  if (turned) std::swap(shape[0], shape[1]);
  if (tensor->shape != shape)
    fail(ErrorKind::kData, "{}: {} is [{}], the model of its config.json needs [{}]", what,
         param.name, fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
  constexpr DType kRead[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
  if (std::ranges::find(kRead, tensor->dtype) == std::end(kRead))
    fail(ErrorKind::kData, "{}: {} is {}; needs numbers with a fraction", what, param.name,
         name(tensor->dtype));
  Bytes values(static_cast<std::size_t>(tensor->numel()) * sizeof(float));
  for (std::int64_t i = 0; i < tensor->numel(); ++i) {
    const auto value = static_cast<float>(value_at(tensor->bytes, tensor->dtype, i));
    std::memcpy(values.data() + static_cast<std::size_t>(i) * sizeof(float), &value, sizeof value);
  }
  return turned ? turn(values, shape[0], shape[1], sizeof(float)) : values;
}

}  // namespace

void to_hugging_face(const Path& checkpoint, const config::Job& job, const arch::ModelSpec& model,
                     const Path& out) {
  if (job.lora.rank > 0)
    fail(ErrorKind::kUsage,
         "{}: has adapters (lora.rank={}), which config.json cannot say; train or convert the "
         "model without them",
         checkpoint.string(), job.lora.rank);
  const StateReader stored(checkpoint, model.units);
  if (!stored.manifest().base.empty())
    fail(ErrorKind::kUsage,
         "{}: has what trains alone (checkpoint.trainable_only); convert one that has all",
         checkpoint.string());
  std::error_code cause;
  if (std::filesystem::exists(out) && !std::filesystem::is_empty(out, cause))
    fail(ErrorKind::kUsage, "{} is not empty; choose another directory", out.string());
  make_directories(out);
  std::vector<std::pair<std::size_t, std::size_t>> places;
  std::vector<formats::TensorInfo> infos;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    for (std::size_t p = 0; p < model.units[unit].params.size(); ++p) {
      const arch::ParamSpec& param = model.units[unit].params[p];
      std::vector<std::int64_t> shape = param.shape;
      if (transposed(job.model, param)) std::swap(shape[0], shape[1]);
      infos.push_back(
          {.name = param.name, .dtype = parameter_kind(stored, unit).type, .shape = shape});
      places.emplace_back(unit, p);
    }
  Bytes now;
  formats::stream_safetensors(out / kModel, infos, {{"format", "pt"}},
                              formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                const auto [unit, p] = places[index];
                                const Kind kind = parameter_kind(stored, unit);
                                const arch::ParamSpec& param = model.units[unit].params[p];
                                now = stored.read_whole(unit, p, kind);
                                if (transposed(job.model, param))
                                  now =
                                      turn(now, param.shape[0], param.shape[1], size_of(kind.type));
                                return std::span<const std::byte>(now);
                              });
  write_file_synced(out / kConfig, hugging_face_config(job.model));
}

Path from_hugging_face(const Path& directory, const config::Job& job, const arch::ModelSpec& model,
                       const std::string& build, const Path& out) {
  Tensors tensors(directory);
  formats::Manifest manifest{.world = 1,
                             .layout = manifest_layout(mesh::Mesh()),
                             .job = config::print_yaml(job),
                             .build = build};
  const std::string file = "rank-00000.safetensors";
  std::vector<formats::TensorInfo> infos;
  for (const arch::UnitSpec& spec : model.units) {
    infos.push_back({.name = spec.name + ".param", .shape = {spec.numel()}});
    manifest.units.push_back(manifest_unit(spec, 0, 1));
    manifest.units.back().slices = {{file, infos.back().name, "param", 0, spec.numel()}};
    for (const arch::ParamSpec& param : spec.params) tensors.find(param.name);
  }
  if (const std::vector<std::string> unused = tensors.unused(); !unused.empty())
    fail(ErrorKind::kData, "{}: has {} tensors that this model has no place for, such as {}",
         directory.string(), unused.size(), unused.front());
  if (std::filesystem::exists(out / "step-0"))
    fail(ErrorKind::kUsage, "{} is there already; choose another directory",
         (out / "step-0").string());
  make_directories(out);
  formats::CheckpointDraft draft(env::real_file_system(), out, 0);
  Bytes unit;
  manifest.files = {formats::write_shard(
      env::real_file_system(), formats::CheckpointDraft::directory(out, 0), file, 0, infos,
      [&](std::size_t index) {
        unit.clear();
        for (const arch::ParamSpec& param : model.units[index].params) {
          const Bytes values = read_parameter(tensors, job.model, param, directory.string());
          unit.insert(unit.end(), values.begin(), values.end());
        }
        return std::span<const std::byte>(unit);
      })};
  return draft.commit(manifest);
}

}  // namespace trireme::convert
