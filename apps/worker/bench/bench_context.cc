// trireme-worker bench-context: attention with the sequence spread over ranks, against the products' rate.
#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/json_output.h"
#include "apps/worker/subcommands.h"
#include "tensor_bytes.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/base/median.h"
#include "trireme/comm/counting_group.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/ops/attention/attention.h"

namespace trireme::app {
namespace {

constexpr double kContextTimeout = 600;
constexpr double kLong = 2;  // seconds after which a measurement is not repeated
constexpr int kContextRepeats = 5;

struct ContextProblem {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  // What a token sees: half of all pairs. Backward counts 2.5 times forward (Dao 2023).
  double flop() const {
    return 3.5 * 4 * static_cast<double>(heads * head_dim) * static_cast<double>(tokens) *
           static_cast<double>(tokens + 1) / 2;
  }
};

at::Tensor normal(std::vector<std::int64_t> shape) {
  return at::randn(shape, at::TensorOptions().dtype(at::kBFloat16));
}

// The median of repeats as this rank saw it, all ranks beginning together.
double seconds_of(comm::Group& group, const std::function<void()>& body) {
  std::vector<double> seconds;
  for (int repeat = -1; repeat < kContextRepeats; ++repeat) {
    group.barrier().wait();
    const Stopwatch watch;
    body();
    double taken = watch.seconds();
    if (repeat >= 0) seconds.push_back(taken);
    // all continue or none
    group.all_reduce({&taken, 1, DType::kF64}, comm::Reduce::kMax).wait();
    if (taken > kLong && repeat >= 0) break;
  }
  return median(seconds);
}

// The groups of a method, counting.
struct Counted {
  explicit Counted(const ops::ContextParallel& inner) : parallel(inner) {
    for (comm::Group** group :
         {&parallel.group, &parallel.lane, &parallel.inner, &parallel.outer}) {
      if (*group == nullptr) continue;
      groups.push_back(std::make_unique<comm::CountingGroup>(**group));
      *group = groups.back().get();
    }
  }
  // Since the last call.
  std::int64_t take_bytes_sent() {
    std::int64_t bytes = 0;
    for (const auto& group : groups) bytes += group->take_bytes_sent();
    return bytes;
  }
  ops::ContextParallel parallel;
  std::vector<std::unique_ptr<comm::CountingGroup>> groups;
};

struct ContextFigures {
  double seconds = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t bytes_sent = 0;
};

ContextFigures measure(comm::Group& all, const ops::ContextParallel& inner,
                       const ContextProblem& problem) {
  Counted counted(inner);
  TensorBytes bytes;
  ContextFigures figures;
  const std::int64_t tokens = problem.tokens / inner.size();
  const at::Tensor qkv =
      normal({1, tokens, (problem.heads + 2 * problem.kv_heads) * problem.head_dim})
          .requires_grad_(true);
  const at::Tensor dout = normal({1, tokens, problem.heads * problem.head_dim});
  figures.seconds = seconds_of(all, [&] {
    qkv.mutable_grad() = at::Tensor();
    bytes.take_peak();
    counted.take_bytes_sent();
    ops::attention_packed(qkv, {.heads = problem.heads, .kv_heads = problem.kv_heads},
                          ops::Mask::causal(), counted.parallel)
        .value.backward(dout);
    figures.bytes_sent = counted.take_bytes_sent();
    figures.peak_bytes = bytes.take_peak();
  });
  return figures;
}

// FLOP/s of this rank's matrix product while all ranks do the same.
double product_rate(comm::Group& all) {
  constexpr std::int64_t kM = 2048, kK = 768, kN = 3072;
  const at::Tensor x = normal({kM, kK}), w = normal({kN, kK});
  return 2.0 * kM * kK * kN / seconds_of(all, [&] { at::mm(x, w.t()); });
}

struct Way {
  ops::ContextMethod method;
  int inner = 0;
};
std::vector<Way> ways(int ranks) {
  std::vector<Way> all = {{ops::ContextMethod::kRing},
                          {ops::ContextMethod::kAllGather},
                          {ops::ContextMethod::kUlysses}};
  if (ranks >= 4 && ranks % 2 == 0) all.push_back({ops::ContextMethod::kHierarchical, 2});
  return all;
}

// The slowest rank's time, the largest peak, the most bytes, and what all ranks together reach.
Json row(const char* method, const ContextProblem& problem, int ranks, const ContextFigures& worst,
         double product_rate) {
  const double rate = problem.flop() / worst.seconds;
  fmt::print("{:<13} {:>6} {:>8} {:>10.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>5.0f}%\n", method, ranks,
             problem.tokens, 1e3 * worst.seconds, 1e-6 * static_cast<double>(worst.peak_bytes),
             1e-6 * static_cast<double>(worst.bytes_sent), 1e-9 * rate, 100 * rate / product_rate);
  std::fflush(stdout);
  return {{"method", method},
          {"ranks", ranks},
          {"tokens", problem.tokens},
          {"ms", 1e3 * worst.seconds},
          {"peak_bytes", worst.peak_bytes},
          {"bytes_sent", worst.bytes_sent},
          {"gflop_per_s", 1e-9 * rate},
          {"of_products", rate / product_rate}};
}

template <typename T>
T reduced(comm::Group& group, T mine, DType type, comm::Reduce reduce) {
  group.all_reduce({&mine, 1, type}, reduce).wait();
  return mine;
}

// Collective; rank 0 prints and fills `rows`.
void measure_ranks(comm::World& world, const std::vector<ContextProblem>& problems, Json& rows) {
  at::set_num_threads(1);
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto all = world.make_group("bench", ranks);
  const double products = reduced(*all, product_rate(*all), DType::kF64, comm::Reduce::kSum);
  for (const ContextProblem& problem : problems)
    for (const Way& way : ways(world.size())) {
      const ops::ContextGroups groups(world, ranks, way.method, way.inner);
      ContextFigures mine = measure(*all, groups.parallel(), problem);
      mine.seconds = reduced(*all, mine.seconds, DType::kF64, comm::Reduce::kMax);
      mine.peak_bytes = reduced(*all, mine.peak_bytes, DType::kI64, comm::Reduce::kMax);
      mine.bytes_sent = reduced(*all, mine.bytes_sent, DType::kI64, comm::Reduce::kMax);
      const char* const name = world.size() == 1 ? "one rank" : ops::name(way.method).data();
      if (world.rank() == 0) rows.push_back(row(name, problem, world.size(), mine, products));
      if (world.size() == 1) break;  // one method is as good as another
    }
}

}  // namespace

int bench_context(const Arguments& arguments) {
  TensorBytes::install();
  std::vector<ContextProblem> problems;
  const auto request = arguments.request<BenchContextOptions>();
  for (const std::int64_t tokens : request.tokens)
    problems.push_back({.tokens = tokens,
                        .heads = request.heads,
                        .kv_heads = request.kv_heads,
                        .head_dim = request.head_dim});
  fmt::print(
      "causal attention, {} heads of {} on {} key-value heads, bf16, forward and backward, one "
      "sample; ranks are threads; "
      "products: ATen's 2048 x 768 -> 3072 on all ranks at once\n",
      problems[0].heads, problems[0].head_dim, problems[0].kv_heads);
  fmt::print("{:<13} {:>6} {:>8} {:>10} {:>9} {:>9} {:>9} {:>6}\n", "method", "ranks", "tokens",
             "ms", "peak MB", "sent MB", "GFLOP/s", "of products");
  Json rows = Json::array();
  std::vector<int> counts = request.ranks;
  counts.insert(counts.begin(), 1);
  for (const int ranks : counts)
    comm::run_local_ranks(ranks, kContextTimeout,
                          [&](comm::World& world) { measure_ranks(world, problems, rows); });
  write_json(request.json, rows);
  return 0;
}

}  // namespace trireme::app
