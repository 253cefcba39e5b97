#include "trireme/planner/cost/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

// Smaller tiles read their operands more often for the same work.
struct Tile {
  double m, n, halvings;
};
constexpr std::array<Tile, 6> kTiles = {
    {{256, 128, 0}, {128, 256, 0}, {128, 128, 1}, {128, 64, 2}, {64, 128, 2}, {64, 64, 3}}};

double element(Math math) {
  if (math == Math::kFp64) return 8;
  if (math == Math::kFp32) return 4;
  return math == Math::kFp8 ? 1 : 2;
}

bool aligned(Math math, double size) { return std::fmod(size * element(math), 16) == 0; }

// Operations a second at the clock that it keeps.
double sustained(const Gpu& gpu, Math math) { return peak(gpu, math) * gpu.clock; }

double gemm_seconds(const Gpu& gpu, const Kernel& kernel) {
  const Efficiency& efficiency = gpu.efficiency;
  const double units = std::max(gpu.units, 1);
  const double rate =
      sustained(gpu, kernel.math) * efficiency.gemm * (kernel.crosswise ? efficiency.crosswise : 1);
  const bool fast = aligned(kernel.math, kernel.k) && aligned(kernel.math, kernel.n);
  double best = INFINITY;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(kernel.m / tile.m) * std::ceil(kernel.n / tile.n) * kernel.batch;
    const double one = 2 * tile.m * tile.n * (kernel.k + efficiency.depth) /
                       (rate / units * std::pow(1 - efficiency.tile, tile.halvings));
    best = std::min(best, std::ceil(tiles / units) * one);
  }
  const double bytes = (kernel.m * kernel.k + kernel.k * kernel.n + kernel.m * kernel.n) *
                       kernel.batch * element(kernel.math);
  return std::max(best, bytes / (gpu.memory_rate * efficiency.memory)) /
         (fast ? 1 : efficiency.misaligned);
}

double core_seconds(const Core& core, const Kernel& kernel) {
  const CoreRates& rates = kernel.math == Math::kFp32 ? core.fp32 : core.half;
  switch (kernel.kind) {
    case Kernel::Kind::kGemm:
      return kernel.batch * seconds(kernel.crosswise ? rates.crosswise
                                    : kernel.along   ? rates.forward
                                                     : rates.input,
                                    kernel.m, kernel.n, kernel.k) +
             rates.kernel_s;
    case Kernel::Kind::kAttention:
      return kernel.flops / rates.attention + kernel.begun * rates.attention_s + rates.kernel_s;
    case Kernel::Kind::kStream: return kernel.bytes / rates.memory_rate + rates.kernel_s;
    case Kernel::Kind::kOperator: return kernel.bytes / core.operator_rate + core.operator_s;
  }
  return 0;
}

// The fp64 rate of the processor is unknown.
std::pair<double, std::string_view> rate_of(const Gpu& gpu, Math math) {
  switch (math) {
    case Math::kFp64: return {0, "fp64"};
    case Math::kFp32: return {gpu.fp32_flops, "fp32"};
    case Math::kHalf: return {gpu.half_flops, gpu.bf16 ? "bf16 or fp16" : "fp16"};
    case Math::kFp8: return {gpu.fp8_flops, "fp8"};
  }
  return {};
}

}  // namespace

Math math_of(DType type) {
  if (type == DType::kF64) return Math::kFp64;
  return type == DType::kF32 ? Math::kFp32 : Math::kHalf;
}

void check_type(const Gpu& gpu, DType type) {
  if (type == DType::kBF16 && !gpu.bf16)
    fail(ErrorKind::kUsage, "gpu {} has no bf16; set precision.compute=fp16, or choose another gpu",
         gpu.name);
}

double seconds(const ProductCurve& curve, double m, double n, double k) {
  return 2 * m * n * k / curve.rate + curve.left * m * k + curve.right * k * n +
         curve.result * m * n + curve.call_s;
}

Kernel gemm(Math math, double m, double n, double k, double batch) {
  return {.kind = Kernel::Kind::kGemm, .math = math, .m = m, .n = n, .k = k, .batch = batch};
}

Kernel product(Math math, double rows, double in, double out) {
  Kernel kernel = gemm(math, rows, out, in);
  kernel.along = true;
  return kernel;
}

Kernel input_gradient(Math math, double rows, double in, double out) {
  return gemm(math, rows, in, out);
}

Kernel weight_gradient(Math math, double rows, double in, double out) {
  Kernel kernel = gemm(math, out, in, rows);
  kernel.crosswise = true;
  return kernel;
}

Kernel attention(Math math, double flops) {
  return {.kind = Kernel::Kind::kAttention, .math = math, .flops = flops};
}

Kernel tiled_attention(Math math, double rows, double tokens, double heads, double width,
                       bool causal) {
  constexpr double kBlock = 64;  // ops/kernels/score_tiles.h
  const double seen = causal ? std::min((1 + kBlock / tokens) / 2, 1.0) : 1;
  Kernel kernel = attention(math, 4 * rows * tokens * seen * heads * width);
  kernel.begun = heads * rows / tokens * std::ceil(tokens / kBlock);
  return kernel;
}

Kernel times(Kernel attention, double more) {
  attention.flops *= more;
  attention.begun *= more;
  return attention;
}

Kernel stream(double bytes, double kernels) {
  return {.kind = Kernel::Kind::kStream, .bytes = bytes / kernels, .count = kernels};
}

Kernel operators(double bytes, double count) {
  return {.kind = Kernel::Kind::kOperator, .bytes = bytes / count, .count = count};
}

double peak(const Gpu& gpu, Math math) {
  const auto [rate, type] = rate_of(gpu, math);
  if (rate <= 0)
    fail(ErrorKind::kUsage, "gpu {} has no {} rate; choose another precision or gpu", gpu.name,
         type);
  return rate;
}

double seconds(const Gpu& gpu, const Kernel& kernel) {
  if (gpu.core) {
    peak(gpu, kernel.math);
    return kernel.count * core_seconds(*gpu.core, kernel);
  }
  const Efficiency& efficiency = gpu.efficiency;
  double one = 0;
  switch (kernel.kind) {
    case Kernel::Kind::kGemm: one = gemm_seconds(gpu, kernel); break;
    case Kernel::Kind::kAttention:
      one = kernel.flops / (sustained(gpu, kernel.math) * efficiency.attention);
      break;
    case Kernel::Kind::kStream:
    case Kernel::Kind::kOperator: one = kernel.bytes / (gpu.memory_rate * efficiency.memory); break;
  }
  return kernel.count * (one + efficiency.kernel_s);
}

double count(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.count;
  return sum;
}

double seconds(const Gpu& gpu, const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += seconds(gpu, kernel);
  return sum;
}

}  // namespace trireme::planner
