// trireme-worker bench-calibrate: products of many shapes, steps of small models and sums among all cores, timed for
// the planner (planner/hardware/calibrate.h).
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "apps/worker/memory/memory.h"
#include "apps/worker/memory/process_memory.h"
#include "apps/worker/subcommands.h"
#include "bench_ranks.h"
#include "pulse.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/model/blocks/families.h"
#include "trireme/ops/matrix_product.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/planner/hardware/calibrate.h"
#include "trireme/train/job_session.h"
#include "trireme/train/run/samples.h"

namespace trireme::app {
namespace {

constexpr double kTimeout = 600;
constexpr std::size_t kMost = 25;  // repetitions of a product in a round

struct Shape {
  std::int64_t rows, in, out;
};
// Tokens and widths of small models and of the shares that tensor parallelism leaves. The first has few rows, as chunks
// of clips do: what its operands take to pack dominates. A brief measurement takes the first.
constexpr Shape kShapes[] = {{32, 192, 768},   {128, 256, 256},  {512, 256, 768},  {1024, 512, 512},
                             {1024, 128, 96},  {256, 640, 2560}, {1024, 640, 160}, {2048, 256, 64},
                             {256, 128, 512},  {512, 512, 2048}, {2048, 320, 960}, {512, 2048, 512},
                             {4096, 192, 576}, {1024, 512, 4096}};

struct ProbeSize {
  std::int64_t layers, hidden, heads, seq_len, micro_batch, vocab;
  int steps = 2;  // in a round
};
// The second and third compute attention separately for every few tokens. The third is so small that the start of its
// kernels takes most of the time; in the fourth the scores of attention do. A brief measurement takes the first.
constexpr ProbeSize kProbes[] = {{2, 256, 4, 128, 4, 1024}, {2, 128, 4, 16, 32, 64, 8},
                                 {2, 32, 2, 16, 1, 64, 16}, {1, 64, 2, 512, 1, 64, 4},
                                 {2, 128, 2, 256, 8, 256},  {1, 512, 8, 256, 4, 512},
                                 {2, 256, 4, 1024, 1, 512}, {1, 640, 10, 512, 1, 2048}};

// Scope of a measurement. All measurements run in rounds, so that changes of the machine's speed can be separated from
// them.
struct Effort {
  int rounds = 5;
  double enough = 0.025;  // seconds for one product in a round
  std::size_t fewest = 3;
  bool pulse_each = true;  // one with each product; else one for all of a round
  std::size_t shapes = std::size(kShapes);
  std::size_t probes = std::size(kProbes),
              crowded = std::size(kProbes);  // on one rank, on all cores
};
constexpr Effort kThorough;
constexpr Effort kBrief{.rounds = 3,
                        .enough = 0.002,
                        .fewest = 1,
                        .pulse_each = false,
                        .shapes = 9,
                        .probes = 4,
                        .crowded = 1};

// The lower quartile: what disturbs a measurement only adds to it.
double undisturbed(std::vector<double> seconds) {
  const auto quarter = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 4);
  std::nth_element(seconds.begin(), quarter, seconds.end());
  return *quarter;
}

double time_of(const std::function<void()>& body, const Effort& effort) {
  body();
  std::vector<double> seconds;
  const Stopwatch all;
  while (seconds.size() < effort.fewest ||
         (all.seconds() < effort.enough && seconds.size() < kMost)) {
    const Stopwatch watch;
    body();
    seconds.push_back(watch.seconds());
  }
  return undisturbed(std::move(seconds));
}

// As layers multiply: forward, to what they read, to their weights.
void measure_sizes(DType type, const Effort& effort, Json& products) {
  const auto options = at::TensorOptions().dtype(comm::scalar_type(type));
  const Pulse pulse(type);
  const double first_pulse = pulse.seconds();
  const auto add = [&](const char* pass, std::int64_t m, std::int64_t n, std::int64_t k,
                       double seconds) {
    products.push_back({{"type", name(type)},
                        {"pass", pass},
                        {"m", m},
                        {"n", n},
                        {"k", k},
                        {"ranks", 1},
                        {"pulse", effort.pulse_each ? pulse.seconds() : first_pulse},
                        {"seconds", seconds}});
  };
  for (const Shape& s : std::span(kShapes).first(effort.shapes)) {
    const at::Tensor x = at::randn({s.rows, s.in}, options),
                     dy = at::randn({s.rows, s.out}, options);
    at::Tensor weight = at::randn({s.out, s.in}, options).requires_grad_(true);
    weight.mutable_grad() = at::zeros({s.out, s.in}, at::kFloat);
    const at::NoGradGuard none;
    add("forward", s.rows, s.out, s.in, time_of([&] { ops::product(x, weight.t()); }, effort));
    add("input", s.rows, s.in, s.out, time_of([&] { ops::product(dy, weight); }, effort));
    add("weight", s.out, s.in, s.rows,
        time_of([&] { ops::weight_gradient(dy, x, weight); }, effort));
  }
}

constexpr int kMicroBatches = 2;  // of a rank

config::Job probe_job(const ProbeSize& size, DType compute, int ranks) {
  config::Job job;
  job.model.layers = size.layers;
  job.model.hidden = size.hidden;
  job.model.heads = size.heads;
  job.model.seq_len = size.seq_len;
  job.model.vocab = size.vocab;
  job.precision.compute = compute;
  job.run.micro_batch = size.micro_batch;
  job.run.global_batch = size.micro_batch * kMicroBatches * ranks;
  return config::resolve(job, ranks, {});
}

// A vision transformer of synthetic pictures, 16 tokens each.
config::Job seeing_job(DType compute) {
  config::Job job;
  config::apply_set(job, "model.family=vit");
  job.vision = {.image = 64, .patch = 16, .layers = 2, .hidden = 128, .heads = 4};
  job.data.source = config::DataSource::kStripes;
  job.precision.compute = compute;
  job.run.micro_batch = 16;
  job.run.global_batch = 16 * kMicroBatches;
  return config::resolve(job, 1, config::synthetic_source(job.data.source)->facts);
}

// Every line of rank 0 and the step.
Json measure_probe(const config::Job& job, int ranks, int count) {
  constexpr int kWarm = 1;
  Json probe;
  comm::run_local_ranks(ranks, kTimeout, [&](comm::World& world) {
    const ChargeAnew charge;
    at::set_num_threads(1);
    train::JobSession session(job, world);
    const train::JobSession::Load load = train::load_of(job, job.run.micro_batch);
    std::vector<std::vector<double>> lines(session.session().plan().list(world.rank()).size());
    std::vector<double> steps, pulses;
    const Pulse pulse(job.precision.compute);
    world.exchange("ready");
    pulses.push_back(pulse.seconds());  // not between steps, whose caches it would take
    for (int step = 0; step < kWarm + count; ++step) {
      std::vector<exec::LineTime> times;
      const Stopwatch watch;
      session.train(step, false, load, nullptr, &times);
      const double seconds = watch.seconds();
      if (step < kWarm) continue;
      steps.push_back(seconds);
      for (std::size_t i = 0; i < lines.size(); ++i)
        lines[i].push_back(times[i].end - times[i].start);
    }
    if (world.rank() != 0) return;
    pulses.push_back(pulse.seconds());
    probe = {{"job", config::print_yaml(job)},
             {"type", name(job.precision.compute)},
             {"ranks", ranks},
             {"pulse", std::accumulate(pulses.begin(), pulses.end(), 0.0) /
                           static_cast<double>(pulses.size())},
             {"step_s", undisturbed(steps)}};
    for (const std::vector<double>& line : lines) probe["lines"].push_back(undisturbed(line));
  });
  return probe;
}

// Without what a fit can do without, if `hurried` says that time is running out.
Json measure_round(int cores, const Effort& effort, const std::function<bool()>& hurried) {
  constexpr int kSeeingSteps = 6;
  Json round{{"products", Json::array()}, {"probes", Json::array()}};
  for (const DType type : {DType::kF32, DType::kBF16}) {
    measure_sizes(type, effort, round["products"]);
    const auto probe = [&](const ProbeSize& size, int ranks) {
      round["probes"].push_back(measure_probe(probe_job(size, type, ranks), ranks, size.steps));
    };
    for (const ProbeSize& size : std::span(kProbes).first(effort.probes)) probe(size, 1);
    const config::Job seeing = seeing_job(type);
    if (blocks::is_built(seeing.model.family))
      round["probes"].push_back(measure_probe(seeing, 1, kSeeingSteps));
    if (cores == 1 || hurried()) continue;
    for (const ProbeSize& size : std::span(kProbes).first(effort.crowded)) probe(size, cores);
  }
  return round;
}

// Pulses of one type with so many ranks, of all rounds.
using Pulses = std::map<std::pair<std::string, int>, std::vector<double>>;

std::pair<std::string, int> kind_of(const Json& measured) {
  return {measured["type"].get<std::string>(), measured["ranks"].get<int>()};
}

Pulses pulses_of(const std::vector<Json>& rounds) {
  Pulses pulses;
  for (const Json& round : rounds)
    for (const char* list : {"products", "probes"})
      for (const Json& one : round[list])
        pulses[kind_of(one)].push_back(one["pulse"].get<double>());
  return pulses;
}

// One round of what all rounds say, at the speed of a pulse that little disturbed.
Json settled(const std::vector<Json>& rounds, const Pulses& pulses) {
  Json all = rounds[0];
  const auto settle = [&](const std::string& of, const std::string& value) {
    std::vector<double> seconds, around;
    for (const Json& round : rounds) {
      seconds.push_back(round.at(Json::json_pointer(of + value)).get<double>());
      around.push_back(round.at(Json::json_pointer(of + "/pulse")).get<double>());
    }
    const double usual = undisturbed(pulses.at(kind_of(all.at(Json::json_pointer(of)))));
    all[Json::json_pointer(of + value)] = planner::at_one_speed(seconds, around, usual);
  };
  for (std::size_t i = 0; i < all["products"].size(); ++i)
    settle(fmt::format("/products/{}", i), "/seconds");
  for (std::size_t i = 0; i < all["probes"].size(); ++i) {
    const std::string probe = fmt::format("/probes/{}", i);
    settle(probe, "/step_s");
    for (std::size_t line = 0; line < all["probes"][i]["lines"].size(); ++line)
      settle(probe, fmt::format("/lines/{}", line));
  }
  all["pulses"] = Json::array();
  for (const auto& [kind, seconds] : pulses)
    all["pulses"].push_back(
        {{"type", kind.first}, {"ranks", kind.second}, {"seconds", undisturbed(seconds)}});
  return all;
}

// Of the slower tenth of pulses over the faster one, where that is most.
double speed_range(const Pulses& pulses) {
  double most = 1;
  for (auto [kind, seconds] : pulses) {
    std::ranges::sort(seconds);
    most = std::max(most, seconds[seconds.size() * 9 / 10] / seconds[seconds.size() / 10]);
  }
  return most;
}

void add_collectives(const char* transport, const Json& found, Json& collectives) {
  constexpr std::size_t kSizes[] = {0, 2, 4};  // 64 KB, 1 MB, 16 MB
  for (const std::size_t i : kSizes)
    if (i < found["seconds"]["all_reduce"].size())
      collectives.push_back({{"transport", transport},
                             {"bytes", (64 << 10) << (2 * i)},
                             {"seconds", found["seconds"]["all_reduce"][i]}});
  collectives.push_back({{"transport", transport},
                         {"bytes", 1024},
                         {"seconds", 1e-6 * found["latency_us"].get<double>()}});
}

}  // namespace

namespace {

struct Operators {
  double seconds = 0;  // of one on a few numbers
  double rate = 0;     // bytes a second of those on many, in a core's own cache
};

// Comparisons, elementwise operators, gathers and sums of LibTorch, as blocks without kernels of their own call them, with
// gradients to come.
Operators measure_operators() {
  constexpr std::int64_t kFew = 256, kMany = 64 << 10, kWidth = 16;
  constexpr int kTimes = 40, kCalls = 6;
  const auto seconds_of = [](std::int64_t numbers) {
    const at::Tensor x = at::randn({numbers / kWidth, kWidth}).requires_grad_(true);
    const at::Tensor rows = at::arange(numbers / kWidth);
    std::vector<double> seconds;
    for (int time = 0; time < kTimes; ++time) {
      const Stopwatch watch;
      const at::Tensor y = at::where(x > 0, x * x / 2, x).index_select(0, rows).sum(1, true);
      seconds.push_back(watch.seconds() / kCalls);
    }
    return undisturbed(std::move(seconds));
  };
  const double few = seconds_of(kFew), many = seconds_of(kMany);
  const double moved = 2.0 * sizeof(float) * static_cast<double>(kMany - kFew);
  return {.seconds = few, .rate = moved / std::max(many - few, 1e-9)};
}

// Sums among all cores. Processes first: they are started while this one has one thread.
Json measure_collectives(int cores) {
  constexpr std::int64_t kLargest = 16 << 20;
  Json collectives = Json::array();
  add_collectives("shm", reduce_among_processes("shm", cores, kLargest), collectives);
  add_collectives("threads", reduce_among_threads(cores, kLargest), collectives);
  return collectives;
}

// Of threads alone; processes, which would have to be started, copy in memory as well and are taken to be as fast.
Json measure_collectives_briefly(int cores) {
  constexpr std::int64_t kLargest = 1 << 20;
  const Json found = reduce_among_threads(cores, kLargest);
  Json collectives = Json::array();
  for (const char* transport : {"shm", "threads"}) add_collectives(transport, found, collectives);
  return collectives;
}

}  // namespace

int bench_calibrate(const Arguments& arguments) {
  const Stopwatch watch;
  const int cores = arguments.number<int>("cores");
  const double limit = arguments.number<double>("seconds", 0);
  const bool brief = limit > 0;
  const Effort& effort = brief ? kBrief : kThorough;
  at::set_num_threads(1);
  const ProcessMemory memory = measure_process_memory();
  const auto say = [&](const std::string& what) {
    if (brief) return;
    fmt::print("measuring {}\n", what);
    std::fflush(stdout);
  };
  const Operators small = measure_operators();
  Json collectives = Json::array();
  if (cores > 1) {
    say("sums among all cores");
    collectives = brief ? measure_collectives_briefly(cores) : measure_collectives(cores);
  }
  std::vector<Json> rounds;
  double slowest = 0;  // of rounds
  // Without steps on all cores a forecast takes them to be as fast as steps on one.
  constexpr double kLate = 0.85;
  for (int round = 0; round < effort.rounds; ++round) {
    if (brief && round > 0 && watch.seconds() + slowest > limit) break;
    say(fmt::format("products of matrices and steps of small models, round {} of {}", round + 1,
                    effort.rounds));
    const Stopwatch own;
    const bool first = rounds.empty();
    rounds.push_back(measure_round(
        cores, effort, [&] { return brief && first && watch.seconds() > kLate * limit; }));
    slowest = std::max(slowest, own.seconds());
  }
  const Pulses pulses = pulses_of(rounds);
  if (!brief)
    fmt::print("the machine's own speed was within {:.0f} % of itself in eight of ten pulses\n",
               100 * (speed_range(pulses) - 1));
  Json measured = settled(rounds, pulses);
  measured["cores"] = cores;
  measured["collectives"] = std::move(collectives);
  measured["process"] = memory.process;
  measured["process_rank"] = memory.process_rank;
  measured["operator_s"] = small.seconds;
  measured["operator_rate"] = small.rate;
  std::ofstream(arguments.text("json")) << measured.dump();
  return 0;
}

}  // namespace trireme::app
