// trireme-worker bench-kernels: what one pass of each CPU kernel reaches of memory's and the products' rates.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/json_output.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/clock.h"
#include "trireme/base/cpu.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/base/median.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/comm/tree_sum.h"
#include "trireme/ops/attention/attention.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/kernels/cpu/norm.h"
#include "trireme/ops/kernels/cpu/pointwise.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/kernels/cpu/scores.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/optim/adamw.h"

namespace trireme::app {
namespace {

using BF16 = c10::BFloat16;

// Far beyond the caches of a core: 32 MiB in bf16.
constexpr std::int64_t kKernelWidth = 1024, kRows = 16384, kCount = kRows * kKernelWidth;
constexpr int kKernelRepeats = 7;

double seconds_of(const std::function<void()>& body) {
  std::vector<double> seconds;
  for (int repeat = -1; repeat < kKernelRepeats; ++repeat) {
    const Stopwatch watch;
    body();
    if (repeat >= 0) seconds.push_back(watch.seconds());
  }
  return median(seconds);
}

at::Tensor normal(std::vector<std::int64_t> shape, at::ScalarType type) {
  return at::randn(shape, at::TensorOptions().dtype(type));
}

template <typename T>
T* data(const at::Tensor& tensor) {
  return tensor.data_ptr<T>();
}

// Splits elements or rows among ATen's threads.
void over(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  at::parallel_for(0, count, std::max<std::int64_t>(1, count / at::get_num_threads()), body);
}

struct Report {
  Json rows = Json::array();
  double copy_rate = 0;  // bytes read and written a second
  double gemm_rate = 0;  // FLOP/s of a forward product

  void add(const char* name, const char* limit, double amount, double bound, double seconds) {
    const double rate = amount / seconds;
    rows.push_back({{"kernel", name},
                    {"limit", limit},
                    {"rate", rate * 1e-9},
                    {"fraction", rate / bound},
                    {"ms", seconds * 1e3}});
    fmt::print("{:<34} {:>9.2f} ms {:>8.1f} {:<8} {:>4.0f}% of {}\n", name, seconds * 1e3,
               rate * 1e-9, std::strcmp(limit, "memory") == 0 ? "GB/s" : "GFLOP/s",
               100 * rate / bound, limit);
    std::fflush(stdout);
  }
  // A kernel that moves `bytes` for each of kCount elements.
  void pass(const char* name, double bytes, const std::function<void()>& body) {
    add(name, "memory", bytes * kCount, copy_rate, seconds_of(body));
  }
};

void measure_limits(Report& report) {
  const at::Tensor from = normal({kCount}, at::kBFloat16), to = at::empty_like(from);
  report.copy_rate =
      4.0 * kCount / seconds_of([&] {
        over(kCount, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(static_cast<void*>(data<BF16>(to) + begin), data<BF16>(from) + begin,
                      static_cast<std::size_t>(end - begin) * sizeof(BF16));
        });
      });
  constexpr std::int64_t kM = 2048, kK = 768, kN = 3072;
  const at::Tensor x = normal({kM, kK}, at::kBFloat16), w = normal({kN, kK}, at::kBFloat16);
  const double flop = 2.0 * kM * kK * kN;
  const DType product = product_type(DType::kBF16);
  const at::Tensor x_multiplied = x.to(comm::scalar_type(product)),
                   w_multiplied = w.to(comm::scalar_type(product));
  report.gemm_rate = flop / seconds_of([&] { at::mm(x_multiplied, w_multiplied.t()); });
  fmt::print(
      "memory: {:.1f} GB/s read and written by memcpy; products: {:.0f} GFLOP/s, {} x {} -> "
      "{} in {}; {} thread(s)\n\n",
      report.copy_rate * 1e-9, report.gemm_rate * 1e-9, kM, kK, kN, name(product),
      at::get_num_threads());

  at::Tensor param = w.clone().requires_grad_(true);
  param.mutable_grad() = at::zeros({kN, kK}, at::kFloat);
  const auto gradients = std::make_shared<ops::WeightGradients>();
  gradients->adds_in_place(param);
  const at::Tensor dy = normal({kM, kN}, at::kBFloat16);
  report.add("weight gradient, in fp32", "products", flop, report.gemm_rate, seconds_of([&] {
               gradients->begin(param);
               ops::weight_gradient(dy, x, param, gradients);
             }));
  report.add("weight gradient, added in fp32", "products", flop, report.gemm_rate,
             seconds_of([&] { ops::weight_gradient(dy, x, param); }));
  report.add("the same by ATen, rounded to bf16", "products", flop, report.gemm_rate,
             seconds_of([&] { at::mm(dy.t(), x); }));
}

void measure_norms(Report& report) {
  const at::Tensor x = normal({kRows, kKernelWidth}, at::kBFloat16), y = at::empty_like(x),
                   branch = normal({kRows, kKernelWidth}, at::kBFloat16), sum = at::empty_like(x),
                   gain = normal({kKernelWidth}, at::kBFloat16),
                   bias = normal({kKernelWidth}, at::kBFloat16),
                   stats = at::empty({2, kRows}, at::kFloat),
                   sums = at::zeros({2, kKernelWidth}, at::kFloat);
  const ops::kernels::NormRows<BF16> rows{.x = data<BF16>(x),
                                          .gain = data<BF16>(gain),
                                          .bias = data<BF16>(bias),
                                          .mean = data<float>(stats),
                                          .scale = data<float>(stats) + kRows,
                                          .width = kKernelWidth,
                                          .eps = 1e-5};
  const auto& norm = ops::kernels::norm_kernels<BF16>();
  report.pass("layer norm", 4, [&] {
    over(kRows, [&](std::int64_t begin, std::int64_t end) {
      norm.forward(rows, nullptr, nullptr, data<BF16>(y), begin, end);
    });
  });
  report.pass("residual add and layer norm", 8, [&] {
    over(kRows, [&](std::int64_t begin, std::int64_t end) {
      norm.forward(rows, data<BF16>(branch), data<BF16>(sum), data<BF16>(y), begin, end);
    });
  });
  report.pass("layer norm and residual, backward", 8, [&] {
    norm.backward(rows, data<BF16>(y), data<BF16>(branch), data<BF16>(sum), data<float>(sums),
                  data<float>(sums) + kKernelWidth, 0, kRows);
  });
  report.pass("bias gradient", 2, [&] {
    ops::kernels::row_kernels<BF16>().add_rows(data<BF16>(x), kRows, kKernelWidth, kKernelWidth,
                                               data<float>(sums));
  });
}

void measure_activations(Report& report) {
  const at::Tensor a = normal({kCount}, at::kBFloat16), b = normal({kCount}, at::kBFloat16),
                   c = at::empty_like(a), d = at::empty_like(a), e = at::empty_like(a);
  const auto& kernels = ops::kernels::pointwise_kernels<BF16>();
  const auto pass = [&](const char* name, double bytes, const auto& body) {
    report.pass(name, bytes,
                [&] { over(kCount, [&](std::int64_t i, std::int64_t end) { body(i, end - i); }); });
  };
  const auto at = [](const at::Tensor& t, std::int64_t i) { return data<BF16>(t) + i; };
  pass("gelu", 4, [&](std::int64_t i, std::int64_t n) { kernels.gelu(at(a, i), at(c, i), n); });
  pass("gelu backward and recomputed forward", 8, [&](std::int64_t i, std::int64_t n) {
    kernels.gelu_backward(at(a, i), at(b, i), at(c, i), at(d, i), n);
  });
  pass("swiglu", 6,
       [&](std::int64_t i, std::int64_t n) { kernels.swiglu(at(a, i), at(b, i), at(c, i), n); });
  pass("swiglu backward and recomputed forward", 12, [&](std::int64_t i, std::int64_t n) {
    kernels.swiglu_backward(at(a, i), at(b, i), at(c, i), at(d, i), at(c, i), at(e, i), n);
  });
  const at::Tensor angles = at::zeros({2, kRows, 32}, at::kFloat);
  const ops::kernels::Rotation<BF16> rotation{.cosines = data<float>(angles),
                                              .sines = data<float>(angles) + kRows * 32,
                                              .positions = 2048,
                                              .heads = kKernelWidth / 64,
                                              .width = 64};
  report.pass("rotary positions", 4, [&] {
    over(kRows, [&](std::int64_t begin, std::int64_t end) {
      kernels.rotate(rotation, data<BF16>(a), data<BF16>(c), begin, end - begin);
    });
  });
}

void measure_loss(Report& report) {
  constexpr std::int64_t kClasses = 32768, kTokens = kCount / kClasses;
  const at::Tensor logits = normal({kTokens, kClasses}, at::kBFloat16),
                   targets = at::zeros({kTokens}, at::kLong),
                   out = at::empty({2, kTokens}, at::kFloat);
  const auto& kernels = ops::kernels::score_kernels<BF16>();
  const ops::kernels::LogitRows rows{
      .targets = data<std::int64_t>(targets), .ignored = ops::kNoTarget, .count = kClasses};
  report.pass("cross-entropy", 2, [&] {
    over(kTokens, [&](std::int64_t begin, std::int64_t end) {
      kernels.log_sum_exp(rows, data<BF16>(logits), data<float>(out), data<float>(out) + kTokens,
                          begin, end);
    });
  });
  const float one = 1;
  report.pass("cross-entropy backward", 4, [&] {
    over(kTokens, [&](std::int64_t begin, std::int64_t end) {
      kernels.cross_entropy_backward(rows, data<BF16>(logits), data<float>(out) + kTokens,
                                     {.seeds = &one}, begin, end);
    });
  });
}

void measure_optimizer(Report& report) {
  const at::Tensor param = normal({kCount}, at::kFloat), grad = normal({kCount}, at::kFloat);
  std::vector<at::Tensor> states = {at::zeros({kCount}, at::kFloat),
                                    at::zeros({kCount}, at::kFloat)};
  optim::AdamW adamw({});
  const std::vector<exec::UpdateSegment> segments = {{.begin = 0, .end = kCount, .decay = 1}};
  std::int64_t step = 0;
  report.pass("AdamW, fp32", 28,
              [&] { adamw.update(param, grad, states, segments, {.lr = 1e-4, .step = ++step}); });
  const at::Tensor short_param = param.to(at::kBFloat16);
  std::vector<at::Tensor> moments = {at::zeros({kCount}, at::kBFloat16),
                                     at::zeros({kCount}, at::kBFloat16)};
  for (bool stochastic : {true, false}) {
    optim::AdamW pure({.stochastic = stochastic});
    report.pass(stochastic ? "AdamW, bf16 stochastic" : "AdamW, bf16 to nearest", 16, [&] {
      pure.update(short_param, grad, moments, segments,
                  {.lr = 1e-4, .step = ++step, .noise = static_cast<std::uint64_t>(step)});
    });
  }
  constexpr std::int64_t kBlock = 256;
  std::vector<at::Tensor> codes = {
      at::zeros({kCount}, at::kByte), at::zeros({kCount / kBlock}, at::kFloat),
      at::zeros({kCount}, at::kByte), at::zeros({kCount / kBlock}, at::kFloat)};
  optim::AdamW coded({.int8_states = true});
  report.pass("AdamW, fp32, int8 states", 16, [&] {
    coded.update(param, grad, codes, segments, {.lr = 1e-4, .step = ++step, .state_block = kBlock});
  });
  report.pass("gradient accumulation, fp32", 12,
              [&] { comm::add_into(data<float>(param), data<float>(grad), kCount, DType::kF32); });
}

void measure_attention(Report& report) {
  constexpr std::int64_t kTokens = 2048, kHeads = 12, kHead = 64;
  const at::Tensor qkv =
      normal({1, kTokens, 3 * kHeads * kHead}, at::kBFloat16).requires_grad_(true);
  const at::Tensor dout = normal({1, kTokens, kHeads * kHead}, at::kBFloat16);
  // What a token sees: half of all pairs. Backward counts 2.5 times forward (Dao 2023).
  const double forward = 4.0 * kHeads * kTokens * (kTokens + 1) / 2 * kHead;
  const auto attend = [&] {
    return ops::attention_packed(qkv, {.heads = kHeads, .kv_heads = kHeads}, ops::Mask::causal());
  };
  report.add("attention, 2048 tokens, heads of 64", "products", forward, report.gemm_rate,
             seconds_of([&] {
               at::NoGradGuard none;
               attend();
             }));
  report.add("attention, forward and backward", "products", 3.5 * forward, report.gemm_rate,
             seconds_of([&] { attend().value.backward(dout); }));
}

}  // namespace

int bench_kernels(const Arguments& arguments) {
  const auto request = arguments.request<BenchKernelsOptions>();
  at::set_num_threads(request.threads);
  Report report;
  measure_limits(report);
  measure_norms(report);
  measure_activations(report);
  measure_loss(report);
  measure_optimizer(report);
  measure_attention(report);
  write_json(request.json, {{"threads", at::get_num_threads()},
                            {"memory_gb_per_s", report.copy_rate * 1e-9},
                            {"gemm_gflop_per_s", report.gemm_rate * 1e-9},
                            {"kernels", report.rows}});
  return 0;
}

}  // namespace trireme::app
