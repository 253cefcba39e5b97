// trireme doctor: checks the features of this machine by running them. The worker checks those that need LibTorch.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "apps/checks.h"
#include "apps/guard.h"
#include "apps/trireme/bench/calibration.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "trireme/base/error.h"
#include "trireme/base/network_devices.h"
#include "trireme/base/text.h"
#include "trireme/config/values/nccl_settings.h"
#include "trireme/launch/elastic/launch.h"

namespace trireme::app {
namespace {

// The value of the first line of a /proc file that begins with `key`.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key)) return line.substr(line.find_first_not_of(" \t:", key.size()));
  return "";
}

std::string processor() {
  const std::string flags = fmt::format(" {} ", proc_value("/proc/cpuinfo", "flags"));
  std::string found;
  for (const char* flag : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"})
    if (flags.find(fmt::format(" {} ", flag)) != std::string::npos)
      found += fmt::format(" {}", flag);
  return fmt::format("{}, {} cores online,{}", cpu_model(), ::sysconf(_SC_NPROCESSORS_ONLN),
                     found.empty() ? " none of AVX2, AVX-512, AMX" : found);
}

std::string memory() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  constexpr int kRounds = 8;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const Stopwatch watch;
  for (int round = 0; round < kRounds; ++round) {
    from[round] = static_cast<char>(round);
    std::memcpy(to.data(), from.data(), kBytes);
    TRIREME_CHECK(to[round] == static_cast<char>(round), "memcpy of round {}", round);
  }
  return fmt::format("{} available, copies {:.1f} GB/s",
                     proc_value("/proc/meminfo", "MemAvailable:"),
                     kRounds * static_cast<double>(kBytes) / watch.seconds() / 1e9);
}

std::string disk() {
  const Path file = fmt::format(".trireme-doctor-{}", ::getpid());
  const std::string bytes(std::size_t{16} << 20, 'x');
  const Stopwatch watch;
  write_file_synced(file, bytes);
  const double seconds = watch.seconds();
  const bool equal = read_file(file) == bytes;
  std::filesystem::remove(file);
  TRIREME_CHECK(equal, "what was read is not what was written");
  return fmt::format("this directory takes {:.0f} MB/s with fsync",
                     static_cast<double>(bytes.size()) / seconds / 1e6);
}

std::string plans() {
  constexpr int kWorld = 4;
  int proven = 0;
  for (int zero = 0; zero <= 3; ++zero) {
    config::Job job;
    job.parallel.zero = zero;
    const Planned planned = plan_job(job, kWorld, {.vocab = 256});
    TRIREME_CHECK(plan::parse(plan::print(planned.plan)) == planned.plan,
                  "the plan of ZeRO-{} does not read back", zero);
    ++proven;
  }
  return fmt::format("{} plans of {} ranks compiled, proven, printed and read back", proven,
                     kWorld);
}

std::string processes() {
  const elastic::Outcome outcome = elastic::run({.command = {"/bin/sh", "-c", "exit $((RANK * 7))"},
                                                 .environment = {},
                                                 .ranks = 2,
                                                 .on_line = {}});
  TRIREME_CHECK(outcome.exit_code == 7, "two children ended with {}: {}", outcome.exit_code,
                outcome.cause);
  return "two ranks started and watched";
}

// Warns of each variable that slows every run.
std::string environment() {
  const std::vector<std::string> left =
      config::left_from_debugging([](const char* name) -> std::optional<std::string> {
        const char* value = std::getenv(name);
        return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
      });
  for (const std::string& text : left) print_warning(text);
  return left.empty() ? "no settings left over from debugging"
                      : fmt::format("{} left over from debugging", counted(left.size(), "setting"));
}

}  // namespace

int doctor(const std::string& json) {
  check_output(json);
  Checks checks;
  checks.run("processor", processor);
  checks.run("memory", memory);
  checks.run("disk", disk);
  checks.run("network", [] { return network_devices(); });
  checks.run("environment", environment);
  checks.run("plans", plans);
  checks.run("processes", processes);
  std::vector<std::string> words = {"doctor"};
  if (!json.empty()) words.insert(words.end(), {"--json", json});
  const elastic::Outcome worker =
      run_workers(words, {.launcher = Launcher::kProcesses, .address = {}});
  if (!worker.cause.empty()) print_error("worker", worker.cause);
  if (!json.empty()) {
    Json all = checks.json();
    // Nothing where the worker ended before it could write.
    if (const std::string text = read_file(json); !text.empty())
      for (const Json& row : parse_json(text, json)) all.push_back(row);
    write_json(json, all);
  }
  return checks.all_ok() && worker.exit_code == 0 ? 0 : 1;
}

}  // namespace trireme::app
