// Speed of the codecs on one core: GB/s of fp32 into bytes and back.
//   build/release/bin/codecs [--elements N] [--block B]
// Prints a table for docs/results/codecs.md.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "bench/numbers.h"
#include "trireme/base/clock.h"
#include "trireme/base/hash.h"
#include "trireme/base/median.h"
#include "trireme/comm/codec/integer.h"

namespace trireme::bench {
namespace {

constexpr int kRuns = 9;
constexpr std::int64_t kElements = 1 << 20;  // 4 MB of fp32, in the second or third cache

double rate(std::int64_t bytes, const std::function<void()>& run) {
  std::vector<double> seconds;
  for (int i = -1; i < kRuns; ++i) {
    const Stopwatch watch;
    run();
    if (i >= 0) seconds.push_back(watch.seconds());
  }
  return static_cast<double>(bytes) / median(seconds) * 1e-9;
}

std::vector<float> values_of(std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<float>(mix(1, i) >> 40) - 8388608.0f) * 1e-9f;
  return values;
}

void measure(const char* text, std::int64_t elements, std::int64_t block) {
  const codec::Codec codec = codec::parse(text);
  const codec::Draws draws = codec::draws_of(1, 2, 0, 3);
  const std::int64_t together = codec::block_of(codec, block);
  const codec::Segment segment{.block = together, .first = 0, .real = elements};
  const std::vector<float> values = values_of(elements);
  std::vector<float> decoded(values.size());
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(codec::coded_bytes(codec, elements, together)));
  const double in =
      rate(4 * elements, [&] { codec::encode(codec, segment, draws, values, bytes); });
  const double out =
      rate(4 * elements, [&] { codec::decode(codec, segment, draws, bytes, decoded); });
  fmt::print("| {} | {} | {:.4f} | {:.1f} | {:.1f} |\n", text, together,
             static_cast<double>(bytes.size()) / static_cast<double>(elements), in, out);
}

// Exponents, codes and their bytes; bytes and values. Between them senders exchange exponents.
void measure_integers(const char* text, std::int64_t elements, std::int64_t block) {
  const codec::Codec codec = codec::parse(text);
  const std::int64_t together = codec::block_of(codec, block);
  constexpr std::int64_t kPart = 4096;  // coded at a time, as the executor does
  const int bits = codec::integer_bits(codec, 1);
  const std::vector<float> values = values_of(elements);
  std::vector<float> decoded(values.size());
  std::vector<std::uint8_t> exponents(static_cast<std::size_t>(elements / together));
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements * bits / 8));
  std::vector<std::int32_t> codes(kPart);
  const auto parts = [&](const auto& use) {
    for (std::int64_t begin = 0; begin < elements; begin += kPart) {
      const auto first = static_cast<std::size_t>(begin);
      const auto count = static_cast<std::size_t>(std::min(kPart, elements - begin));
      const auto width = static_cast<std::size_t>(together), of = static_cast<std::size_t>(bits);
      use(codec::Segment{.block = together, .real = kPart},
          std::span(exponents).subspan(first / width, count / width),
          std::span(bytes).subspan(first * of / 8, count * of / 8), std::span(codes).first(count),
          first);
    }
  };
  const double in = rate(4 * elements, [&] {
    parts([&](const codec::Segment& segment, auto shared, auto coded, auto integers,
              std::size_t first) {
      const auto from = std::span(values).subspan(first, integers.size());
      codec::find_exponents(codec, segment, from, shared);
      codec::encode_integers(segment, shared, from, integers);
      codec::pack_integers(bits, integers, coded);
    });
  });
  const double out = rate(4 * elements, [&] {
    parts([&](const codec::Segment& segment, auto shared, auto coded, auto integers,
              std::size_t first) {
      std::ranges::fill(integers, 0);
      codec::add_integers(bits, coded, integers);
      codec::decode_integers(segment, shared, integers,
                             std::span(decoded).subspan(first, integers.size()));
    });
  });
  const double each = bits / 8.0 + 2.0 / static_cast<double>(together);
  fmt::print("| {} | {} | {:.4f} | {:.1f} | {:.1f} |\n", text, together, each, in, out);
}

void run(int argc, char** argv) {
  std::optional<std::uint64_t> elements, block;
  read_numbers(argc, argv, {{"--elements", &elements}, {"--block", &block}}, "--elements, --block");
  const auto count = static_cast<std::int64_t>(elements.value_or(kElements));
  const auto norm_chunk = static_cast<std::int64_t>(block.value_or(4096));
  fmt::print(
      "| codec | block | bytes an element | encode GB/s | decode GB/s |\n|---|---|---|---|---|\n");
  for (const char* text : {"bf16", "q8", "q8:stochastic", "q4", "q4:stochastic", "f4", "sign",
                           "topk:0.01:16", "topk:0.0625:2", "randk:0.01:32"})
    measure(text, count, norm_chunk);
  for (const char* text : {"i8x", "i4x"}) measure_integers(text, count, norm_chunk);
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  try {
    trireme::bench::run(argc, argv);
  } catch (const trireme::Error& error) {
    fmt::print(stderr, "codecs: {}\n", error.what());
    return trireme::exit_code(error.kind());
  }
  return 0;
}
