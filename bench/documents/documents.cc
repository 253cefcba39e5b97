// Attention over packed documents, forward and backward, with tokens shared by the zigzag and balanced.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <time.h>

#include <cmath>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <random>

#include "trireme/base/clock.h"
#include "trireme/base/median.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/ops/attention/attention.h"

using namespace trireme;

namespace {

constexpr std::int64_t kHeads = 4, kWidth = 64;
constexpr int kRepeats = 5;

// Position within its document of each token. Lengths are log-normal with a median of `median` tokens.
at::Tensor positions(std::int64_t tokens, double median, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> length(std::log(median), 1.0);
  const at::Tensor all = at::empty({1, tokens}, at::TensorOptions().dtype(at::kLong));
  auto* position = all.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tokens;)
    for (std::int64_t left = 16 + static_cast<std::int64_t>(length(random)), j = 0;
         left > 0 && i < tokens; --left, ++i)
      position[i] = j++;
  return all;
}

// CPU time of this thread, which other load of the machine does not count in.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Times {
  double wall = 0, cpu = 0;
};

Times times(comm::World& world, const ops::ContextParallel& context, std::int64_t tokens,
            const at::Tensor& positions) {
  const auto options = at::TensorOptions().dtype(at::kBFloat16);
  const std::int64_t own = tokens / context.size();
  const at::Tensor qkv = at::randn({1, own, 3 * kHeads * kWidth}, options).requires_grad_(true);
  const at::Tensor dout = at::randn({1, own, kHeads * kWidth}, options);
  const at::Tensor begin = at::arange(tokens, positions.options()) - positions;
  const ops::Mask mask =
      ops::Mask::causal({.begin = ops::shard_tokens(begin, 1, context.layout, context.rank())});
  std::vector<double> wall, cpu;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    qkv.mutable_grad() = at::Tensor();
    world.exchange("begin");
    const Stopwatch watch;
    const double begin_cpu = cpu_seconds();
    ops::attention_packed(qkv, {.heads = kHeads, .kv_heads = kHeads}, mask, context)
        .value.backward(dout);
    const double computed = cpu_seconds() - begin_cpu;
    world.exchange("end");
    if (repeat == 0) continue;
    wall.push_back(watch.seconds());
    cpu.push_back(computed);
  }
  return {.wall = median(wall), .cpu = median(cpu)};
}

void measure(int ranks, std::int64_t tokens, double length) {
  const at::Tensor places = positions(tokens, length, 1);
  const at::Tensor scores = (places[0] + 1).contiguous();
  const auto own = [&](const mesh::TokenLayout& layout) {
    std::int64_t most = 0, all = scores.sum().item<std::int64_t>();
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t sum = 0;
      for (const std::int64_t at : layout.positions(rank))
        sum += scores.data_ptr<std::int64_t>()[at];
      most = std::max(most, sum);
    }
    return static_cast<double>(most * ranks) / static_cast<double>(all);
  };
  const mesh::TokenLayout layouts[] = {
      mesh::zigzag(tokens, ranks),
      mesh::balanced({scores.data_ptr<std::int64_t>(), static_cast<std::size_t>(tokens)}, ranks)
          .layout};
  for (const ops::ContextMethod method :
       {ops::ContextMethod::kRing, ops::ContextMethod::kAllGather}) {
    fmt::print("{:<10} {:>5} {:>6} {:>6}", ops::name(method), ranks, tokens, length);
    for (const mesh::TokenLayout& layout : layouts) {
      std::mutex mutex;
      Times slowest;
      comm::run_local_ranks(ranks, 600, [&](comm::World& world) {
        at::set_num_threads(1);
        std::vector<int> everyone(static_cast<std::size_t>(ranks));
        std::iota(everyone.begin(), everyone.end(), 0);
        const ops::ContextGroups groups(world, everyone, method);
        ops::ContextParallel context = groups.parallel();
        context.layout = layout;
        const Times mine = times(world, context, tokens, places);
        std::lock_guard lock(mutex);
        slowest = {std::max(slowest.wall, mine.wall), std::max(slowest.cpu, mine.cpu)};
      });
      fmt::print(" | {:>2} {:.3f} {:>7.1f} {:>7.1f}", layout.ranges[0].size(), own(layout),
                 1e3 * slowest.wall, 1e3 * slowest.cpu);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  fmt::print(
      "method     ranks tokens median | zigzag: chunks, imbalance, ms, ms of the CPU on the "
      "slowest "
      "rank | balanced: the same\n");
  for (const std::int64_t tokens : {8192, 32768})
    for (const double length : {150., 600.}) measure(2, tokens, length);
}
