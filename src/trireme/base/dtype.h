// Element types as plan, files and communication see them; LibTorch's scalar types map onto these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kI16, kU16, kU8 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kI64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
    case DType::kU16: return 2;
    case DType::kU8: return 1;
  }
  return 0;
}

// "fp64", "fp32", "bf16", "fp16", "int64", "int32", "int16", "uint16", "uint8".
constexpr std::string_view name(DType type) {
  constexpr std::string_view kNames[] = {"fp64",  "fp32",  "bf16",   "fp16", "int64",
                                         "int32", "int16", "uint16", "uint8"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace trireme
