#include "trireme/checkpoint/convert/adapter_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/model/families/describe.h"

namespace trireme::convert {

Slots slots_of(const model::ModelSpec& model) {
  Slots slots;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    for (std::size_t i = 0; i < model.units[unit].params.size(); ++i) {
      const model::ParamSpec& param = model.units[unit].params[i];
      slots[param.name] = {unit, i, &param};
    }
  return slots;
}

std::string adapter_name(const std::string& weight, std::string_view matrix) {
  const std::size_t last = weight.rfind('.');
  return fmt::format("{}.{}{}", weight.substr(0, last), matrix, weight.substr(last));
}

config::Job without_adapters(config::Job job) {
  job.lora = {};
  job.checkpoint.trainable_only = false;
  return job;
}

const Names& names_of_base(const config::Job& job) {
  const std::vector<const Names*> all = names_of(without_adapters(job));
  const Path base = job.model.weights;
  if (base.empty() || !is_hugging_face(base)) return *all.front();
  const HuggingFaceWeights weights(base);
  const auto found = std::ranges::find(all, weights.names(), &Names::name);
  if (found == all.end())
    fail(ErrorKind::kUsage,
         "model.weights={}: has the layers of a {}, which PEFT would not find by the names of a "
         "{}; write merged weights (--merge)",
         base.string(), weights.names(), all.front()->name);
  return **found;
}

namespace {

constexpr std::pair<AdapterMatrix, const char*> kMatrices[] = {
    {AdapterMatrix::kDown, "lora_A"},
    {AdapterMatrix::kUp, "lora_B"},
    {AdapterMatrix::kMagnitude, "lora_magnitude_vector"}};

// PEFT's magnitudes are no layers, so that their names have no last word.
std::string name_there(const std::string& weight, AdapterMatrix matrix, const char* word) {
  if (matrix != AdapterMatrix::kMagnitude) return "base_model.model." + adapter_name(weight, word);
  return fmt::format("base_model.model.{}.{}", weight.substr(0, weight.rfind('.')), word);
}

// Calls move(here, there, bytes) for offsets in one of our parameters and in a tensor that hold the same.
template <typename Move>
void for_same(const AdapterTensor& tensor, std::size_t of, std::size_t width, const Move& move) {
  const AdapterTensor::Piece& piece = tensor.pieces[of];
  const std::vector<std::int64_t>& shape = piece.slot.param->shape;
  const bool stacked = tensor.form == FusedForm::kStacked;
  if (tensor.matrix == AdapterMatrix::kDown) {
    const std::size_t all = static_cast<std::size_t>(piece.slot.param->numel()) * width;
    return move(0, stacked ? of * all : 0, all);
  }
  const std::size_t own = (shape.size() > 1 ? static_cast<std::size_t>(shape[1]) : 1) * width;
  const std::size_t row = shape.size() > 1 ? own * static_cast<std::size_t>(tensor.ranks()) : own;
  const std::size_t column = stacked && shape.size() > 1 ? of * own : 0;
  std::size_t here = 0;
  for (const AdapterRows& rows : piece.rows)
    for (std::int64_t i = 0; i < rows.count; ++i, here += own)
      move(here, static_cast<std::size_t>(rows.there + i) * row + column, own);
}

// Rows of their layer, all of them and those of our weight.
struct Fused {
  std::int64_t all = 0;
  std::vector<AdapterRows> own;
};
Fused rows_of(const std::vector<Part>& parts, const model::ParamSpec& weight) {
  const std::int64_t columns = weight.shape[1];
  std::int64_t all = 1;
  for (const std::int64_t size : parts.front().shape) all *= size;
  Fused fused{.all = all / columns};
  for (const Part& part : parts) {
    if (part.name != parts.front().name)
      fail(ErrorKind::kUsage,
           "{} is several layers in files of Hugging Face, of which {} is one; write merged "
           "weights (--merge)",
           weight.name, parts.front().name);
    fused.own.push_back({.there = part.offset / columns, .count = part.count / columns});
  }
  return fused;
}

}  // namespace

std::vector<std::byte> AdapterTensor::joined(
    std::size_t width, const std::function<std::vector<std::byte>(const Slot&)>& read) const {
  std::size_t bytes = width;
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  std::vector<std::byte> theirs(bytes);
  for (std::size_t of = 0; of < pieces.size(); ++of) {
    const std::vector<std::byte> own = read(pieces[of].slot);
    for_same(*this, of, width, [&](std::size_t here, std::size_t there, std::size_t count) {
      std::memcpy(theirs.data() + there, own.data() + here, count);
    });
  }
  return theirs;
}

std::vector<std::byte> AdapterTensor::piece(std::size_t of, std::span<const std::byte> theirs,
                                            std::size_t width) const {
  std::vector<std::byte> own(static_cast<std::size_t>(pieces[of].slot.param->numel()) * width);
  for_same(*this, of, width, [&](std::size_t here, std::size_t there, std::size_t count) {
    std::memcpy(own.data() + here, theirs.data() + there, count);
  });
  return own;
}

std::vector<AdapterTensor> adapter_tensors(const config::Job& job, const model::ModelSpec& model,
                                           const Names& names, FusedForm form) {
  const config::Job plain = without_adapters(job);
  const model::ModelSpec whole = model::describe(plain);
  const Slots slots = slots_of(model);
  std::vector<AdapterTensor> tensors;
  std::map<std::string, std::size_t> places;
  std::map<std::string, std::int64_t> lacking;  // rows of theirs without a magnitude of ours
  for (const model::UnitSpec& unit : whole.units)
    for (const model::ParamSpec& weight : unit.params)
      for (const auto& [matrix, word] : kMatrices) {
        const auto found = slots.find(adapter_name(weight.name, word));
        if (found == slots.end()) continue;
        const std::vector<Part> parts = parts_of(names, plain, weight);
        Fused fused = rows_of(parts, weight);
        const std::string& theirs = parts.front().name;
        const std::string name = name_there(theirs, matrix, word);
        const auto [place, added] = places.try_emplace(name, tensors.size());
        if (added)
          tensors.push_back({.name = name,
                             .layer = theirs.substr(0, theirs.rfind('.')),
                             .turned = parts.front().form == Form::kTurned,
                             .matrix = matrix,
                             .form = form});
        AdapterTensor& tensor = tensors[place->second];
        tensor.shape = found->second.param->shape;
        if (matrix == AdapterMatrix::kMagnitude)
          lacking.try_emplace(name, fused.all).first->second -= tensor.shape[0];
        if (matrix != AdapterMatrix::kDown) tensor.shape[0] = fused.all;
        tensor.pieces.push_back({.slot = found->second, .rows = std::move(fused.own)});
      }
  for (AdapterTensor& tensor : tensors)
    if (tensor.matrix != AdapterMatrix::kMagnitude)
      tensor.shape[tensor.matrix == AdapterMatrix::kDown ? 0 : 1] *= tensor.ranks();
  for (const auto& [name, rows] : lacking)
    if (rows > 0)
      fail(ErrorKind::kUsage,
           "lora.dora with lora.targets=query_value: {} needs magnitudes of keys too, since "
           "queries, keys and values are one layer there; write merged weights (--merge), or train "
           "with lora.targets=attention",
           name);
  return tensors;
}

}  // namespace trireme::convert
