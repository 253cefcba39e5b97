// AdamW with bf16 masters and with 8-bit states.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/optim/adamw.h"
#include "trireme/optim/quantise.h"
#include "trireme/optim/rounding.h"

namespace trireme::optim::narrow_test {
namespace {

using exec::UpdateSegment;

at::Tensor normal(std::int64_t count, std::uint64_t seed, double deviation = 1) {
  return at::zeros({count}, at::TensorOptions().dtype(at::kDouble))
      .normal_(0, deviation, at::make_generator<at::CPUGeneratorImpl>(seed))
      .to(at::kFloat);
}

TEST(Rounding, IsRightOnAverageAndAFunctionOfThePlace) {
  constexpr std::int64_t kCount = 1 << 20;
  const Rounding rounding{.stochastic = true, .key = 5};
  // A quarter of the way from 1 to the next bf16, 1 + 2^-7; below zero the same.
  for (const float value : {1 + 0x1p-9f, -1 - 0x1p-9f}) {
    const at::Tensor from = at::full({kCount}, value, at::kFloat);
    const at::Tensor to = at::zeros({kCount}, at::kBFloat16);
    round_to_bf16(rounding, 0, from.data_ptr<float>(), to.data_ptr<c10::BFloat16>(), kCount);
    const at::Tensor up = to.to(at::kFloat).abs().gt(1);
    EXPECT_NEAR(up.to(at::kDouble).mean().item<double>(), 0.25, 4 * std::sqrt(0.1875 / kCount));
    EXPECT_EQ(to.to(at::kFloat).abs().max().item<float>(), 1 + 0x1p-7f);
    // Neighbours do not know of each other.
    const at::Tensor pairs = up.narrow(0, 0, kCount - 1).logical_and(up.narrow(0, 1, kCount - 1));
    EXPECT_NEAR(pairs.to(at::kDouble).mean().item<double>(), 0.0625, 4e-3);
    for (std::int64_t cut : {1L, 77L, 65535L, 65536L, 65537L, 200000L}) {
      const at::Tensor part = at::zeros({kCount - cut}, at::kBFloat16);
      round_to_bf16(rounding, cut, from.data_ptr<float>() + cut, part.data_ptr<c10::BFloat16>(),
                    kCount - cut);
      EXPECT_TRUE(at::equal(part, to.narrow(0, cut, kCount - cut))) << cut;
    }
  }
}

TEST(Rounding, KeepsWhatIsExactAndDependsOnTheKey) {
  const at::Tensor from = normal(4096, 1);
  const auto rounded = [&](std::uint64_t key, const at::Tensor& values) {
    const at::Tensor to = at::zeros({4096}, at::kBFloat16);
    round_to_bf16({.stochastic = true, .key = key}, 0, values.data_ptr<float>(),
                  to.data_ptr<c10::BFloat16>(), 4096);
    return to;
  };
  EXPECT_FALSE(at::equal(rounded(1, from), rounded(2, from)));
  const at::Tensor exact = from.to(at::kBFloat16);
  EXPECT_TRUE(at::equal(rounded(1, exact.to(at::kFloat)), exact));
  const at::Tensor nearest = at::zeros({4096}, at::kBFloat16);
  round_to_bf16({}, 0, from.data_ptr<float>(), nearest.data_ptr<c10::BFloat16>(), 4096);
  EXPECT_TRUE(at::equal(nearest, exact));
}

TEST(Rounding, OperatorsGiveTheSameBits) {
  const at::Tensor from = normal(150000, 3);
  for (bool stochastic : {false, true})
    for (std::int64_t place : {0L, 65530L, 5000000000L}) {
      const Rounding rounding{.stochastic = stochastic, .key = 9};
      const at::Tensor to = at::zeros({150000}, at::kBFloat16);
      round_to_bf16(rounding, place, from.data_ptr<float>(), to.data_ptr<c10::BFloat16>(), 150000);
      EXPECT_TRUE(at::equal(rounded_to_bf16(rounding, place, from), to)) << stochastic << place;
    }
}

// What the codes stand for at a scale of 1.
std::vector<float> dynamic_map(Moment moment) {
  std::vector<std::uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), std::uint8_t{0});
  std::vector<float> map(codes.size());
  dequantise(moment, codes.data(), 1, map.data(), 256);
  return map;
}

// The map of the paper's figures: 256 values up to 1, signed ones with a negative half.
TEST(Quantise, MapsAreDynamic) {
  const std::vector<float> first = dynamic_map(Moment::kFirst);
  const std::vector<float> second = dynamic_map(Moment::kSecond);
  for (const auto* map : {&first, &second}) {
    EXPECT_TRUE(std::is_sorted(map->begin(), map->end()));
    EXPECT_EQ(std::adjacent_find(map->begin(), map->end()), map->end());
    EXPECT_EQ(map->back(), 1.0f);
    EXPECT_EQ(std::count(map->begin(), map->end(), 0.0f), 1);
  }
  EXPECT_EQ(second.front(), 0.0f);
  // The lowest decade has one mean, (0.1 + 1) / 2; unsigned two, in the middle of its halves.
  EXPECT_FLOAT_EQ(first[128], 0.55e-6f);
  EXPECT_FLOAT_EQ(second[1], 0.325e-6f);
  EXPECT_FLOAT_EQ(second[2], 0.775e-6f);
  EXPECT_FLOAT_EQ(first[0], -static_cast<float>(1 - 0.9 / 128));
  EXPECT_FLOAT_EQ(second[254], static_cast<float>(1 - 0.9 / 256));
}

TEST(Quantise, FindsTheNearestCode) {
  for (Moment moment : {Moment::kFirst, Moment::kSecond}) {
    const std::vector<float> map = dynamic_map(moment);
    std::vector<float> values;
    for (std::size_t i = 0; i + 1 < map.size(); ++i) {
      const float border = (map[i] + map[i + 1]) / 2;
      for (float value :
           {map[i], border, std::nextafter(border, -2.0f), std::nextafter(border, 2.0f)})
        values.push_back(value);
    }
    at::Tensor random = normal(1 << 16, 4).abs().log().mul(3).exp().clamp(0, 1);
    if (moment == Moment::kFirst) random = random * normal(1 << 16, 5).sign();
    values.insert(values.end(), random.data_ptr<float>(), random.data_ptr<float>() + (1 << 16));
    for (std::size_t begin = 0; begin < values.size(); begin += 255) {
      std::vector<float> block(
          values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 255, values.size())));
      block.push_back(1);  // the scale
      std::vector<std::uint8_t> codes(block.size());
      float scale = 0;
      quantise(moment, block.data(), std::ssize(block), codes.data(), scale);
      ASSERT_EQ(scale, 1);
      for (std::size_t i = 0; i < block.size(); ++i) {
        float best = 2;
        for (std::size_t code = moment == Moment::kSecond && block[i] > 0 ? 1 : 0; code < 256;
             ++code)
          best = std::min(best, std::abs(map[code] - block[i]));
        // Of two that are equally near, either: borders are rounded themselves.
        ASSERT_LE(std::abs(map[codes[i]] - block[i]), best * 1.0001f) << block[i];
      }
    }
  }
}

TEST(Quantise, OperatorsGiveTheSameCodes) {
  for (Moment moment : {Moment::kFirst, Moment::kSecond}) {
    at::Tensor values = normal(1000, 6, 1e-3);
    if (moment == Moment::kSecond) values = values * values;
    values.narrow(0, 256, 256).zero_();
    const Quantised theirs = quantised(moment, values, 256);
    const at::Tensor codes = at::zeros({1000}, at::kByte), back = at::zeros({1000});
    for (std::int64_t begin = 0; begin < 1000; begin += 256) {
      float scale = 0;
      const std::int64_t count = std::min<std::int64_t>(256, 1000 - begin);
      quantise(moment, values.data_ptr<float>() + begin, count,
               codes.data_ptr<std::uint8_t>() + begin, scale);
      EXPECT_EQ(theirs.scales[begin / 256].item<float>(), scale);
      dequantise(moment, codes.data_ptr<std::uint8_t>() + begin, scale,
                 back.data_ptr<float>() + begin, count);
    }
    EXPECT_TRUE(at::equal(theirs.codes, codes));
    EXPECT_TRUE(at::equal(dequantised(moment, theirs, 256), back));
    EXPECT_LT((back - values).abs().max().item<float>(), 0.02f * values.abs().max().item<float>());
  }
}

struct Kind {
  at::ScalarType master, grads;
  bool int8;
};
const Kind kKinds[] = {{at::kBFloat16, at::kFloat, false}, {at::kBFloat16, at::kBFloat16, false},
                       {at::kFloat, at::kFloat, true},     {at::kFloat, at::kBFloat16, true},
                       {at::kBFloat16, at::kFloat, true},  {at::kFloat, at::kBFloat16, false}};

constexpr std::int64_t kCount = 4096, kDecayed = 2500, kUsed = 4000, kBlock = 64;
constexpr int kUpdates = 5;
constexpr double kRate = 0.01;

struct Shard {
  at::Tensor param;
  std::vector<at::Tensor> states;
};

OptimizerOptions options_of(const Kind& kind) {
  return {.stochastic = kind.master == at::kBFloat16, .int8_states = kind.int8};
}

// kUpdates updates of the elements [begin, end) of one flat unit, the last of which are padding.
template <typename Update>
Shard train(const Kind& kind, std::int64_t begin, std::int64_t end, const Update& update) {
  const auto part = [&](const at::Tensor& whole, at::ScalarType type) {
    at::Tensor used = whole.clone();
    used.narrow(0, kUsed, kCount - kUsed).zero_();
    return used.narrow(0, begin, end - begin).to(type).clone();
  };
  Shard shard{part(normal(kCount, 1), kind.master), {}};
  AdamW adam(options_of(kind));
  for (const exec::StateSpec& state : adam.states())
    shard.states.push_back(at::zeros({state.per_block ? (end - begin) / kBlock : end - begin},
                                     !state.type                ? kind.master
                                     : state.type == DType::kU8 ? at::kByte
                                                                : at::kFloat));
  std::vector<UpdateSegment> segments;
  for (const auto& [from, to, decay] :
       {std::tuple{std::int64_t{0}, kDecayed, true}, {kDecayed, kUsed, false}})
    if (std::max(from, begin) < std::min(to, end))
      segments.push_back({.begin = std::max(from, begin) - begin,
                          .end = std::min(to, end) - begin,
                          .decay = decay ? 1.0 : 0.0,
                          .first = std::max(from, begin)});
  for (int step = 1; step <= kUpdates; ++step)
    update(adam, shard, part(normal(kCount, 100 + step), kind.grads), segments,
           exec::UpdateArgs{.lr = kRate,
                            .grad_scale = 0.5,
                            .step = step,
                            .noise = static_cast<std::uint64_t>(step),
                            .state_block = kBlock});
  return shard;
}

void with_loops(AdamW& adam, Shard& shard, const at::Tensor& grad,
                const std::vector<UpdateSegment>& segments, const exec::UpdateArgs& args) {
  adam.update(shard.param, grad, shard.states, segments, args);
}

TEST(NarrowAdamW, AnyCutGivesTheSameBits) {
  for (const Kind& kind : kKinds) {
    const Shard whole = train(kind, 0, kCount, with_loops);
    EXPECT_EQ(whole.param.narrow(0, kUsed, kCount - kUsed).ne(0).sum().item<int>(), 0);
    for (std::int64_t cut : {64L, 1024L, 2496L, 2560L, 3968L, 4032L}) {
      const Shard left = train(kind, 0, cut, with_loops);
      const Shard right = train(kind, cut, kCount, with_loops);
      EXPECT_TRUE(at::equal(at::cat({left.param, right.param}), whole.param)) << cut;
      for (std::size_t s = 0; s < whole.states.size(); ++s)
        EXPECT_TRUE(at::equal(at::cat({left.states[s], right.states[s]}), whole.states[s])) << cut;
    }
  }
}

// How far bf16 lies apart around each element.
at::Tensor spacing(const at::Tensor& values) {
  return at::pow(2, values.abs().clamp_min(0x1p-126).to(at::kDouble).log2().floor() - 7);
}

// Each element ends within a few roundings of where fp32 brings it, and without bias. Of a spacing u, a stochastic
// rounding has variance u^2/6 on average, and that of what a run begins with, to nearest, u^2/12.
TEST(NarrowAdamW, StaysNearFp32) {
  const Shard exact = train({at::kFloat, at::kFloat, false}, 0, kCount, with_loops);
  const at::Tensor deviation =
      spacing(exact.param.narrow(0, 0, kUsed)) * std::sqrt(kUpdates / 6.0 + 1 / 12.0);
  const double error_of_mean =
      deviation.square().mean().sqrt().item<double>() / std::sqrt(static_cast<double>(kUsed));
  const double half_normal = std::sqrt(2 / M_PI);  // the mean distance, of deviation 1
  for (const Kind& kind : kKinds) {
    const Shard narrow = train(kind, 0, kCount, with_loops);
    const at::Tensor apart = (narrow.param.to(at::kDouble) - exact.param).narrow(0, 0, kUsed);
    const double bias = std::abs(apart.mean().item<double>());
    const double distance = apart.abs().mean().item<double>();
    EXPECT_LT(bias, 4 * error_of_mean);
    // Masters in fp32 feel codes of 8 bits, 2% apart, in steps of lr, and bf16 gradients even less.
    EXPECT_LT(distance, kind.master == at::kBFloat16
                            ? half_normal * deviation.mean().item<double>() + 4 * error_of_mean
                            : 0.02 * kUpdates * kRate);
    // Where gradients are a millionth of their block's, 8 bits do not step.
    EXPECT_LT(apart.abs().max().item<double>(), 0.06);
    EXPECT_GT(apart.abs().max().item<double>(), 0);
  }
}

TEST(NarrowAdamW, OperatorsDoTheSame) {
  const auto with_operators = [&](const Kind& kind) {
    return [&kind](AdamW&, Shard& shard, const at::Tensor& grad,
                   const std::vector<UpdateSegment>& segments, const exec::UpdateArgs& args) {
      update_by_operators<AdamWRule>(options_of(kind), shard.param, grad, shard.states, segments,
                                     args);
    };
  };
  for (const Kind& kind : kKinds) {
    const Shard ours = train(kind, 0, kCount, with_loops);
    const Shard theirs = train(kind, 0, kCount, with_operators(kind));
    const at::Tensor apart = (ours.param.to(at::kFloat) - theirs.param.to(at::kFloat)).abs();
    // Another last bit of fp32 may fall to the other side of a border, seldom.
    EXPECT_LT(apart.gt(1e-5).to(at::kFloat).mean().item<float>(), 0.02f);
    EXPECT_LT(apart.max().item<float>(), 0.05f);
  }
}

// What is far below a bf16's spacing arrives on average; rounded to nearest it is lost.
// Checkpoints do not hold the padding, whose codes are those of nothing when a run is resumed: no scale may see them.
TEST(NarrowAdamW, CodesOfPaddingChangeNothing) {
  for (const Kind& kind : kKinds) {
    if (!kind.int8) continue;
    const auto forgetting = [&](bool operators, bool forgets) {
      return train(kind, 0, kCount,
                   [&](AdamW& adam, Shard& shard, const at::Tensor& grad,
                       const std::vector<UpdateSegment>& segments, const exec::UpdateArgs& args) {
                     for (const at::Tensor& state : shard.states)
                       if (forgets && state.scalar_type() == at::kByte)
                         state.narrow(0, kUsed, kCount - kUsed).zero_();
                     if (operators)
                       update_by_operators<AdamWRule>(options_of(kind), shard.param, grad,
                                                      shard.states, segments, args);
                     else
                       adam.update(shard.param, grad, shard.states, segments, args);
                   });
    };
    for (const bool operators : {false, true}) {
      const Shard known = forgetting(operators, false), forgotten = forgetting(operators, true);
      EXPECT_TRUE(at::equal(known.param, forgotten.param)) << operators;
      for (std::size_t s = 0; s < known.states.size(); ++s)
        EXPECT_TRUE(at::equal(known.states[s], forgotten.states[s])) << operators << " " << s;
    }
  }
}

TEST(NarrowAdamW, SmallUpdatesArriveOnlyWhenRoundedStochastically) {
  for (bool stochastic : {true, false}) {
    AdamW adam({.weight_decay = 0, .stochastic = stochastic});
    at::Tensor param = at::full({4096}, 1.0, at::kBFloat16);
    std::vector<at::Tensor> states = {at::zeros({4096}, at::kBFloat16),
                                      at::zeros({4096}, at::kBFloat16)};
    const std::vector<UpdateSegment> segments = {{.begin = 0, .end = 4096}};
    for (int step = 1; step <= 100; ++step)
      adam.update(param, at::full({4096}, 0.1, at::kFloat), states, segments,
                  {.lr = 1e-4, .step = step, .noise = static_cast<std::uint64_t>(step)});
    const double moved = 1 - param.to(at::kDouble).mean().item<double>();
    if (stochastic)
      EXPECT_NEAR(moved, 0.01, 5e-4);
    else
      EXPECT_EQ(moved, 0);
  }
}

}  // namespace
}  // namespace trireme::optim::narrow_test
