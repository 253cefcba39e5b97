// Codecs of integers: exponents that senders share, and sums that do not depend on the order of adding.
#include "trireme/comm/codec/integer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/codec/integer_bodies.h"

namespace trireme::codec::integer_test {
namespace {

using Floats = std::vector<float>;
using Integers = std::vector<std::int32_t>;
using Exponents = std::vector<std::uint8_t>;

struct Input {
  Segment segment;
  Floats values;
};

std::vector<std::uint32_t> words(const std::string& hex, std::size_t digits) {
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < hex.size(); i += digits)
    numbers.push_back(static_cast<std::uint32_t>(std::stoul(hex.substr(i, digits), nullptr, 16)));
  return numbers;
}

std::uint32_t checksum(const Floats& values) {
  std::uint32_t crc = ~0u;
  for (std::byte byte : std::as_bytes(std::span(values))) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & -(crc & 1u));
  }
  return ~crc;
}

// What senders send: exponents that all share, and the codes of each.
struct Sent {
  Exponents exponents;
  std::vector<Integers> codes;
};
Sent sent(const Codec& codec, const std::vector<Input>& senders) {
  const Segment& segment = senders.front().segment;
  const std::size_t count = senders.front().values.size();
  Sent all{Exponents(count / static_cast<std::size_t>(segment.block)), {}};
  for (const Input& sender : senders) {
    Exponents own(all.exponents.size());
    find_exponents(codec, segment, sender.values, own);
    for (std::size_t b = 0; b < own.size(); ++b)
      all.exponents[b] = std::max(all.exponents[b], own[b]);
  }
  for (const Input& sender : senders)
    encode_integers(segment, all.exponents, sender.values, all.codes.emplace_back(count, -99));
  return all;
}

Floats decoded_sum(const Segment& segment, const Sent& sent) {
  Integers sums(sent.codes.front().size());
  for (const Integers& codes : sent.codes)
    std::ranges::transform(sums, codes, sums.begin(), std::plus());
  Floats values(sums.size(), -99);
  decode_integers(segment, sent.exponents, sums, values);
  return values;
}

// By Python's exact fractions: scales that differ between senders, blocks of zeros, of NaN and infinity, both ends of the
// exponents, sums above fp32, ties and padding.
TEST(IntegerCodecs, CodesAndSumsAreThoseOfTheOracle) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/tests/comm/codec/oracle.txt");
  std::map<std::string, std::vector<Input>> inputs;
  std::string line;
  int cases = 0, zeros = 0, wrong = 0, least = 0;
  while (std::getline(file, line)) {
    std::istringstream parts(line);
    std::string kind, text, name, exponents, codes, crc;
    parts >> kind;
    if (kind == "input") {
      Input input;
      parts >> name >> input.segment.block >> input.segment.first >> input.segment.real >> codes;
      for (const std::uint32_t word : words(codes, 8))
        input.values.push_back(std::bit_cast<float>(word));
      if (const std::size_t dot = name.find('.'); dot != std::string::npos)  // of several senders
        inputs[name.substr(0, dot)].push_back(input);
    }
    if (kind != "integers") continue;
    parts >> text >> name >> exponents >> codes >> crc;
    const std::vector<Input>& senders = inputs.at(name);
    const Sent mine = sent(parse(text), senders);
    const std::vector<std::uint32_t> expected = words(exponents, 2);
    ASSERT_EQ(std::vector<std::uint32_t>(mine.exponents.begin(), mine.exponents.end()), expected)
        << text << " " << name;
    std::istringstream each(codes);
    std::string one;
    for (const Integers& own : mine.codes) {
      ASSERT_TRUE(std::getline(each, one, ','));
      Integers theirs;
      for (const std::uint32_t byte : words(one, 2))
        theirs.push_back(static_cast<std::int8_t>(byte));
      ASSERT_EQ(own, theirs) << text << " " << name;
    }
    const Floats values = decoded_sum(senders.front().segment, mine);
    ASSERT_EQ(fmt::format("{:08x}", checksum(values)), crc) << text << " " << name;
    ++cases;
    zeros += static_cast<int>(std::ranges::count(mine.exponents, kZeroBlock));
    wrong += static_cast<int>(std::ranges::count(mine.exponents, kNotFinite));
    least += static_cast<int>(std::ranges::count(mine.exponents, std::uint8_t{1}));
  }
  EXPECT_EQ(cases, 2 * 7);
  EXPECT_EQ(zeros, 2);
  EXPECT_EQ(wrong, 2 * 2);
  EXPECT_EQ(least, 2);  // -127
}

// Codes never exceed q_max, though a sender's own block may be smaller than the shared exponent by any factor.
TEST(IntegerCodecs, ErrorsAreAtMostHalfAUnit) {
  for (const char* text : {"i8x", "i4x"}) {
    const Codec codec = parse(text);
    const int most = codec.kind == Kind::kI8X ? 127 : 7;
    std::vector<Input> senders(3, {.segment = {.block = 64, .real = 1000}, .values = Floats(1024)});
    for (std::size_t s = 0; s < senders.size(); ++s)
      for (std::size_t i = 0; i < 1024; ++i)
        senders[s].values[i] = std::ldexp(static_cast<float>(mix(s, i) >> 40) - 8388608.0f,
                                          static_cast<int>(mix(s, i / 64) % 40) - 60);
    const Sent mine = sent(codec, senders);
    for (std::size_t s = 0; s < senders.size(); ++s)
      for (std::size_t i = 0; i < 1000; ++i) {
        const int code = mine.codes[s][i];
        ASSERT_LE(std::abs(code), most);
        const double unit = std::ldexp(1.0, mine.exponents[i / 64] - 128);
        ASSERT_LE(std::abs(senders[s].values[i] - code * unit), unit / 2) << text << i;
      }
    // Sums are equal in any order, and padding decodes to +0.
    Sent back = mine;
    std::ranges::reverse(back.codes);
    const Floats sum = decoded_sum(senders[0].segment, mine);
    EXPECT_EQ(sum, decoded_sum(senders[0].segment, back));
    for (std::size_t i = 1000; i < 1024; ++i) EXPECT_EQ(std::bit_cast<std::uint32_t>(sum[i]), 0u);
  }
}

TEST(IntegerCodecs, WidthsHoldTheSumsOfTheirSenders) {
  const Codec i8x = parse("i8x"), i4x = parse("i4x");
  struct Case {
    const Codec& codec;
    std::int64_t senders;
    int bits;
  };
  for (const Case& one : {Case{i8x, 1, 8}, Case{i8x, 2, 16}, Case{i8x, 258, 16}, Case{i8x, 259, 32},
                          Case{i4x, 1, 4}, Case{i4x, 2, 8}, Case{i4x, 18, 8}, Case{i4x, 19, 16},
                          Case{i4x, 4681, 16}, Case{i4x, 4682, 32}}) {
    EXPECT_EQ(integer_bits(one.codec, one.senders), one.bits) << one.senders;
    // Both ends survive the way in this width.
    const auto most =
        static_cast<std::int32_t>(one.senders * (one.codec.kind == Kind::kI8X ? 127 : 7));
    Integers sums(16), back(16, 5);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = i % 2 == 0 ? most : i % 3 == 0 ? -1 : -most;
    std::vector<std::byte> bytes(static_cast<std::size_t>(16 * one.bits / 8));
    pack_integers(one.bits, sums, bytes);
    add_integers(one.bits, bytes, back);
    for (std::int32_t& sum : sums) sum += 5;
    EXPECT_EQ(back, sums) << one.bits;
  }
  EXPECT_EQ(most_senders(i8x), 16'909'320);
  EXPECT_EQ(integer_bits(i8x, most_senders(i8x)), 32);
  EXPECT_THROW(integer_bits(i8x, most_senders(i8x) + 1), Error);
}

// Tests are compiled without vectors: the same bodies, element by element.
TEST(IntegerCodecs, VectorsAndScalarsGiveEqualCodes) {
  for (const std::int64_t block : {16, 64, 256}) {
    Input input{.segment = {.block = block, .real = 4096}, .values = Floats(4096)};
    for (std::size_t i = 0; i < 4096; ++i)
      input.values[i] = std::ldexp(static_cast<float>(mix(7, i) >> 40) - 8388608.0f,
                                   static_cast<int>(i / 64) - 40);
    for (const float most : {127.0f, 7.0f}) {
      const Sent mine = sent(parse(most > 7 ? "i8x" : "i4x"), {input});
      const Floats values = decoded_sum(input.segment, mine);
      for (std::int64_t b = 0; b < 4096 / block; ++b) {
        const float* const x = input.values.data() + b * block;
        const std::uint8_t byte = exponent_byte(largest(x, block), most);
        ASSERT_EQ(mine.exponents[static_cast<std::size_t>(b)], byte);
        for (std::int64_t i = 0; i < block; ++i) {
          std::int32_t code = 0;
          float value = 0;
          to_integers(x + i, 1, inverse_power(byte), &code);
          from_integers(&code, 1, power(byte), &value);
          const auto at = static_cast<std::size_t>(b * block + i);
          ASSERT_EQ(mine.codes[0][at], code);
          ASSERT_EQ(values[at], value);
        }
      }
    }
  }
}

TEST(IntegerCodecs, RefusesBuffersOfOtherSizesAndOtherCodecs) {
  const Floats values(32, 1.0f);
  Exponents one(1), two(2);
  const Segment segment{.block = 16, .real = 32};
  EXPECT_THROW(find_exponents(parse("i8x"), segment, values, one), Error);
  EXPECT_THROW(find_exponents(parse("q8"), segment, values, two), Error);
  std::vector<std::byte> bytes(20);
  EXPECT_THROW(encode(parse("i8x"), segment, {}, values, bytes), Error);
  EXPECT_THROW(pack_integers(4, Integers(32), bytes), Error);
}

}  // namespace
}  // namespace trireme::codec::integer_test
