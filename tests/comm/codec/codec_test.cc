#include "trireme/comm/codec/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/codec/bodies.h"

namespace trireme::codec::codec_test {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

const char* const kAll[] = {"bf16",          "q8",           "q4",          "f4",
                            "sign",          "topk:0.1:16",  "topk:0.25:2", "topk:0.2:1",
                            "topk:0.05:32",  "randk:0.1:32", "randk:0.3:4", "randk:0.2:16",
                            "q8:stochastic", "q4:stochastic"};

Bytes coded(const Codec& codec, const Segment& segment, const Draws& draws, const Floats& values) {
  Bytes bytes(static_cast<std::size_t>(
      coded_bytes(codec, static_cast<std::int64_t>(values.size()), segment.block)));
  encode(codec, segment, draws, values, bytes);
  return bytes;
}
Floats decoded(const Codec& codec, const Segment& segment, const Draws& draws, const Bytes& bytes,
               std::size_t count) {
  Floats values(count, -99.0f);
  decode(codec, segment, draws, bytes, values);
  return values;
}
Floats there_and_back(const char* text, std::int64_t block, const Floats& values) {
  const Codec codec = parse(text);
  const Segment segment{.block = block, .real = static_cast<std::int64_t>(values.size())};
  return decoded(codec, segment, {}, coded(codec, segment, {}, values), values.size());
}

// About normal, of a wide range of magnitudes from block to block.
Floats draw(std::uint64_t seed, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double u = static_cast<double>(mix(seed, i) >> 11) * 0x1p-53;
    values[i] = static_cast<float>(std::tan(3.1 * (u - 0.5)) *
                                   std::ldexp(1.0, static_cast<int>(i / 64 % 40) - 30));
  }
  return values;
}

std::string hex(const Bytes& bytes) {
  std::string text;
  for (std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::uint32_t crc32(const Floats& values) {
  std::uint32_t crc = ~0u;
  for (std::byte byte : std::as_bytes(std::span(values))) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & -(crc & 1u));
  }
  return ~crc;
}

TEST(Codec, ReadsWhatItPrints) {
  for (const char* text : kAll) EXPECT_EQ(print(parse(text)), text);
  for (const char* text : {"i8x", "i4x"}) EXPECT_EQ(print(parse(text)), text);
  for (const char* text : {"", "q5", "i8", "i8x:stochastic", "i4x:1", "q8:1", "q8:",
                           "f4:stochastic", "q4:stochastic:1", "topk", "topk:0.1", "topk:0:8",
                           "topk:1.5:8", "topk:0.1:9", "topk:0.1:16x", "randk::8", "randk:0.1:0"})
    EXPECT_THROW(parse(text), Error) << text;
}

// By Python's exact fractions, one element at a time.
TEST(Codec, CodesAreThoseOfTheOracle) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/tests/comm/codec/oracle.txt");
  struct Input {
    Segment segment;
    Floats values;
  };
  std::map<std::string, Input> inputs;
  std::string line;
  int codes = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string kind, text, name, numbers, bytes, crc;
    words >> kind;
    if (kind == "input") {
      Input input;
      words >> name >> input.segment.block >> input.segment.first >> input.segment.real >> numbers;
      for (std::size_t i = 0; i < numbers.size(); i += 8)
        input.values.push_back(std::bit_cast<float>(
            static_cast<std::uint32_t>(std::stoul(numbers.substr(i, 8), nullptr, 16))));
      inputs[name] = input;
      continue;
    }
    if (kind != "code") continue;
    bool stochastic = false;
    words >> text >> name >> stochastic >> bytes >> crc;
    const Input& input = inputs.at(name);
    const Codec codec = parse(stochastic ? text + ":stochastic" : text);
    const Draws draws = draws_of(11, 22, 1, 3);
    const Bytes mine = coded(codec, input.segment, draws, input.values);
    ASSERT_EQ(hex(mine), bytes) << text << " " << name << " stochastic " << stochastic;
    const Floats values = decoded(codec, input.segment, draws, mine, input.values.size());
    ASSERT_EQ(fmt::format("{:08x}", crc32(values)), crc) << text << " " << name;
    ++codes;
  }
  EXPECT_EQ(codes, 7 * 15);
}

TEST(Codec, ExamplesOfTheDefinitions) {
  Floats values(16, 0.0f);
  values[0] = 1;
  values[1] = -.5f;
  values[2] = .25f;
  const Segment segment{.block = 16, .real = 16};
  EXPECT_EQ(hex(coded(parse("f4"), segment, {}, values)).substr(0, 12), "0000803fe705");
  // The largest magnitude is never clamped: its code is at most 127 with a scale rounded up.
  values.assign(16, 1.0f);
  const Floats back = there_and_back("q8", 16, values);
  EXPECT_GE(back[0], 1.0f - 0.5f / 127);
  EXPECT_LE(back[0], 1.0f + 0.5f / 127);
}

TEST(Codec, BytesByBlock) {
  const auto bytes = [](const char* text, std::int64_t count, std::int64_t block) {
    return coded_bytes(parse(text), count, block);
  };
  EXPECT_EQ(bytes("bf16", 1024, 256), 2048);
  EXPECT_EQ(bytes("q8", 1024, 256), 1024 + 8);
  EXPECT_EQ(bytes("q4", 1024, 256), 512 + 8);
  EXPECT_EQ(bytes("f4", 1024, 256), 512 + 16);
  EXPECT_EQ(bytes("sign", 1024, 256), 128 + 8);
  EXPECT_EQ(bytes("q4", 196608, 32), 196608 * 5625 / 10000);
  EXPECT_EQ(bytes("f4", 196608, 32), 196608 * 625 / 1000);
  EXPECT_EQ(bytes("sign", 196608, 32), 196608 * 1875 / 10000);
  EXPECT_EQ(bytes("topk:0.01:16", 4096, 4096), 144);   // 41 of 12 + 16 bits: 0.0352
  EXPECT_EQ(bytes("topk:0.015625:2", 256, 256), 7);    // 4 of 10 bits and a scale
  EXPECT_EQ(bytes("randk:0.01:32", 4096, 4096), 164);  // 0.04
  EXPECT_EQ(bytes("randk:0.0001:32", 16, 16), 4);      // at least one
}

template <bool kStochastic>
Bytes scalar_q(const Floats& values, std::int64_t block, std::uint64_t noise, float most) {
  Bytes out;
  std::int8_t codes[kMostDense];
  std::uint8_t packed[kMostDense];
  for (std::int64_t b = 0; b < std::ssize(values) / block; ++b) {
    const float* const x = values.data() + b * block;
    const std::uint16_t scale = scale_above(largest(x, block), most);
    quantise<kStochastic>(x, block, widened(scale), most,
                          static_cast<std::uint32_t>(mix(noise, static_cast<std::uint64_t>(b))),
                          codes);
    if (most < 8) pack(codes, block, packed);
    const auto* const bytes =
        most < 8 ? reinterpret_cast<const std::byte*>(packed) : reinterpret_cast<std::byte*>(codes);
    out.push_back(static_cast<std::byte>(scale & 0xFF));
    out.push_back(static_cast<std::byte>(scale >> 8));
    out.insert(out.end(), bytes, bytes + (most < 8 ? block / 2 : block));
  }
  return out;
}

// Tests are compiled without vectors: the same bodies, element by element.
TEST(Codec, VectorsAndScalarsGiveEqualCodes) {
  for (std::int64_t block : {16, 32, 64, 256}) {
    const Floats values = draw(9 + static_cast<std::uint64_t>(block), 64 * 256);
    const Segment segment{.block = block, .real = std::ssize(values)};
    const Draws draws = draws_of(1, 2, 3, 4);
    EXPECT_EQ(coded(parse("q8"), segment, draws, values),
              scalar_q<false>(values, block, draws.noise, 127));
    EXPECT_EQ(coded(parse("q4"), segment, draws, values),
              scalar_q<false>(values, block, draws.noise, 7));
    EXPECT_EQ(coded(parse("q8:stochastic"), segment, draws, values),
              scalar_q<true>(values, block, draws.noise, 127));
    EXPECT_EQ(coded(parse("q4:stochastic"), segment, draws, values),
              scalar_q<true>(values, block, draws.noise, 7));
    const Codec f4 = parse("f4"), sign = parse("sign");
    const Bytes levels = coded(f4, segment, draws, values),
                signs = coded(sign, segment, draws, values);
    for (std::int64_t b = 0; b < std::ssize(values) / block; ++b) {
      const float* const x = values.data() + b * block;
      std::int8_t codes[kMostDense];
      std::uint8_t packed[kMostDense];
      nearest_levels(x, block, std::bit_cast<float>(largest(x, block)), codes);
      pack(codes, block, packed);
      const auto at = static_cast<std::size_t>(b * (4 + block / 2) + 4);
      EXPECT_EQ(std::memcmp(levels.data() + at, packed, static_cast<std::size_t>(block / 2)), 0);
      std::uint16_t mean = 0;
      std::memcpy(&mean, signs.data() + b * (2 + block / 8), sizeof mean);
      EXPECT_EQ(mean, nearest_bf16(sum_of_magnitudes(x, block, block) / static_cast<float>(block)));
    }
  }
}

// |x - decoded| against the block's largest magnitude.
TEST(Codec, RoundTripBounds) {
  const Floats values = draw(5, 256 * 64);
  struct Bound {
    const char* text;
    double share;
  };
  for (const Bound bound : {Bound{"bf16", 0x1p-8}, Bound{"q8", 0.5 / 127 * 1.01},
                            Bound{"q4", 0.5 / 7 * 1.01}, Bound{"f4", 0.25}, Bound{"topk:1:32", 0},
                            Bound{"topk:1:8", 0.5 / 127 * 1.01}, Bound{"randk:1:16", 0x1p-8}}) {
    const Floats back = there_and_back(bound.text, 256, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto most = std::bit_cast<float>(largest(values.data() + i / 256 * 256, 256));
      ASSERT_LE(std::abs(values[i] - back[i]), bound.share * most) << bound.text << " " << i;
    }
  }
}

TEST(Codec, SegmentsGiveTheBytesOfTheWhole) {
  const Floats values = draw(6, 64 * 16);
  for (const char* text : kAll) {
    const Codec codec = parse(text);
    const Draws draws = draws_of(1, 2, 3, 4);
    const Bytes whole = coded(codec, {.block = 64, .first = 0, .real = 1000}, draws, values);
    Bytes parts;
    for (std::int64_t first : {0, 3, 10}) {
      const std::int64_t end = first == 0 ? 3 : first == 3 ? 10 : 16;
      const Floats part(values.begin() + first * 64, values.begin() + end * 64);
      const Bytes bytes =
          coded(codec, {.block = 64, .first = first, .real = 1000 - first * 64}, draws, part);
      parts.insert(parts.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(whole, parts) << text;
  }
}

TEST(Codec, PaddingIsIgnoredAndDecodesToZero) {
  for (const char* text : kAll) {
    const Codec codec = parse(text);
    Floats values = draw(7, 128), garbage = values;
    std::fill(values.begin() + 40, values.end(), 0.0f);
    std::fill(garbage.begin() + 40, garbage.end(), 1e9f);
    const Segment segment{.block = 32, .real = 40};
    const Bytes bytes = coded(codec, segment, {}, garbage);
    EXPECT_EQ(bytes, coded(codec, segment, {}, values)) << text;
    const Floats back = decoded(codec, segment, {}, bytes, 128);
    for (std::size_t i = 40; i < back.size(); ++i)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]), 0u) << text << " " << i;
  }
}

TEST(Codec, BlocksThatAreNotFiniteDecodeToNaN) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()})
    for (const char* text : {"q8", "q8:stochastic", "q4", "q4:stochastic", "f4", "sign"}) {
      const Codec codec = parse(text);
      Floats values = draw(8, 64);
      values[37] = bad;
      const Segment segment{.block = 32, .real = 64};
      const Draws draws{.noise = 5};
      const Floats back = decoded(codec, segment, draws, coded(codec, segment, draws, values), 64);
      for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(back[i]), i >= 32) << text << i;
    }
  for (const char* text : {"topk:0.1:16", "topk:0.1:2", "topk:0.1:1"}) {
    Floats values = draw(8, 64);
    values[37] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(there_and_back(text, 64, values)[37])) << text;
  }
}

// The mean over many keys is the number itself; to nearest it is not.
TEST(Codec, StochasticRoundingIsUnbiased) {
  Floats values(256, 0.3f);
  values[0] = 7;  // scale 1
  const Codec codec = parse("q4:stochastic");
  const Segment segment{.block = 256, .real = 256};
  double sum = 0;
  constexpr int kKeys = 200;
  for (int key = 0; key < kKeys; ++key) {
    const Draws draws = draws_of(1, static_cast<std::uint64_t>(key), 0, 0);
    const Floats back = decoded(codec, segment, draws, coded(codec, segment, draws, values), 256);
    EXPECT_EQ(back[0], 7.0f);  // never beyond the largest code
    for (std::size_t i = 1; i < 256; ++i) sum += back[i];
  }
  EXPECT_NEAR(sum / (255 * kKeys), 0.3, 0.01);  // 5 standard deviations
  EXPECT_EQ(there_and_back("q4", 256, values)[1], 0.0f);
}

TEST(Codec, RandomPlacesAreSharedAndUnbiased) {
  const Floats ones(4096, 1.0f);
  const Codec codec = parse("randk:0.01:32");
  const Segment segment{.block = 4096, .real = 4096};
  const Draws first = draws_of(1, 2, 0, 3), second = draws_of(1, 2, 1, 3),
              later = draws_of(1, 3, 0, 3);
  const Floats a = decoded(codec, segment, first, coded(codec, segment, first, ones), 4096);
  EXPECT_EQ(a, decoded(codec, segment, second, coded(codec, segment, second, ones), 4096));
  EXPECT_NE(a, decoded(codec, segment, later, coded(codec, segment, later, ones), 4096));
  EXPECT_NEAR(std::accumulate(a.begin(), a.end(), 0.0), 4096, 0.01);
  EXPECT_EQ(std::count_if(a.begin(), a.end(), [](float x) { return x != 0; }), 41);
}

TEST(Codec, TiesGoToTheLowerIndex) {
  Floats values(16, 0.0f);
  for (std::size_t i : {3u, 7u, 9u, 12u}) values[i] = i % 2 == 0 ? -2.0f : 2.0f;
  const Floats back = there_and_back("topk:0.125:32", 16, values);
  Floats expected(16, 0.0f);
  expected[3] = expected[7] = 2;
  EXPECT_EQ(back, expected);
}

TEST(Codec, RefusesBuffersOfOtherSizes) {
  Bytes bytes(17);
  const Floats values(16, 1.0f);
  EXPECT_THROW(encode(parse("q8"), {.block = 16, .real = 16}, {}, values, bytes), Error);
  EXPECT_THROW(coded(parse("q8"), {.block = 24, .real = 24}, {}, Floats(24)), Error);
  EXPECT_THROW(coded(parse("q8"), {.block = 512, .real = 512}, {}, Floats(512)), Error);
}

}  // namespace
}  // namespace trireme::codec::codec_test
