#include "trireme/train/machine.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/formats/scratch.h"
#include "trireme/base/clock.h"
#include "trireme/base/cpu.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/ops/parameter_gradient.h"

namespace trireme::train::machine_test {
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
  const auto find = [&](const Path& file) {
    comm::run_local_ranks(2, 60, [&](comm::World& world) {
      SeenPeaks seen(file);
      peaks[world.rank()] = find_peak(DType::kF32, at::kCPU, world, seen);
    });
  };
  find({});
  EXPECT_GT(peaks[0].flops, 1e8);
  EXPECT_EQ(peaks[0].flops, peaks[1].flops);
  EXPECT_EQ(peaks[0].source, "products of 1024 x 1024, the fastest measured here");
  // What was faster in another run counts; what is measured now is kept for the next.
  const formats::Scratch scratch;
  const Path file = scratch.write("peaks.json", R"({"fp32": 1e16})");
  find(file);
  EXPECT_GE(peaks[0].flops, 1e16);
  find(scratch / "new.json");
  EXPECT_GT(SeenPeaks(scratch / "new.json").of(DType::kF32), 1e8);
}

// Shapes of a layer whose products, by either library, were faster than the peak that MFU is measured against.
std::vector<std::string> faster_than_the_peak(DType type, at::ScalarType scalar,
                                              comm::World& world) {
  SeenPeaks seen{Path()};
  const double before = find_peak(type, at::kCPU, world, seen).flops;
  std::vector<std::pair<std::string, double>> found;
  for (const auto& [m, n, k] : {std::array{384, 512, 128}, {1024, 384, 1536}, {2048, 1152, 384}}) {
    const at::Tensor a = at::ones({m, k}, scalar), tall = at::ones({k, m}, scalar),
                     b = at::ones({k, n}, scalar), sum = at::zeros({m, n});
    std::vector<double> rates;
    for (int i = 0; i < 9; ++i)
      for (const bool own : {false, true}) {
        const Stopwatch watch;
        own ? ops::add_transposed_product(tall, b, sum) : void(at::mm(a, b));
        rates.push_back(2.0 * m * n * k / watch.seconds());
      }
    std::ranges::sort(rates);
    found.emplace_back(fmt::format("{} {} {}", m, n, k), rates[3 * rates.size() / 4]);
  }
  const double peak = std::max(before, find_peak(type, at::kCPU, world, seen).flops);
  std::vector<std::string> faster;
  for (const auto& [shape, rate] : found)
    if (rate >= 1.15 * peak)
      faster.push_back(fmt::format("{}: {:.3g} of {:.3g} FLOP/s", shape, rate, peak));
  return faster;
}

// A machine that others use too may be slow while the peak is measured; a wrong peak is too low each time.
TEST(Machine, NoProductIsFasterThanThePeakOfTheCpu) {
  comm::run_local_ranks(1, 60, [](comm::World& world) {
    at::NoGradGuard no_grad;
    for (const auto& [type, scalar] :
         {std::pair(DType::kF32, at::kFloat), std::pair(DType::kBF16, at::kBFloat16)}) {
      if (product_type(type) != type) continue;
      std::vector<std::string> faster{"not measured"};
      for (int attempt = 0; attempt < 5 && !faster.empty(); ++attempt)
        faster = faster_than_the_peak(type, scalar, world);
      EXPECT_THAT(faster, testing::IsEmpty());
    }
  });
}

}  // namespace
}  // namespace trireme::train::machine_test
