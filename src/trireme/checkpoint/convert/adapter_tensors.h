// Matrices of low-rank adapters and their names in files of PEFT.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/checkpoint/convert/hugging_face_names.h"
#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::convert {

// A parameter of a model, with its place among the units.
struct Slot {
  std::size_t unit = 0, index = 0;
  const model::ParamSpec* param = nullptr;
};
using Slots = std::map<std::string, Slot, std::less<>>;

// By name; into `model`.
Slots slots_of(const model::ModelSpec& model);

// "q_proj.lora_A.weight" of "q_proj.weight".
std::string adapter_name(const std::string& weight, std::string_view matrix);

// The job of the model without adapters.
config::Job without_adapters(config::Job job);

struct AdapterTensor {
  std::string name;     // in PEFT's files
  std::string layer;    // the adapted layer, as Hugging Face's files name it
  bool turned = false;  // whose weight is [in, out] there
  Slot slot;
};
// Of all adapters of a resolved job's model, by our names; theirs are of layers that are named by a table, or as this
// program writes them.
std::vector<AdapterTensor> adapter_tensors(const config::Job& job, const model::ModelSpec& model,
                                           const Names* table = nullptr);

}  // namespace trireme::convert
