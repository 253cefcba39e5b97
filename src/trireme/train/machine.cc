#include "trireme/train/machine.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/cpu.h"
#include "trireme/base/error.h"
#include "trireme/base/host_name.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/train/gpu.h"

namespace trireme::train {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// Ones. On a CPU they have memory of their own, which returns to the kernel with them, because the allocator of tensors
// never frees memory.
at::Tensor square_of_ones(std::int64_t size, const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return at::ones({size, size}, options);
  const std::size_t bytes = static_cast<std::size_t>(size * size) * options.dtype().itemsize();
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail(ErrorKind::kOutOfMemory,
         "{} bytes for a matrix that measures this machine are not there; end other programs, or "
         "raise the limit of addresses (ulimit -v)",
         bytes);
  const auto release = [bytes](void* block) { ::munmap(block, bytes); };
  return at::from_blob(memory, {size, size}, release, options).fill_(1);
}

// Rate of this rank while all ranks measure: that of the fastest of all products in a step. It is measured until an
// idle core has reached its full speed and a shared core has been available alone.
double measured_flops(DType type, c10::Device device, const std::vector<std::int64_t>& sizes,
                      comm::World& world) {
  constexpr double kSettled = 0.06, kMost = 0.2;  // seconds
  constexpr double kFaster = 1.01;
  at::NoGradGuard no_grad;
  if (device.is_cpu()) type = product_type(type);
  const auto options = at::TensorOptions().dtype(comm::scalar_type(type)).device(device);
  struct Product {
    double flop;
    std::function<void()> run;
  };
  std::vector<Product> products;
  for (const std::int64_t size : sizes) {
    const double flop = 2.0 * static_cast<double>(size * size * size);
    const at::Tensor a = square_of_ones(size, options);
    at::Tensor product = square_of_ones(size, options);
    products.push_back({flop, [a, product]() mutable { at::mm_out(product, a, a); }});
    if (!device.is_cpu()) continue;
    // Another library's, which gradients of weights and attention take.
    const at::Tensor sum =
        square_of_ones(size, at::TensorOptions(type == DType::kF64 ? at::kDouble : at::kFloat));
    products.push_back({flop, [a, sum] { ops::add_transposed_product(a, a, sum); }});
  }
  for (const Product& product : products) product.run();
  finish(device);
  world.exchange("ready");
  double best = 0, found = 0;
  const Stopwatch all;
  while (all.seconds() < std::min(kMost, found + kSettled))
    for (const Product& product : products) {
      const Stopwatch watch;
      product.run();
      finish(device);
      const double rate = product.flop / watch.seconds();
      if (rate > kFaster * best) found = all.seconds();
      best = std::max(best, rate);
    }
  return best;
}

// Of ranks with so many FLOP/s on hosts of these names, each with so many cores: ranks beyond those have no cores of their own.
double together(const std::vector<std::pair<std::string, double>>& ranks, int cores) {
  std::map<std::string, int> on_host;
  for (const auto& [host, flops] : ranks) ++on_host[host];
  double sum = 0;
  for (const auto& [host, flops] : ranks)
    sum += flops * std::min(1.0, static_cast<double>(cores) / on_host[host]);
  return sum;
}

// The fastest of a host's ranks, by the first of them alone: they share the file.
void raise_on_host(const std::vector<std::pair<std::string, double>>& ranks, int rank, DType type,
                   SeenPeaks& seen) {
  const std::string& host = ranks[rank].first;
  double most = 0;
  for (const auto& [other, flops] : ranks)
    if (other == host) most = std::max(most, flops);
  const auto first = std::ranges::find(ranks, host, [](const auto& one) { return one.first; });
  if (first - ranks.begin() == rank) seen.raise(type, most);
}

// Ranks may have GPUs of several kinds.
std::string joined(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

std::optional<double> sheet_flops(std::string_view gpu, DType type) {
  // Tera, without sparsity. Longer names first: one may be a part of another.
  static constexpr std::pair<std::string_view, double> kHalf[] = {
      {"H100 PCIe", 756}, {"H100 NVL", 835}, {"GB200", 2500}, {"B200", 2250}, {"H200", 989.4},
      {"H100", 989.4},    {"A100", 312},     {"L40S", 362},   {"A800", 312},  {"RTX 4090", 165.2}};
  if (type != DType::kBF16 && type != DType::kF16) return std::nullopt;
  for (const auto& [name, tera] : kHalf)
    if (gpu.find(name) != std::string_view::npos) return 1e12 * tera;
  return std::nullopt;
}

Peak find_peak(DType type, c10::Device device, comm::World& world, SeenPeaks& seen) {
  const std::vector<std::int64_t> sizes =
      device.is_cpu() ? std::vector<std::int64_t>{512, 1024} : std::vector<std::int64_t>{8192};
  const std::vector<std::string> names = world.exchange(device.is_cpu() ? "" : gpu_name());
  Peak peak;
  for (const std::string& name : names) peak.flops += sheet_flops(name, type).value_or(kUnknown);
  if (std::isfinite(peak.flops)) {
    peak.source = "the data sheet of " + joined(names);
    return peak;
  }
  peak = {.source = fmt::format("products of {0} x {0}, the fastest measured here", sizes.back())};
  const double mine =
      std::max(measured_flops(type, device, sizes, world), device.is_cpu() ? seen.of(type) : 0);
  std::vector<std::pair<std::string, double>> ranks;
  for (const std::string& rank : world.exchange(fmt::format("{} {}", mine, host_name()))) {
    const std::size_t space = rank.find(' ');
    ranks.emplace_back(rank.substr(space + 1), std::stod(rank.substr(0, space)));
  }
  if (device.is_cpu()) raise_on_host(ranks, world.rank(), type, seen);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  peak.flops = together(ranks, device.is_cpu() && cores > 0 ? cores : world.size());
  return peak;
}

void finish(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.getStream(guard.getDevice()).synchronize();
}

double resident_mb() {
  long pages = 0;
  long resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int fields = std::fscanf(file, "%ld %ld", &pages, &resident);
  std::fclose(file);
  return fields == 2
             ? static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6
             : 0;
}

double status_mb(std::string_view field) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (double kibibytes = 0; word == field && file >> kibibytes) return kibibytes * 1024 / 1e6;
  return 0;
}

// Of this program: getrusage() also has the peak of the program that executed it.
double peak_resident_mb() { return status_mb("VmHWM:"); }

double held_mb() { return status_mb("RssAnon:") + status_mb("RssShmem:"); }

std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kibibytes = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace trireme::train
