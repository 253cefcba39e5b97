#include "weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "trireme/arch/training.h"
#include "trireme/base/error.h"
#include "trireme/formats/manifest.h"

namespace trireme::app {
namespace {

constexpr std::size_t kNamed = 5;

formats::Manifest manifest_of(const Path& directory) {
  try {
    return formats::read_manifest(directory);
  } catch (const Error& error) {
    fail(error.kind(), "model.weights={}: {}; give the step-N directory of a checkpoint",
         directory.string(), error.what());
  }
}

// Of what the checkpoint's tensor-parallel rank held of it.
void check_shape(const Path& directory, const formats::ManifestUnit& unit,
                 const formats::ManifestParameter& stored, const arch::ParamSpec& own) {
  const arch::LocalParam needed =
      arch::local_param(own, static_cast<int>(unit.tp_rank), static_cast<int>(unit.tp));
  if (stored.shape != needed.shape)
    fail(ErrorKind::kData,
         "model.weights={}: {} is [{}] there{}, this model needs [{}]; begin with the weights of a "
         "model of this shape",
         directory.string(), own.name, fmt::join(stored.shape, ", "),
         unit.tp > 1 ? fmt::format(" (part {} of {})", unit.tp_rank, unit.tp) : "",
         fmt::join(needed.shape, ", "));
}

// Of units that train, all but adapters.
std::vector<std::string> drawn_units(const arch::ModelSpec& model,
                                     const std::set<std::string>& stored) {
  std::vector<std::string> names;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    const arch::UnitSpec& spec = model.units[unit];
    const bool here = std::ranges::any_of(
        spec.params, [&](const arch::ParamSpec& param) { return stored.contains(param.name); });
    if (!here && model.program.units[unit].trainable && !arch::holds_adapters(spec.name))
      names.push_back(spec.name);
  }
  return names;
}

}  // namespace

std::string describe_weights(const Path& directory, const arch::ModelSpec& model) {
  const formats::Manifest manifest = manifest_of(directory);
  std::map<std::string, const arch::ParamSpec*> own;
  for (const arch::UnitSpec& unit : model.units)
    for (const arch::ParamSpec& param : unit.params) own[param.name] = &param;
  std::vector<std::string> unused;
  std::set<std::string> stored;
  for (const formats::ManifestUnit& unit : manifest.units)
    for (const formats::ManifestParameter& param : unit.parameters) {
      stored.insert(param.name);
      const auto found = own.find(param.name);
      if (found != own.end())
        check_shape(directory, unit, param, *found->second);
      else if (unit.tp_rank == 0)
        unused.push_back(param.name);
    }
  std::string text = fmt::format("{} (step {})", directory.string(), manifest.step);
  if (const std::vector<std::string> drawn = drawn_units(model, stored); !drawn.empty())
    text += fmt::format("; it has nothing of {}, which begin with random values",
                        fmt::join(drawn, ", "));
  if (unused.empty()) return text;
  const std::size_t count = unused.size();
  unused.resize(std::min(count, kNamed));
  return text + fmt::format("; this model has no place for {} of its parameters: {}{}", count,
                            fmt::join(unused, ", "), count > kNamed ? ", .." : "");
}

}  // namespace trireme::app
