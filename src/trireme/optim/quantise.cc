#include "trireme/optim/quantise.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/simd.h"

namespace trireme::optim {
namespace {

constexpr int kCodes = 256, kDecades = 7;

std::array<float, kCodes> make_map(Moment moment) {
  const bool negative = moment == Moment::kFirst;
  std::vector<double> values = {0, 1};
  for (int decade = 0; decade < kDecades; ++decade) {
    const int means = negative ? 1 << decade : 2 << decade;
    for (int i = 0; i < means; ++i) {
      const double mean = 0.1 + 0.9 * (i + 0.5) / means;
      const double value = mean * std::pow(10.0, decade + 1 - kDecades);
      values.push_back(value);
      if (negative) values.push_back(-value);
    }
  }
  TRIREME_CHECK(values.size() == kCodes, "a map of {} values", values.size());
  std::sort(values.begin(), values.end());
  std::array<float, kCodes> map;
  std::transform(values.begin(), values.end(), map.begin(),
                 [](double value) { return static_cast<float>(value); });
  return map;
}

// Finds codes: first by the upper half of a number's bits, in whose bucket lies one border at most, then by that
// border.
struct Table {
  explicit Table(Moment moment) : map(make_map(moment)), codes(1 << 16) {
    borders.fill(std::numeric_limits<float>::infinity());
    for (std::size_t code = 0; code + 1 < kCodes; ++code)
      borders[code] = (map[code] + map[code + 1]) / 2;
    for (std::uint32_t upper = 0; upper < codes.size(); ++upper) {
      const auto value = std::bit_cast<float>(upper << 16);
      // The end that is nearer to minus infinity.
      const float least = value < 0 ? std::bit_cast<float>(upper << 16 | 0xFFFFu) : value;
      codes[upper] = nearest(least);
    }
  }

  std::int32_t nearest(float value) const {
    return static_cast<std::int32_t>(std::lower_bound(borders.begin(), borders.end() - 1, value) -
                                     borders.begin());
  }

  std::array<float, kCodes> map;
  std::array<float, kCodes> borders;  // above each code
  std::vector<std::int32_t> codes;
};

const Table& table(Moment moment) {
  static const Table first(Moment::kFirst), second(Moment::kSecond);
  return moment == Moment::kFirst ? first : second;
}

TRIREME_SIMD_CLONES float largest_magnitude(const float* values, std::int64_t count) {
  std::uint32_t largest = 0;  // magnitudes order as their bits do
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFu);
  return std::bit_cast<float>(largest);
}

TRIREME_SIMD_CLONES void find_codes(const float* __restrict values, float scale,
                                    const std::int32_t* __restrict buckets,
                                    const float* __restrict borders, std::uint8_t* __restrict codes,
                                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = values[i] / scale;
    const std::int32_t code = buckets[std::bit_cast<std::uint32_t>(x) >> 16];
    codes[i] = static_cast<std::uint8_t>(code + (x > borders[code] ? 1 : 0));
  }
}

TRIREME_SIMD_CLONES void look_up(const std::uint8_t* __restrict codes, const float* __restrict map,
                                 float scale, float* __restrict values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = map[codes[i]] * scale;
}

at::Tensor on_device(const std::array<float, kCodes>& values, std::int64_t count,
                     const at::Tensor& like) {
  return at::from_blob(const_cast<float*>(values.data()), {count}, at::kFloat)
      .to(like.device(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

void quantise(Moment moment, const float* values, std::int64_t count, std::uint8_t* codes,
              float& scale) {
  const Table& t = table(moment);
  scale = largest_magnitude(values, count);
  // Zeros alone; any scale finds them.
  find_codes(values, scale > 0 ? scale : 1, t.codes.data(), t.borders.data(), codes, count);
  if (moment == Moment::kFirst) return;
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = std::max<std::uint8_t>(codes[i], values[i] > 0 ? 1 : 0);
}

void dequantise(Moment moment, const std::uint8_t* codes, float scale, float* values,
                std::int64_t count) {
  look_up(codes, table(moment).map.data(), scale, values, count);
}

Quantised quantised(Moment moment, const at::Tensor& values, std::int64_t block) {
  const std::int64_t count = values.numel();
  const at::Tensor rows =
      at::constant_pad_nd(values, {0, (block - count % block) % block}).view({-1, block});
  const at::Tensor scales = rows.abs().amax(1);
  const at::Tensor divisors = at::where(scales.gt(0), scales, at::ones_like(scales));
  at::Tensor codes = at::bucketize(rows / divisors.unsqueeze(1),
                                   on_device(table(moment).borders, kCodes - 1, values));
  if (moment == Moment::kSecond) codes = codes.maximum(rows.gt(0).to(codes.scalar_type()));
  return {.codes = codes.view(-1).narrow(0, 0, count).to(at::kByte), .scales = scales};
}

at::Tensor dequantised(Moment moment, const Quantised& quantised, std::int64_t block) {
  const std::int64_t count = quantised.codes.numel();
  const at::Tensor scales = quantised.scales.repeat_interleave(block).narrow(0, 0, count);
  return on_device(table(moment).map, kCodes, quantised.codes)
             .index_select(0, quantised.codes.to(at::kLong)) *
         scales;
}

}  // namespace trireme::optim
