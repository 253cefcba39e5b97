#include "trireme/train/machine.h"

#include <gtest/gtest.h>

#include "trireme/comm/local/local_world.h"

namespace trireme::train {
namespace {

TEST(Machine, DataSheetsAreFoundByTheDriversNames) {
  const auto bf16 = [](std::string_view gpu) { return sheet_flops(gpu, DType::kBF16); };
  EXPECT_EQ(bf16("NVIDIA H200"), 989.4e12);
  EXPECT_EQ(bf16("NVIDIA H100 80GB HBM3"), 989.4e12);
  EXPECT_EQ(bf16("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(bf16("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(bf16("NVIDIA GB200"), 2500e12);
  EXPECT_EQ(bf16("NVIDIA B200"), 2250e12);
  EXPECT_EQ(bf16("NVIDIA A10G"), std::nullopt);
  EXPECT_EQ(bf16(""), std::nullopt);
  EXPECT_EQ(sheet_flops("NVIDIA H200", DType::kF32), std::nullopt);
}

TEST(Machine, PeakOfTheCpuIsMeasuredAndTheSameOnAllRanks) {
  std::vector<Peak> peaks(2);
  comm::run_local_ranks(2, 60, [&](comm::World& world) {
    peaks[static_cast<std::size_t>(world.rank())] = find_peak(DType::kF32, at::kCPU, world);
  });
  EXPECT_GT(peaks[0].flops, 1e8);
  EXPECT_EQ(peaks[0].flops, peaks[1].flops);
  EXPECT_EQ(peaks[0].source, "products of 512 x 512, measured");
}

}  // namespace
}  // namespace trireme::train
