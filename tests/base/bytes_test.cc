#include "trireme/base/bytes.h"

#include <gtest/gtest.h>

#include <random>

namespace trireme::bytes_test {
namespace {

TEST(ParseBytes, ReadsUnitsOfBothKinds) {
  constexpr std::pair<const char*, std::int64_t> kTable[] = {
      {"0", 0},
      {"4096", 4096},
      {"+7", 7},
      {"1e9", 1'000'000'000},
      {"12B", 12},
      {"2kB", 2000},
      {"2KB", 2000},
      {"2KiB", 2048},
      {"512MiB", 536'870'912},
      {"512MB", 512'000'000},
      {"20GiB", 21'474'836'480},
      {"20 GiB", 21'474'836'480},
      {"20GB", 20'000'000'000},
      {"1.5TiB", 1'649'267'441'664},
      {"1e-1KB", 100},
      {"0.1GiB", 107'374'182},
      {"2TB", 2'000'000'000'000},
      {"9007199254740992", 9'007'199'254'740'992},
  };
  for (const auto& [text, count] : kTable) EXPECT_EQ(parse_bytes(text), Bytes{count}) << text;
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"",       " ",       "GiB",    "-1",    "-1GiB",
                           "-0",     "+-1",     "1GiBs",  "1gib",  "1 G",
                           "1G",     "20  GiB", "1_000",  "0x10",  "many",
                           "nan",    "inf",     "infGiB", "1e400", "9007199254740994",
                           "1e9TiB", "1,5GiB"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(ExactText, ReadsBackAsTheSame) {
  EXPECT_EQ(exact_text({0}), "0");
  EXPECT_EQ(exact_text({1023}), "1023");
  EXPECT_EQ(exact_text({1024}), "1KiB");
  EXPECT_EQ(exact_text({1025}), "1025");
  EXPECT_EQ(exact_text({20LL << 30}), "20GiB");
  EXPECT_EQ(exact_text({1536LL << 20}), "1536MiB");
  EXPECT_EQ(exact_text({3LL << 40}), "3TiB");
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const Bytes bytes{static_cast<std::int64_t>((random() >> 11) >> (random() % 53))
                      << (random() % 2 * 10)};
    if (bytes.count > (std::int64_t{1} << 53)) continue;
    ASSERT_EQ(parse_bytes(exact_text(bytes)), bytes) << bytes.count;
  }
}

}  // namespace
}  // namespace trireme::bytes_test
