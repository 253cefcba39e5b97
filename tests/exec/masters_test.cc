// Masters in two halves: nothing is lost, and the upper half is the master rounded.
#include "trireme/exec/units/masters.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace trireme::exec::masters_test {
namespace {

// Every upper half with lower ones around zero, the halfway case and the carry.
std::vector<std::uint32_t> patterns() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (std::uint32_t lower : {0u, 1u, 0x1234u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      all.push_back(upper << 16 | lower);
  return all;
}

struct Halves {
  explicit Halves(const std::vector<std::uint32_t>& bits)
      : masters(at::empty({static_cast<std::int64_t>(bits.size())}, at::kFloat)),
        params(at::empty_like(masters, at::kBFloat16)),
        rests(at::empty_like(masters, at::kShort)),
        joined(at::empty_like(masters)) {
    std::copy(bits.begin(), bits.end(), static_cast<std::uint32_t*>(masters.data_ptr()));
    split_masters(masters, params, rests);
    join_masters(params, rests, joined);
  }
  at::Tensor masters, params, rests, joined;
};

std::uint32_t bits_of(const at::Tensor& tensor, std::size_t i) {
  return static_cast<const std::uint32_t*>(tensor.data_ptr())[i];
}

float param_of(const Halves& halves, std::size_t i) {
  return static_cast<float>(halves.params.data_ptr<c10::BFloat16>()[i]);
}

TEST(Masters, HalvesAreTheWhole) {
  const std::vector<std::uint32_t> all = patterns();
  const Halves halves(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(std::bit_cast<float>(all[i])))
      ASSERT_TRUE(std::isnan(std::bit_cast<float>(bits_of(halves.joined, i)))) << all[i];
    else
      ASSERT_EQ(bits_of(halves.joined, i), all[i]);
  }
}

// LibTorch rounds halfway cases to even: there the two may be neighbours, elsewhere they are the same.
TEST(Masters, TheUpperHalfIsTheNearest) {
  const std::vector<std::uint32_t> all = patterns();
  const Halves halves(all);
  std::size_t neighbours = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float master = std::bit_cast<float>(all[i]);
    const float param = param_of(halves, i);
    if (std::isnan(master)) {
      ASSERT_TRUE(std::isnan(param)) << all[i];
      continue;
    }
    const float even = static_cast<float>(static_cast<c10::BFloat16>(master));
    if ((all[i] & 0xFFFF) != 0x8000) {
      ASSERT_EQ(param, even) << all[i];
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(param), all[i] + 0x8000) << "away from zero";
    neighbours += param != even;
  }
  EXPECT_GT(neighbours, 30000u);
}

TEST(Masters, RoundingAloneGivesTheSame) {
  const Halves halves(patterns());
  const at::Tensor params = at::empty_like(halves.params);
  round_masters(halves.masters, params);
  EXPECT_TRUE(params.view(at::kShort).equal(halves.params.view(at::kShort)));
}

}  // namespace
}  // namespace trireme::exec::masters_test
