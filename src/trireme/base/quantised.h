// Stored forms of frozen matrices: rows of quantised values, as bitsandbytes has them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trireme {

// kInt8: a row's values times 127 / its largest, rounded (LLM.int8, Dettmers et al. 2022). kNf4: the nearest of 16
// quantiles of a normal distribution, times the largest of 64 values (QLoRA, Dettmers et al. 2023).
enum class RowForm : std::uint8_t { kFull, kInt8, kNf4 };

inline constexpr std::int64_t kNf4Block = 64;

// Bytes of a row: its codes, then its scales in fp32. nf4 needs whole blocks.
constexpr std::int64_t row_bytes(RowForm form, std::int64_t columns) {
  if (form == RowForm::kInt8) return columns + 4;
  return columns / 2 + columns / kNf4Block * 4;
}

// One row: `values` to `bytes`, and back.
void quantise_row(RowForm form, std::span<const float> values, std::span<std::uint8_t> bytes);
void dequantise_row(RowForm form, std::span<const std::uint8_t> bytes, std::span<float> values);

// The values of nf4's codes.
std::span<const float, 16> nf4_values();

}  // namespace trireme
