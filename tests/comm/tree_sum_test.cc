#include "trireme/comm/tree_sum.h"

#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::comm::tree_sum_test {
namespace {

template <typename T>
std::vector<std::vector<T>> random_leaves(int n, std::int64_t count) {
  std::vector<std::vector<T>> leaves(static_cast<std::size_t>(n));
  for (int r = 0; r < n; ++r)
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t key =
          mix(mix(7, static_cast<std::uint64_t>(r)), static_cast<std::uint64_t>(i));
      const double unit = static_cast<double>(key >> 11) * 0x1p-53 - 0.5;
      leaves[r].push_back(static_cast<T>(std::ldexp(unit, static_cast<int>(key % 24))));
    }
  return leaves;
}

template <typename T>
std::vector<T> tree(const std::vector<std::vector<T>>& leaves, DType type,
                    Reduce reduce = Reduce::kSum) {
  std::vector<const void*> pointers;
  for (const auto& leaf : leaves) pointers.push_back(leaf.data());
  std::vector<T> out(leaves[0].size());
  tree_reduce(out.data(), pointers, std::ssize(out), type, reduce);
  return out;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEST(TreeSum, FollowsTheWrittenAssociation) {
  const auto x = random_leaves<float>(7, 1000);
  const auto out = tree(x, DType::kF32);
  std::size_t differs_from_chain = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float expected =
        ((x[0][i] + x[1][i]) + (x[2][i] + x[3][i])) + ((x[4][i] + x[5][i]) + x[6][i]);
    ASSERT_EQ(out[i], expected);
    float chain = 0;
    for (const auto& leaf : x) chain += leaf[i];
    differs_from_chain += chain != out[i];
  }
  EXPECT_GT(differs_from_chain, 100u);  // the data can tell associations apart
}

template <typename T>
void expect_blocks_give_the_whole(const std::vector<std::vector<T>>& leaves, DType type,
                                  Reduce reduce, std::size_t block) {
  SCOPED_TRACE(fmt::format("{} {} of {} in blocks of {}", name(reduce), trireme::name(type),
                           leaves.size(), block));
  const auto count = std::ssize(leaves[0]);
  const auto below = Reduction::block(type, reduce);
  std::vector<std::vector<std::byte>> sums;
  for (std::size_t begin = 0; begin < leaves.size(); begin += block) {
    std::vector<const void*> pointers;
    for (std::size_t i = begin; i < std::min(begin + block, leaves.size()); ++i)
      pointers.push_back(leaves[i].data());
    void* out = sums.emplace_back(static_cast<std::size_t>(count) * size_of(below.to)).data();
    tree_reduce(std::span(&out, 1), pointers, count, below);
  }
  std::vector<const void*> pointers;
  for (const auto& sum : sums) pointers.push_back(sum.data());
  std::vector<T> whole(leaves[0].size());
  void* out = whole.data();
  tree_reduce(std::span(&out, 1), pointers, count,
              Reduction::of_blocks(type, reduce, leaves.size()));
  EXPECT_EQ(same_bits(whole, tree(leaves, type, reduce)), std::has_single_bit(block));
}

TEST(TreeSum, OfAlignedBlocksIsTheWholeBitForBit) {
  for (const int n : {4, 6, 7, 8, 13}) {
    const auto x = random_leaves<float>(n, 1001);
    std::vector<std::vector<std::uint16_t>> bf16, fp16;
    for (const auto& leaf : x) {
      bf16.emplace_back();
      fp16.emplace_back();
      for (float value : leaf) {
        bf16.back().push_back(
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
        fp16.back().push_back(c10::Half(std::fmod(value, 1000.0f)).x);
      }
    }
    for (const std::size_t block : {1, 2, 4}) {
      for (Reduce reduce : {Reduce::kSum, Reduce::kAvg, Reduce::kMax}) {
        expect_blocks_give_the_whole(x, DType::kF32, reduce, block);
        expect_blocks_give_the_whole(bf16, DType::kBF16, reduce, block);
        expect_blocks_give_the_whole(fp16, DType::kF16, reduce, block);
      }
    }
  }
  // Negative control: blocks of three are no subtrees.
  expect_blocks_give_the_whole(random_leaves<float>(6, 1001), DType::kF32, Reduce::kSum, 3);
}

// G leaves, summed in aligned blocks by a binary counter on each of w ranks and then across ranks.
TEST(TreeSum, AlignedBlocksGiveTheSameBits) {
  const int leaves = 16;
  const auto x = random_leaves<float>(leaves, 777);
  const auto whole = tree(x, DType::kF32);
  for (int ranks : {1, 2, 4, 8, 16}) {
    std::vector<std::vector<float>> partial;
    for (int r = 0; r < ranks; ++r) {
      std::vector<std::pair<int, std::vector<float>>> counter;  // (leaves held, sum)
      for (int i = r * leaves / ranks; i < (r + 1) * leaves / ranks; ++i) {
        counter.emplace_back(1, x[i]);
        while (counter.size() > 1 && counter[counter.size() - 2].first == counter.back().first) {
          auto& earlier = counter[counter.size() - 2];
          add_into(earlier.second.data(), counter.back().second.data(), std::ssize(earlier.second),
                   DType::kF32);
          earlier.first *= 2;
          counter.pop_back();
        }
      }
      ASSERT_EQ(counter.size(), 1u);
      partial.push_back(counter[0].second);
    }
    EXPECT_TRUE(same_bits(tree(partial, DType::kF32), whole)) << ranks << " ranks";
  }
  // Negative control: blocks that are not aligned subtrees give other bits.
  std::vector<std::vector<float>> strided(2, std::vector<float>(777, 0.0f));
  for (int i = 0; i < leaves; ++i) add_into(strided[i % 2].data(), x[i].data(), 777, DType::kF32);
  EXPECT_FALSE(same_bits(tree(strided, DType::kF32), whole));
}

TEST(TreeSum, DoesNotDependOnWhereASliceBegins) {
  const auto x = random_leaves<float>(5, 5000);
  const auto whole = tree(x, DType::kF32);
  for (std::size_t begin : {1u, 3u, 511u, 513u, 4999u}) {
    std::vector<const void*> pointers;
    for (const auto& leaf : x) pointers.push_back(leaf.data() + begin);
    std::vector<float> part(whole.size() - begin);
    tree_reduce(part.data(), pointers, std::ssize(part), DType::kF32, Reduce::kSum);
    EXPECT_TRUE(same_bits(part, {whole.begin() + static_cast<std::ptrdiff_t>(begin), whole.end()}));
  }
}

TEST(TreeSum, OutputMayBeALeaf) {
  for (std::size_t self : {0u, 1u, 2u}) {
    auto x = random_leaves<double>(3, 1500);
    const auto expected = tree(x, DType::kF64);
    const void* pointers[] = {x[0].data(), x[1].data(), x[2].data()};
    tree_reduce(x[self].data(), pointers, 1500, DType::kF64, Reduce::kSum);
    EXPECT_TRUE(same_bits(x[self], expected));
  }
}

std::uint16_t bf16(float x) {  // nearest even, by its definition
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const std::uint32_t low = bits & 0xFFFF, high = bits >> 16;
  return static_cast<std::uint16_t>(high + (low > 0x8000 || (low == 0x8000 && (high & 1))));
}

float wide(std::uint16_t x) {
  const std::uint32_t bits = std::uint32_t{x} << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

TEST(TreeSum, Bf16AddsInFp32AndRoundsOnce) {
  const auto x = random_leaves<float>(4, 3000);
  std::vector<std::vector<std::uint16_t>> halves(4);
  for (std::size_t r = 0; r < 4; ++r)
    for (float value : x[r]) halves[r].push_back(bf16(value));
  const auto out = tree(halves, DType::kBF16);
  int rounded_twice_differs = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float a = wide(halves[0][i]) + wide(halves[1][i]),
                b = wide(halves[2][i]) + wide(halves[3][i]);
    ASSERT_EQ(out[i], bf16(a + b));
    rounded_twice_differs += out[i] != bf16(wide(bf16(a)) + wide(bf16(b)));
  }
  EXPECT_GT(rounded_twice_differs, 100);
}

TEST(TreeSum, Bf16KeepsNanInfinityAndTies) {
  const std::vector<std::uint16_t> a = {0x7FC1, 0x7F80, 0x7F7F, 0x3F80, 0x3F81};
  const std::vector<std::uint16_t> b = {0x3F80, 0x3F80, 0x7F7F, 0x3B80, 0x3B80};  // 1 + 2^-8: ties
  const auto out = tree<std::uint16_t>({a, b}, DType::kBF16);
  EXPECT_TRUE(std::isnan(wide(out[0])));
  EXPECT_EQ(out[1], 0x7F80);
  EXPECT_EQ(out[2], 0x7F80);
  EXPECT_EQ(out[3], 0x3F80);
  EXPECT_EQ(out[4], 0x3F82);
}

TEST(TreeSum, Fp16AddsInFp32RoundsOnceAndOverflowsToInfinity) {
  const auto half = [](float value) { return c10::Half(value).x; };
  // 2048 + 1 is no fp16: added one after the other, 2048 + 1 + 1 would stay 2048.
  const auto out = tree<std::uint16_t>({{half(2047), half(60000), half(INFINITY)},
                                        {half(1), half(60000), half(-INFINITY)},
                                        {half(1), half(-60000), half(1)},
                                        {half(1), half(0), half(1)}},
                                       DType::kF16);
  EXPECT_EQ(out[0], half(2050));
  EXPECT_EQ(out[1], half(60000)) << "the sum of two is beyond the range, that of four is not";
  EXPECT_GT(out[2] & 0x7FFF, 0x7C00) << "not a number";
  EXPECT_EQ(tree<std::uint16_t>({{half(60000)}, {half(60000)}}, DType::kF16)[0], 0x7C00);
}

TEST(TreeSum, MaxAndAverage) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto max = tree<double>({{1, nan, 2}, {3, 1, nan}, {2, 5, 1}}, DType::kF64, Reduce::kMax);
  EXPECT_EQ(max[0], 3);
  EXPECT_TRUE(std::isnan(max[1]));
  EXPECT_TRUE(std::isnan(max[2]));
  EXPECT_EQ(tree<double>({{1}, {2}, {6}}, DType::kF64, Reduce::kAvg)[0], 3);
  EXPECT_EQ(tree<std::int32_t>({{-5}, {-7}}, DType::kI32, Reduce::kMax)[0], -5);
  EXPECT_EQ(tree<std::uint8_t>({{200}, {7}}, DType::kU8, Reduce::kMax)[0], 200);
  EXPECT_EQ(tree<std::int16_t>({{-5}, {300}}, DType::kI16, Reduce::kMax)[0], 300);
}

TEST(TreeSum, IntegersWrap) {
  EXPECT_EQ(tree<std::uint8_t>({{200}, {100}}, DType::kU8)[0], 44);
  EXPECT_EQ(tree<std::int32_t>({{std::numeric_limits<std::int32_t>::max()}, {1}}, DType::kI32)[0],
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(tree<std::int64_t>({{-3}, {5}, {7}}, DType::kI64)[0], 9);
  EXPECT_EQ(tree<std::int16_t>({{32767}, {2}}, DType::kI16)[0], -32767);
}

TEST(TreeSum, RefusesTypesItCannotAdd) {
  EXPECT_THROW(tree<std::uint16_t>({{1}, {2}}, DType::kU16), Error);
  EXPECT_THROW(tree<std::int64_t>({{1}, {2}}, DType::kI64, Reduce::kAvg), Error);
}

}  // namespace
}  // namespace trireme::comm::tree_sum_test
