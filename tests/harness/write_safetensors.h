// A safetensors file of tensors in memory.
#pragma once

#include <span>
#include <vector>

#include "trireme/formats/safetensors.h"

namespace trireme::harness {

inline formats::FileDigest write_safetensors(
    const Path& path, std::span<const formats::Tensor> tensors,
    const formats::TensorMetadata& metadata,
    formats::TensorOrder order = formats::TensorOrder::kOfficial) {
  std::vector<formats::TensorInfo> infos;
  for (const formats::Tensor& tensor : tensors)
    infos.push_back({tensor.name, tensor.dtype, tensor.shape});
  return formats::stream_safetensors(path, infos, metadata, order,
                                     [&](std::size_t index) { return tensors[index].bytes; });
}

}  // namespace trireme::harness
