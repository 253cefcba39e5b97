// A Hugging Face directory of drawn tensors, and a model that has them.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/bound_model.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/fs.h"
#include "trireme/checkpoint/convert/weights.h"

namespace trireme::harness {

// fp32, by name.
using NamedTensors = std::map<std::string, at::Tensor>;

inline void write_model(const NamedTensors& tensors, const std::string& config,
                        const Path& directory) {
  std::filesystem::create_directories(directory);
  std::vector<formats::Tensor> written;
  for (const auto& [name, tensor] : tensors)
    written.push_back({.name = name,
                       .dtype = DType::kF32,
                       .shape = tensor.sizes().vec(),
                       .bytes = {static_cast<const std::byte*>(tensor.data_ptr()),
                                 static_cast<std::size_t>(tensor.nbytes())}});
  write_safetensors(directory / "model.safetensors", written, {});
  write_file_synced(directory / "config.json", config);
}

// Every parameter gets its values; returns how many there are.
inline std::size_t read_weights(const convert::HuggingFaceWeights& weights, BoundModel& model) {
  const at::NoGradGuard no_grad;
  std::size_t param = 0;
  for (const model::UnitSpec& unit : model.model().spec.units)
    for (const model::ParamSpec& spec : unit.params) {
      const std::vector<std::byte> bytes = weights.read(spec);
      const at::Tensor& own = model.params()[param++].second;
      const at::Tensor values = at::empty(own.sizes(), at::kFloat);
      std::memcpy(values.data_ptr(), bytes.data(), bytes.size());
      own.copy_(values);
    }
  return param;
}

}  // namespace trireme::harness
