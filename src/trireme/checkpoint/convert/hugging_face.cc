#include "trireme/checkpoint/convert/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/described.h"
#include "trireme/checkpoint/convert/hugging_face_names.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/checkpoint/convert/turn.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/model/layout.h"
#include "trireme/plan/unit_types.h"

namespace trireme::convert {
namespace {

using Bytes = std::vector<std::byte>;

Kind parameter_kind(const StateReader& stored, std::size_t unit) {
  const std::vector<Kind> kinds = stored.kinds(unit);
  return *std::ranges::find(kinds, "param", &Kind::name);
}

// A tensor of theirs and what of a checkpoint it is made of.
struct Made {
  formats::TensorInfo info;
  Form form = Form::kSame;
  Kind kind;
  // By where they begin in the tensor.
  std::vector<std::pair<std::int64_t, PartRange>> from;
};

// How each unit's parameters are kept.
using KindOf = std::function<Kind(std::size_t unit)>;

std::vector<Made> made_tensors(const KindOf& kind_of, const config::Job& job,
                               const model::ModelSpec& model) {
  const Names& names = *names_of(job).front();
  std::vector<Made> made;
  std::map<std::string, std::size_t> places;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    std::int64_t offset = 0;
    for (const model::ParamSpec& param : model.units[unit].params) {
      std::int64_t begin = std::exchange(offset, offset + param.numel());
      if (!has_place(names, param)) continue;
      for (const Part& part : parts_of(names, job, param)) {
        const auto [place, added] = places.try_emplace(part.name, made.size());
        if (added) {
          const Kind kind = kind_of(unit);
          made.push_back({.info = {.name = part.name, .dtype = kind.type, .shape = part.shape},
                          .form = part.form,
                          .kind = kind});
        }
        for (std::int64_t copy = 0; copy < part.copies; ++copy)
          made[place->second].from.push_back(
              {part.offset, {.unit = unit, .offset = begin, .count = part.count}});
        begin += part.count;
      }
    }
  }
  for (Made& one : made)
    std::ranges::stable_sort(one.from, {}, &std::pair<std::int64_t, PartRange>::first);
  return made;
}

std::vector<Made> made_tensors(const StateReader& stored, const config::Job& job,
                               const model::ModelSpec& model) {
  return made_tensors([&](std::size_t unit) { return parameter_kind(stored, unit); }, job, model);
}

std::vector<formats::TensorInfo> infos_of(const std::vector<Made>& made) {
  std::vector<formats::TensorInfo> infos;
  for (const Made& tensor : made) infos.push_back(tensor.info);
  return infos;
}

std::vector<formats::TensorInfo> by_name(std::vector<formats::TensorInfo> infos) {
  std::ranges::sort(infos, {}, &formats::TensorInfo::name);
  return infos;
}

void refuse_adapters(const config::Job& job, const std::string& what) {
  if (job.lora.rank > 0)
    fail(ErrorKind::kUsage,
         "{}has adapters (lora.rank={}), which config.json cannot describe; write them as files of "
         "PEFT, or merge them",
         what, job.lora.rank);
}

StateReader whole_checkpoint(const Path& checkpoint, const model::ModelSpec& model) {
  StateReader stored(checkpoint, model.units);
  if (!stored.manifest().base.empty())
    fail(ErrorKind::kUsage,
         "{}: holds only trainable units (checkpoint.trainable_only); convert a checkpoint that "
         "holds all",
         checkpoint.string());
  return stored;
}

Bytes contents(const StateReader& stored, const Made& made) {
  const std::size_t width = size_of(made.kind.type);
  Bytes bytes;
  for (const auto& [at, range] : made.from) {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + static_cast<std::size_t>(range.count) * width);
    stored.read(range, made.kind, std::span(bytes).subspan(begin));
  }
  const std::vector<std::int64_t>& shape = made.info.shape;
  return made.form == Form::kTurned ? turn(bytes, shape[1], shape[0], width) : bytes;
}

}  // namespace

std::vector<formats::TensorInfo> hugging_face_tensors(const config::Job& job,
                                                      const model::ModelSpec& model) {
  refuse_adapters(job, "the job ");
  hugging_face_config(job);  // refuses what has no class
  const plan::Recipe recipe = model::recipe_of(job);
  const auto kind_of = [&](std::size_t unit) -> Kind {
    return {.name = "param", .type = plan::stored_type(recipe, model.program.units[unit])};
  };
  return by_name(infos_of(made_tensors(kind_of, job, model)));
}

std::vector<formats::TensorInfo> hugging_face_tensors(const Path& checkpoint,
                                                      const config::Job& job,
                                                      const model::ModelSpec& model) {
  refuse_adapters(job, checkpoint.string() + ": ");
  hugging_face_config(job);
  return by_name(infos_of(made_tensors(whole_checkpoint(checkpoint, model), job, model)));
}

std::vector<std::string> to_hugging_face(const Path& checkpoint, const config::Job& job,
                                         const model::ModelSpec& model, const Path& out) {
  refuse_adapters(job, checkpoint.string() + ": ");
  const std::string config = hugging_face_config(job);
  const StateReader stored = whole_checkpoint(checkpoint, model);
  std::error_code cause;
  if (std::filesystem::exists(out) && !std::filesystem::is_empty(out, cause))
    fail(ErrorKind::kUsage, "{} is not empty; choose another directory", out.string());
  make_directories(out);
  const Names& names = *names_of(job).front();
  const std::vector<Made> made = made_tensors(stored, job, model);
  Bytes now;
  formats::stream_safetensors(out / kModelName, infos_of(made), {{"format", "pt"}},
                              formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                now = contents(stored, made[index]);
                                return std::span<const std::byte>(now);
                              });
  write_file_synced(out / kConfigName, config);
  if (const char* name = preprocessor_name(job))
    write_file_synced(out / name, preprocessor_config(job));
  std::vector<std::string> left_out;
  for (const model::UnitSpec& unit : model.units)
    for (const model::ParamSpec& param : unit.params)
      if (!has_place(names, param)) left_out.push_back(param.name);
  return left_out;
}

Path write_weights(const config::Job& job, const model::ModelSpec& model, const ReadParam& read,
                   const std::string& vocabulary, const std::string& build, const Path& out) {
  const std::string file = "rank-00000.safetensors";
  std::vector<formats::TensorInfo> infos;
  std::vector<const model::ParamSpec*> params;  // parallel to infos
  std::vector<formats::ManifestUnit> units;
  for (const model::UnitSpec& spec : model.units) {
    units.push_back(manifest_unit(spec, 0, 1));
    std::int64_t offset = 0;
    for (const model::ParamSpec& param : spec.params) {
      const std::int64_t count = param.numel();
      infos.push_back(
          {.name = fmt::format("{}.param.{}", spec.name, param.name), .shape = {count}});
      units.back().slices.push_back({file, infos.back().name, "param", offset, count});
      offset += count;
      params.push_back(&param);
    }
  }
  if (std::filesystem::exists(out / "step-0"))
    fail(ErrorKind::kUsage, "{} is there already; choose another directory",
         (out / "step-0").string());
  make_directories(out);
  formats::CheckpointDraft draft(os::real_file_system(), out, 0);
  Bytes now;
  formats::ManifestFile written =
      formats::write_shard(os::real_file_system(), formats::CheckpointDraft::directory(out, 0),
                           file, 0, infos, [&](std::size_t index) {
                             now = read(*params[index]);
                             return std::span<const std::byte>(now);
                           });
  return draft.commit({.world = 1,
                       .layout = manifest_layout(mesh::Mesh()),
                       .vocabulary = vocabulary,
                       .job = config::print_yaml(job),
                       .build = build,
                       .files = {std::move(written)},
                       .units = std::move(units)});
}

Path from_hugging_face(const HuggingFaceWeights& weights, const std::string& vocabulary,
                       const std::string& build, const Path& out) {
  return write_weights(
      weights.job(), weights.model(),
      [&](const model::ParamSpec& param) { return weights.read(param); }, vocabulary, build, out);
}

}  // namespace trireme::convert
