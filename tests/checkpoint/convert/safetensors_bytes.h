// Bytes of small safetensors files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/formats/safetensors.h"

namespace trireme::convert {

// A file of these entries, whose data are zeros.
inline std::string safetensors(const Json& header) {
  std::size_t size = 0;
  for (const auto& [name, entry] : header.items())
    if (entry.contains("data_offsets"))
      size = std::max(size, entry["data_offsets"][1].get<std::size_t>());
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text + std::string(size, '\0');
}

inline Json header_of(const std::string& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return Json::parse(bytes.substr(sizeof length, length));
}

// Appends an entry after the others.
inline void add_tensor(Json& header, const std::string& name,
                       const std::vector<std::int64_t>& shape) {
  std::int64_t begin = 0, bytes = sizeof(float);
  for (const auto& [other, entry] : header.items())
    begin = std::max(begin, entry["data_offsets"][1].get<std::int64_t>());
  for (const std::int64_t size : shape) bytes *= size;
  header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, begin + bytes}}};
}

inline Json header_of(const std::vector<formats::TensorInfo>& tensors) {
  Json header = Json::object();
  for (const formats::TensorInfo& tensor : tensors) add_tensor(header, tensor.name, tensor.shape);
  return header;
}

}  // namespace trireme::convert
