// Every fuzz target on inputs of a small mutator of our own: no crash, no exception but a refusal, no more memory than
// the input deserves, no input that takes long. `./dev fuzz` looks further, with libFuzzer.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "tests/fuzz/count_memory.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"

#define TARGET(name) extern "C" int name##_fuzz(const std::uint8_t* data, std::size_t size);
#include "targets.inc"
#undef TARGET

namespace trireme::fuzz::fuzz_test {
namespace {

struct Target {
  const char* name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};
#define TARGET(name) {#name, name##_fuzz},
constexpr Target kTargets[] = {
#include "targets.inc"
};
#undef TARGET

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

// Of this process: another that keeps the machine busy makes no finding.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Why this input is a finding; empty where it is none.
std::string finding(const Target& target, const std::string& input) {
  constexpr std::size_t kRoom = 64 << 20;
  constexpr double kSeconds = 1;
  const std::size_t before = held_bytes();
  take_peak_bytes();
  const double begin = seconds();
  try {
    target.run(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  } catch (const std::exception& error) {
    return error.what();
  }
  if (const double taken = seconds() - begin; taken > kSeconds)
    return "takes " + std::to_string(taken) + " s";
  const std::size_t peak = take_peak_bytes() - before;
  if (peak > 2 * input.size() + kRoom) return "takes " + std::to_string(peak) + " bytes";
  return {};
}

class Fuzz : public testing::TestWithParam<Target> {
 protected:
  static void try_input(const std::string& input) {
    const std::string why = finding(GetParam(), input);
    if (why.empty()) return;
    const std::string file = testing::TempDir() + GetParam().name + "-finding";
    std::ofstream(file, std::ios::binary)
        .write(input.data(), static_cast<std::streamsize>(input.size()));
    FAIL() << why << "; the input is in " << file;
  }
};

TEST_P(Fuzz, TakesOrRefuses) {
  constexpr int kExecutions = 1000;
  const auto all = seeds();
  ASSERT_TRUE(all.contains(GetParam().name)) << "no seeds";
  for (const std::string& seed : all.at(GetParam().name)) try_input(seed);
  Mutator mutator(all.at(GetParam().name));
  for (int i = 0; i < kExecutions && !HasFatalFailure(); ++i) try_input(mutator.next());
}

INSTANTIATE_TEST_SUITE_P(Readers, Fuzz, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

// Readers that are wrong in each way that is looked for.
TEST(FuzzFinds, WhatItLooksFor) {
  const auto found = [](int (*run)(const std::uint8_t*, std::size_t)) {
    return finding({"planted", run}, "input");
  };
  EXPECT_EQ(found([](auto*, std::size_t) { return 0; }), "");
  EXPECT_EQ(found([](auto*, std::size_t) -> int {
              return takes([] { fail(ErrorKind::kData, "refused"); });
            }),
            "");
  EXPECT_EQ(found([](auto*, std::size_t) -> int {
              return takes([] { TRIREME_CHECK(false, "ours"); });
            }).substr(0, 17),
            "an internal error");
  EXPECT_EQ(
      found([](auto*, std::size_t) -> int { return takes([] { fail(ErrorKind::kData, ""); }); }),
      "refused without a reason");
  EXPECT_EQ(
      found([](auto*, std::size_t) -> int { return takes([] { throw std::out_of_range("at"); }); }),
      "at");
  EXPECT_NE(
      found([](auto*, std::size_t) -> int { return std::string(65 << 20, 'a').back() == 'b'; }),
      "");
  EXPECT_NE(found([](auto*, std::size_t) -> int {
              for (const double begin = seconds(); seconds() < begin + 1.1;) continue;
              return 0;
            }),
            "");
}

}  // namespace
}  // namespace trireme::fuzz::fuzz_test
