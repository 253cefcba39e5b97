#include "trireme/checkpoint/convert/adapter_tensors.h"

#include <fmt/format.h>

#include <utility>

#include "trireme/base/error.h"
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

namespace {

// The one tensor of theirs that is a weight with an adapter.
Part weight_part(const Names& names, const config::Job& job, const model::ParamSpec& weight) {
  std::vector<Part> parts = parts_of(names, job, weight);
  if (parts.size() != 1)
    fail(ErrorKind::kUsage,
         "{} is a part of {} in files of Hugging Face, where queries, keys and values have one "
         "adapter; write merged weights (--merge), or train with lora.targets=mlp",
         weight.name, parts.front().name);
  return std::move(parts.front());
}

}  // namespace

std::vector<AdapterTensor> adapter_tensors(const config::Job& job, const model::ModelSpec& model,
                                           const Names* table) {
  const config::Job plain = without_adapters(job);
  const Names& names = table != nullptr ? *table : *names_of(job).front();
  const model::ModelSpec whole = model::describe(plain);
  const Slots slots = slots_of(model);
  std::vector<AdapterTensor> tensors;
  for (const auto& [name, weight] : slots_of(whole))
    for (const char* matrix : {"lora_A", "lora_B"}) {
      const auto found = slots.find(adapter_name(name, matrix));
      if (found == slots.end()) continue;
      const Part part = weight_part(names, plain, *weight.param);
      const std::string& theirs = part.name;
      tensors.push_back({.name = "base_model.model." + adapter_name(theirs, matrix),
                         .layer = theirs.substr(0, theirs.rfind('.')),
                         .turned = part.form == Form::kTurned,
                         .slot = found->second});
    }
  return tensors;
}

}  // namespace trireme::convert
