#include "trireme/train/machine.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "trireme/base/clock.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::train {

double measure_peak_flops(DType type, comm::World& world) {
  constexpr std::int64_t kSize = 512;
  constexpr int kRepeats = 7;
  at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kSize, kSize}, at::TensorOptions().dtype(comm::scalar_type(type)));
  at::mm(a, a);
  world.exchange("ready");  // all ranks at once, as in training
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    Stopwatch watch;
    at::mm(a, a);
    best = std::max(best, 2.0 * kSize * kSize * kSize / watch.seconds());
  }
  double sum = 0;
  for (const std::string& rate : world.exchange(fmt::format("{}", best))) sum += std::stod(rate);
  return sum;
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

double peak_resident_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kibibytes = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace trireme::train
