// The fastest products of a machine, over several runs.
#include "trireme/train/watch/seen_peaks.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/formats/scratch.h"

namespace trireme::train {
namespace {

TEST(SeenPeaks, OnlyRise) {
  const formats::Scratch scratch;
  const Path file = scratch / "peaks.json";
  SeenPeaks first(file);
  EXPECT_EQ(first.of(DType::kBF16), 0);
  first.raise(DType::kBF16, 4e11);
  first.raise(DType::kBF16, 3e11);
  SeenPeaks other(file);
  EXPECT_EQ(other.of(DType::kBF16), 4e11);
  EXPECT_EQ(other.of(DType::kF32), 0);
  other.raise(DType::kF32, 2e11);
  first.raise(DType::kBF16, 5e11);  // and keeps what the other has found
  EXPECT_EQ(SeenPeaks(file).of(DType::kF32), 2e11);
  EXPECT_EQ(SeenPeaks(file).of(DType::kBF16), 5e11);
}

TEST(SeenPeaks, ADamagedFileHoldsNothing) {
  const formats::Scratch scratch;
  for (const char* text : {"", "{", "[1]", R"({"bf16": "fast"})"})
    EXPECT_EQ(SeenPeaks(scratch.write("peaks.json", text)).of(DType::kBF16), 0) << text;
  SeenPeaks unkept(scratch / "none" / "peaks.json");
  unkept.raise(DType::kBF16, 4e11);
  EXPECT_EQ(unkept.of(DType::kBF16), 4e11);
  EXPECT_FALSE(std::filesystem::exists(scratch / "none"));
}

}  // namespace
}  // namespace trireme::train
