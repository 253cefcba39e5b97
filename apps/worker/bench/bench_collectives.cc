// trireme-worker bench-collectives: how fast ranks of this machine add and gather, against memcpy.
#include <ATen/ops/ones.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/json_output.h"
#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "bench_ranks.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/base/median.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/launch/elastic/launch.h"

namespace trireme::app {
namespace {

constexpr double kCollectivesTimeout = 60;
constexpr std::int64_t kSmallest = 64 << 10, kMega = 1 << 20, kLatencyBytes = 1024;
constexpr const char* kProcessTransports[] = {"shm", "gloo"};
constexpr const char* kTransportVariable = "TRIREME_TRANSPORT";
constexpr const char* kVerbs[] = {"all_reduce", "reduce_scatter", "all_gather"};

int repeats(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((512 * kMega) / bytes, 5, 100));
}

std::vector<std::int64_t> sizes(std::int64_t largest) {
  std::vector<std::int64_t> list;
  for (std::int64_t bytes = kSmallest; bytes <= largest; bytes *= 4) list.push_back(bytes);
  return list;
}

// Memory as tensors have it, aligned and written: no measurement pays for page faults.
at::Tensor floats(std::int64_t bytes) { return at::ones({bytes / 4}, at::kFloat); }

comm::Ticket start(comm::Group& group, std::string_view verb, float* whole, float* part,
                   std::int64_t count) {
  const std::int64_t slice = count / group.size();
  const comm::Buffer all{whole, slice * group.size(), DType::kF32};
  const comm::Buffer own{part, slice, DType::kF32};
  if (verb == "all_reduce") return group.all_reduce({whole, count, DType::kF32});
  if (verb == "reduce_scatter") return group.reduce_scatter(all, own);
  return group.all_gather(own, all);
}

// Seconds of one operation, the median as this rank saw it.
double seconds_of(comm::Group& group, std::string_view verb, float* whole, float* part,
                  std::int64_t bytes) {
  std::vector<double> seconds;
  for (int round = -1; round < repeats(bytes); ++round) {
    group.barrier().wait();
    const Stopwatch watch;
    start(group, verb, whole, part, bytes / 4).wait();
    if (round >= 0) seconds.push_back(watch.seconds());
  }
  return median(seconds);
}

// One all_reduce after the other, as a training step's small sums come.
double latency(comm::Group& group, float* whole) {
  constexpr int kBatches = 9, kBatch = 500;
  std::vector<double> seconds;
  for (int batch = 0; batch < kBatches; ++batch) {
    group.barrier().wait();
    const Stopwatch watch;
    for (int i = 0; i < kBatch; ++i)
      group.all_reduce({whole, kLatencyBytes / 4, DType::kF32}).wait();
    seconds.push_back(watch.seconds() / kBatch);
  }
  return median(seconds);
}

Json measure_collectives(comm::World& world, std::int64_t largest) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = world.make_group("bench", ranks);
  const at::Tensor whole = floats(largest), part = floats(largest / world.size());
  Json found;
  found["latency_us"] = 1e6 * latency(*group, whole.data_ptr<float>());
  for (const char* verb : kVerbs)
    for (const std::int64_t bytes : sizes(largest))
      found["seconds"][verb].push_back(
          seconds_of(*group, verb, whole.data_ptr<float>(), part.data_ptr<float>(), bytes));
  return found;
}

// Seconds of a memcpy of `bytes` while `ranks` threads do the same, by size.
std::vector<double> memcpy_seconds(int ranks, std::int64_t largest) {
  std::vector<double> medians;
  std::barrier together(ranks);
  const auto copy = [&](int rank) {
    const at::Tensor from = floats(largest), to = floats(largest);
    for (const std::int64_t bytes : sizes(largest)) {
      std::vector<double> seconds;
      for (int round = 0; round < repeats(bytes); ++round) {
        together.arrive_and_wait();
        const Stopwatch watch;
        std::memcpy(to.data_ptr(), from.data_ptr(), static_cast<std::size_t>(bytes));
        together.arrive_and_wait();
        seconds.push_back(watch.seconds());
      }
      if (rank == 0) medians.push_back(median(seconds));
    }
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(copy, rank);
  threads.clear();
  return medians;
}

int measure_as_rank(const Arguments& arguments) {
  const auto world = connect_processes(kCollectivesTimeout);
  const Json found = measure_collectives(*world, arguments.number<std::int64_t>("largest") * kMega);
  if (world->rank() == 0) write_file_synced(arguments.text("json"), found.dump());
  return 0;
}

// A rank's share of the bytes that the memory must move at least, in memcpys of the whole buffer. Sums read and write
// every buffer once; a reduce-scatter writes one slice, 1/n, only.
double memcpys(std::string_view verb, int ranks) {
  return verb == "reduce_scatter" ? 0.5 * (1 + 1.0 / ranks) : 1.0;
}

void print_run(const Json& run, const std::vector<std::int64_t>& sizes) {
  const int ranks = run["ranks"];
  fmt::print("\n{} ranks; latency of all_reduce at 1 KB:", ranks);
  for (const auto& [transport, found] : run["transports"].items())
    fmt::print(" {} {:.1f} us", transport, found["latency_us"].get<double>());
  fmt::print("\n{:<15} {:>9} {:>8}", "GB/s", "KB", "bound");
  for (const auto& [transport, found] : run["transports"].items())
    fmt::print(" {:>8} {:>7} {:>7}", transport, "/bound", "/gloo");
  fmt::print("\n");
  for (const char* verb : kVerbs)
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto rate = [&](const Json& seconds) {
        return static_cast<double>(sizes[i]) / seconds.get<double>() / 1e9;
      };
      const double bound = rate(run["memcpy_seconds"][i]) / memcpys(verb, ranks);
      const double gloo = rate(run["transports"]["gloo"]["seconds"][verb][i]);
      fmt::print("{:<15} {:>9} {:>8.2f}", verb, sizes[i] >> 10, bound);
      for (const auto& [transport, found] : run["transports"].items()) {
        const double mine = rate(found["seconds"][verb][i]);
        fmt::print(" {:>8.2f} {:>6.0f}% {:>6.1f}x", mine, 100 * mine / bound, mine / gloo);
      }
      fmt::print("\n");
    }
  std::fflush(stdout);
}

}  // namespace

Json reduce_among_threads(int ranks, std::int64_t largest) {
  Json found;
  comm::run_local_ranks(ranks, kCollectivesTimeout, [&](comm::World& world) {
    Json mine = measure_collectives(world, largest);
    if (world.rank() == 0) found = std::move(mine);
  });
  return found;
}

// This program again, as `ranks` processes; rank 0 leaves what it measured in a file.
Json reduce_among_processes(const std::string& transport, int ranks, std::int64_t largest) {
  const Path file = std::filesystem::temp_directory_path() /
                    fmt::format("trireme-bench-{}-{}.json", ::getpid(), transport);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  std::erase_if(environment,
                [](const std::string& e) { return e.starts_with(kTransportVariable); });
  environment.push_back(fmt::format("{}={}", kTransportVariable, transport));
  const elastic::Outcome outcome =
      elastic::run({.command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                "bench-collectives", "--transport", transport, "--largest",
                                std::to_string(largest / kMega), "--json", file.string()},
                    .environment = environment,
                    .ranks = ranks,
                    .on_line = [](int rank, std::string_view line) {
                      std::fputs(fmt::format("[rank {}] {}\n", rank, line).c_str(), stderr);
                    }});
  if (outcome.exit_code != 0)
    fail(ErrorKind::kPeerLost, "{} processes over {} ended with {}: {}", ranks, transport,
         outcome.exit_code, outcome.cause);
  Json found = parse_json(read_file(file), file.string());
  std::filesystem::remove(file);
  return found;
}

int bench_collectives(const Arguments& arguments) {
  if (arguments.has("transport")) return measure_as_rank(arguments);
  constexpr std::int64_t kLargest = 256 * kMega;
  const auto request = arguments.request<BenchCollectivesOptions>();
  Json report;
  report["bytes"] = sizes(kLargest);
  fmt::print(
      "fp32; GB/s = bytes of the buffer / median time; bound = bytes / (k x time of a memcpy of "
      "the "
      "buffer on every rank at once), k = 1, reduce_scatter (1 + 1/ranks) / 2\n");
  for (const int ranks : request.ranks) {
    Json run;
    run["ranks"] = ranks;
    // Processes first: they are started while this one has one thread.
    for (const char* transport : kProcessTransports)
      run["transports"][transport] = reduce_among_processes(transport, ranks, kLargest);
    run["transports"]["local"] = reduce_among_threads(ranks, kLargest);
    run["memcpy_seconds"] = memcpy_seconds(ranks, kLargest);
    print_run(run, sizes(kLargest));
    report["runs"].push_back(run);
  }
  write_json(request.json, report);
  return 0;
}

}  // namespace trireme::app
