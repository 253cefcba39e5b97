#include "timed_steps.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/config/fields/fields.h"

namespace trireme::app {
namespace {

double seconds_of(int whom) {
  rusage usage{};
  ::getrusage(whom, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Json timed_steps(const config::Job& job, const Place& place, int warmup, int steps, int pulsing) {
  const std::string result = job_in_memory("");
  std::vector<std::string> words = {"time-steps",
                                    "--job",
                                    job_in_memory(config::print_yaml(job)),
                                    "--warmup",
                                    std::to_string(warmup),
                                    "--steps",
                                    std::to_string(steps),
                                    "--pulsing",
                                    std::to_string(pulsing),
                                    "--json",
                                    result};
  const elastic::Outcome outcome = run_ranks(std::move(words), place);
  if (outcome.exit_code != 0)
    fail(ErrorKind::kPeerLost, "the steps ended with {}: {}", outcome.exit_code, outcome.cause);
  return parse_json(read_file(result), "the steps");
}

double undisturbed(std::vector<double> seconds) {
  const auto quarter = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 4);
  std::nth_element(seconds.begin(), quarter, seconds.end());
  return *quarter;
}

double CpuTime::others_since(const CpuTime& before, double wall_s, int cores) const {
  const double others = (all - before.all) - (own - before.own);
  return std::max(0.0, others) / (wall_s * cores);
}

CpuTime cpu_time() {
  CpuTime time{.own = seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN)};
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  constexpr int kIdle = 3, kWaiting = 4,
                kFields = 8;  // user nice system idle iowait irq softirq steal
  for (int field = 0; field < kFields; ++field) {
    double ticks = 0;
    file >> ticks;
    if (field != kIdle && field != kWaiting) time.all += ticks;
  }
  time.all /= static_cast<double>(::sysconf(_SC_CLK_TCK));
  return time;
}

}  // namespace trireme::app
