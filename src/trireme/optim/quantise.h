// Block-wise quantisation of optimizer states to 8 bits (Dettmers et al. 2022).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::optim {

// The dynamic map: each of seven decades up to 1 has the means of evenly spaced intervals, twice as many as the decade
// below; 0 and 1 are added. In the signed map half of them are negative. Ascending.
enum class Moment { kFirst, kSecond };  // signed; never negative

// A block of up to 256 numbers as the nearest of the map times their largest magnitude, which is `scale`. A second
// moment above 0 stays above 0, to avoid division by zero.
void quantise(Moment moment, const float* values, std::int64_t count, std::uint8_t* codes,
              float& scale);
void dequantise(Moment moment, const std::uint8_t* codes, float scale, float* values,
                std::int64_t count);

// The same by LibTorch's operators, for whole blocks in rows of `block` but perhaps the last.
struct Quantised {
  at::Tensor codes;
  at::Tensor scales;
};
Quantised quantised(Moment moment, const at::Tensor& values, std::int64_t block);
at::Tensor dequantised(Moment moment, const Quantised& quantised, std::int64_t block);

}  // namespace trireme::optim
