// Matrices of low-rank adapters, their names and their forms in files of PEFT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
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

enum class AdapterMatrix { kDown, kUp, kMagnitude };

// Several of our layers may be one of theirs, such as queries, keys and values. Its adapter is theirs in one of two forms:
// of each of ours its own A, one after the other, and B block by block; or one A for all.
enum class FusedForm { kStacked, kShared };

// Rows of ours [.., + count) that are rows of theirs from `there` on.
struct AdapterRows {
  std::int64_t there = 0, count = 0;
};

// A tensor of PEFT's files, made of our parameters.
struct AdapterTensor {
  struct Piece {
    Slot slot;
    std::vector<AdapterRows> rows;  // of its outputs, in their order
  };

  std::string name;     // in PEFT's files
  std::string layer;    // the adapted layer, as Hugging Face's files name it
  bool turned = false;  // whose weight is [in, out] there
  AdapterMatrix matrix = AdapterMatrix::kDown;
  FusedForm form = FusedForm::kStacked;
  std::vector<std::int64_t> shape;
  std::vector<Piece> pieces;

  // How many times the rank of our adapters is theirs.
  std::int64_t ranks() const {
    return form == FusedForm::kStacked ? static_cast<std::int64_t>(pieces.size()) : 1;
  }
  // Theirs, of elements of `width` bytes, from our parameters.
  std::vector<std::byte> joined(
      std::size_t width, const std::function<std::vector<std::byte>(const Slot&)>& read) const;
  // One of our parameters, from theirs.
  std::vector<std::byte> piece(std::size_t of, std::span<const std::byte> theirs,
                               std::size_t width) const;
};

// Names of the parameters of the model that adapters belong to: those in the files that training began with, or those
// that are written. Throws Error{kUsage} for files of another family.
const Names& names_of_base(const config::Job& job);

// Of all adapters of a resolved job's model. Throws Error{kUsage} for a model that their form cannot hold.
std::vector<AdapterTensor> adapter_tensors(const config::Job& job, const model::ModelSpec& model,
                                           const Names& names,
                                           FusedForm form = FusedForm::kStacked);

}  // namespace trireme::convert
