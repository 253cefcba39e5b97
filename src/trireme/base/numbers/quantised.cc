#include "trireme/base/quantised.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

// The smallest scale of a block, as bitsandbytes has it: blocks of zeros have codes too.
constexpr float kSmallest = 1e-38f;

float largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

// Number of midpoints below the value: one on a midpoint takes the lower code.
std::uint8_t nf4_code(float value) {
  std::uint8_t code = 0;
  for (int i = 0; i < 15; ++i) {
    // Exact: midpoints of floats are doubles.
    const double middle = (static_cast<double>(kNf4[i]) + static_cast<double>(kNf4[i + 1])) / 2;
    code = static_cast<std::uint8_t>(code + (static_cast<double>(value) > middle));
  }
  return code;
}

void quantise_nf4(std::span<const float> values, std::uint8_t* codes) {
  std::uint8_t* scale = codes + values.size() / 2;
  for (std::size_t begin = 0; begin < values.size(); begin += kNf4Block, scale += sizeof(float)) {
    const std::span<const float> block = values.subspan(begin, kNf4Block);
    const float most = std::max(largest(block), kSmallest);
    std::memcpy(scale, &most, sizeof(most));
    for (std::size_t i = 0; i < block.size(); i += 2)
      *codes++ =
          static_cast<std::uint8_t>(nf4_code(block[i] / most) << 4 | nf4_code(block[i + 1] / most));
  }
}

void dequantise_nf4(const std::uint8_t* codes, std::span<float> values) {
  const std::uint8_t* scale = codes + values.size() / 2;
  for (std::size_t begin = 0; begin < values.size(); begin += kNf4Block, scale += sizeof(float)) {
    float most = 0;
    std::memcpy(&most, scale, sizeof(most));
    float table[16];
    for (int i = 0; i < 16; ++i) table[i] = kNf4[i] * most;
    float* out = values.data() + begin;
    for (int i = 0; i < kNf4Block / 2; ++i, ++codes) {
      *out++ = table[*codes >> 4];
      *out++ = table[*codes & 15];
    }
  }
}

}  // namespace

std::span<const float, 16> nf4_values() { return kNf4; }

void quantise_row(RowForm form, std::span<const float> values, std::span<std::uint8_t> bytes) {
  TRIREME_CHECK(std::ssize(bytes) == row_bytes(form, std::ssize(values)), "{} bytes for {} values",
                bytes.size(), values.size());
  if (form == RowForm::kNf4) return quantise_nf4(values, bytes.data());
  const float scale = largest(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(
        static_cast<std::int8_t>(scale > 0 ? std::nearbyint(values[i] / scale * 127.0f) : 0.0f));
  std::memcpy(bytes.data() + values.size(), &scale, sizeof(scale));
}

void dequantise_row(RowForm form, std::span<const std::uint8_t> bytes, std::span<float> values) {
  if (form == RowForm::kNf4) return dequantise_nf4(bytes.data(), values);
  float scale = 0;
  std::memcpy(&scale, bytes.data() + values.size(), sizeof(scale));
  const float unit = scale / 127.0f;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<std::int8_t>(bytes[i])) * unit;
}

}  // namespace trireme
