#include "trireme/planner/hardware/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/median.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/hardware/machine.h"
#include "trireme/planner/hardware/uncertainty.h"

namespace trireme::planner {
namespace {

using plan::Verb;

Math product_math(const config::Job& job) {
  return job.precision.compute == DType::kF32 ? Math::kFp32 : Math::kHalf;
}

// A duration that is too short to measure gets a finite rate, because it must be written to a file.
double rate_of(double seconds) {
  constexpr double kLeast = 1e-18;
  return 1 / std::max(seconds, kLeast);
}

bool stepping(const plan::Instr& line) { return line.verb == Verb::kStep; }
bool norming(const plan::Instr& line) { return line.verb == Verb::kGradNorm; }
bool loading(const plan::Instr& line) { return line.verb == Verb::kLoad; }

// A probe's plan, and the sums of its lines.
struct Seen {
  const Probe* probe = nullptr;
  plan::PlanSet plan;

  double sum(bool (*of)(const plan::Instr&)) const {
    double sum = 0;
    for (std::size_t i = 0; i < probe->lines.size(); ++i)
      if (of(plan.list(0)[i])) sum += probe->lines[i];
    return sum;
  }
};

std::vector<Seen> see(const std::vector<Probe>& probes) {
  std::vector<Seen> all;
  for (const Probe& probe : probes) {
    all.push_back({.probe = &probe, .plan = Candidate(probe.job, own_practice()).plan()});
    if (all.back().plan.list(0).size() != probe.lines.size())
      fail(ErrorKind::kData, "a probe has {} lines, its plan {}; calibrate with one build",
           probe.lines.size(), all.back().plan.list(0).size());
  }
  return all;
}

// What a line's kernels come to: seconds of products, operations of attention and blocks that it begins, bytes, kernels.
struct Sums {
  double products = 0, attention = 0, begun = 0, bytes = 0, kernels = 0;
  void add(const Gpu& gpu, const std::vector<Kernel>& list) {
    for (const Kernel& kernel : list) {
      kernels += kernel.count;
      if (kernel.kind == Kernel::Kind::kGemm) products += seconds(gpu, kernel);
      if (kernel.kind == Kernel::Kind::kAttention) {
        attention += kernel.count * kernel.flops;
        begun += kernel.count * kernel.begun;
      }
      if (kernel.kind == Kernel::Kind::kStream) bytes += kernel.count * kernel.bytes;
    }
  }
};

CoreRates& rates_of(Core& core, Math math) { return math == Math::kFp32 ? core.fp32 : core.half; }

// Least squares whose first column is of products. They were also measured alone: in lines that other programs disturb they
// may seem to take no time, so they take at least half of their own, and the other columns explain the rest.
std::vector<double> fit_lines(std::vector<std::vector<double>> rows, std::vector<double> taken) {
  constexpr double kLeast = 0.5;
  std::vector<double> fit = least_squares(rows, taken);
  if (fit[0] >= kLeast) return fit;
  for (std::size_t row = 0; row < rows.size(); ++row)
    taken[row] = std::max(0.0, taken[row] - kLeast * std::exchange(rows[row][0], 0));
  fit = least_squares(rows, taken);
  fit[0] = kLeast;
  return fit;
}

// The rest of a precision's constants, and the slowdown of products among others. Lines of nodes are fitted, each
// weighted by its part of the step.
void fit_nodes(const std::vector<Seen>& probes, Math math, Gpu& gpu) {
  std::vector<std::vector<double>> rows;
  std::vector<double> taken;
  const Practice practice = own_practice();
  for (const Seen& seen : probes) {
    if (seen.probe->ranks != 1 || product_math(seen.probe->job) != math) continue;
    const model::ModelSpec model = priced_model(seen.probe->job);
    const ProgramKernels nodes(seen.probe->job, model, practice);
    const double step = seen.sum(plan::computes);
    for (std::size_t i = 0; i < seen.probe->lines.size(); ++i) {
      const plan::Instr& line = seen.plan.list(0)[i];
      if (!plan::computes(line)) continue;
      const NodeKernels node = nodes.of(seen.plan.program.nodes[line.node].name);
      Sums sums;
      if (line.verb == Verb::kForward) sums.add(gpu, node.forward);
      if (line.verb == Verb::kBackward || line.verb == Verb::kBackwardInput)
        sums.add(gpu, node.input);
      if (line.verb == Verb::kBackward || line.verb == Verb::kBackwardWeight)
        sums.add(gpu, node.weight);
      const double seconds = seen.probe->lines[i];
      const double weight = 1 / std::sqrt(seconds * step);
      rows.push_back({weight * sums.products, weight * sums.attention, weight * sums.begun,
                      weight * sums.bytes, weight * sums.kernels});
      taken.push_back(weight * seconds);
    }
  }
  if (rows.empty()) fail(ErrorKind::kData, "no steps were measured in one of the precisions");
  const std::vector<double> fit = fit_lines(std::move(rows), std::move(taken));
  CoreRates& rates = rates_of(*gpu.core, math);
  for (ProductCurve* curve : {&rates.forward, &rates.input, &rates.crosswise}) {
    curve->rate /= fit[0];
    for (double* each : {&curve->left, &curve->right, &curve->result, &curve->call_s})
      *each *= fit[0];
  }
  rates.attention = rate_of(fit[1]);
  rates.attention_s = fit[2];
  rates.memory_rate = rate_of(fit[3]);
  rates.kernel_s = fit[4];
}

// Micro-batches on all cores over those on one, of the same model.
double crowding_of(const std::vector<Seen>& probes) {
  std::map<std::string, std::pair<double, double>> pairs;
  for (const Seen& seen : probes) {
    const config::Job& job = seen.probe->job;
    auto& pair =
        pairs[fmt::format("{} {} {} {} {}", static_cast<int>(job.model.family), job.model.hidden,
                          job.model.seq_len, job.model.vocab, static_cast<int>(product_math(job)))];
    (seen.probe->ranks == 1 ? pair.first : pair.second) =
        seen.sum(plan::computes) / static_cast<double>(config::accumulation(job));
  }
  std::vector<double> ratios;
  for (const auto& [name, pair] : pairs)
    if (pair.first > 0 && pair.second > 0) ratios.push_back(pair.second / pair.first);
  return ratios.empty() ? 1 : std::max(1.0, median(ratios));
}

// Bytes a second of lines of one kind, of decoders or of those that see; `none` where no probe has them.
double rate_of_lines(const std::vector<Seen>& probes, bool (*of)(const plan::Instr&), bool decoders,
                     double none = 0) {
  double bytes = 0, seconds = 0;
  for (const Seen& seen : probes) {
    if (seen.probe->ranks != 1 || config::info(seen.probe->job).chain != decoders) continue;
    for (const plan::Instr& line : seen.plan.list(0))
      if (of(line)) bytes += simulate::moved_bytes(seen.plan, 0, line);
    seconds += seen.sum(of);
  }
  return seconds > 0 ? bytes / seconds : none;
}

// Of all cores at once, as Network has it: 2 (share of the bytes / rate + latency). Additional time on a crowded
// machine.
NetworkTier fit_tier(const Measurements& measured, const std::string& transport, double crowding) {
  std::vector<std::vector<double>> rows;
  std::vector<double> ones;
  const double ranks = measured.cores;
  for (const MeasuredCollective& one : measured.collectives) {
    if (one.transport != transport) continue;
    rows.push_back({2 * (ranks - 1) / ranks * one.bytes / one.seconds, 2 / one.seconds});
    ones.push_back(1 / crowding);
  }
  if (rows.empty()) fail(ErrorKind::kData, "no collectives over {} were measured", transport);
  const std::vector<double> fit = least_squares(rows, ones);
  return {.name = transport, .rate = rate_of(fit[0]), .latency_s = fit[1]};
}

// The value that has half of all weight below it.
double weighted_median(std::vector<std::pair<double, double>> values) {
  std::ranges::sort(values);
  double all = 0, below = 0;
  for (const auto& [value, weight] : values) all += weight;
  for (const auto& [value, weight] : values)
    if ((below += weight) >= all / 2) return value;
  return 0;
}

// Time of a step outside its lines, which short steps show best, and the error that four of five forecasts of the
// probes stay below.
void fit_steps(const std::vector<Seen>& probes, Cluster& machine) {
  std::vector<std::pair<double, double>> outside;
  for (const Seen& seen : probes)
    if (seen.probe->ranks == 1)
      outside.emplace_back(seen.probe->step_s - seen.sum([](const plan::Instr&) { return true; }),
                           1 / seen.probe->step_s);
  machine.gpu.core->step_s = std::max(0.0, weighted_median(outside));
  std::vector<double> errors;
  for (const Seen& seen : probes) {
    const double apart =
        std::log(seen.probe->step_s / forecast_step(seen.plan, seen.probe->job, machine).step_s);
    errors.push_back(std::abs(apart));
  }
  std::ranges::sort(errors);
  machine.gpu.core->spread = errors[(4 * errors.size() - 1) / 5] / kFourOfFive;
}

Math named_math(const std::string& name) {
  if (name == "fp32") return Math::kFp32;
  if (name == "bf16") return Math::kHalf;
  fail(ErrorKind::kData, "a product of type {}; needs fp32 or bf16", name);
}
Pass pass_of(const std::string& name) {
  if (name == "forward") return Pass::kForward;
  if (name == "input") return Pass::kInput;
  if (name == "weight") return Pass::kWeight;
  fail(ErrorKind::kData, "a product of pass {}; needs forward, input or weight", name);
}

}  // namespace

// Ranks share the cores, on which what travels is copied.
Practice own_practice() {
  return {.attention = AttentionKernel::kTiles,
          .adds_weight_gradients = false,
          .overlaps_context = false};
}

Practice cores_practice() {
  Practice practice = own_practice();
  practice.overlaps_reduction = practice.overlaps_shards = practice.overlaps_transfers = false;
  return practice;
}

double at_one_speed(const std::vector<double>& seconds, const std::vector<double>& pulses,
                    double usual) {
  TRIREME_CHECK(!seconds.empty() && seconds.size() == pulses.size(), "{} rounds, {} pulses",
                seconds.size(), pulses.size());
  std::vector<std::pair<double, double>> rounds;  // by their pulses
  for (std::size_t round = 0; round < seconds.size(); ++round)
    rounds.emplace_back(pulses[round], seconds[round] * usual / pulses[round]);
  std::ranges::sort(rounds);
  std::vector<double> quiet;
  for (std::size_t round = 0; round <= rounds.size() / 2; ++round)
    quiet.push_back(rounds[round].second);
  return median(std::move(quiet));
}

ProductCurve fit_products(const std::vector<MeasuredProduct>& products) {
  if (products.size() < 5)
    fail(ErrorKind::kData, "{} products were measured; a curve needs at least 5", products.size());
  std::vector<std::vector<double>> rows;
  for (const MeasuredProduct& p : products)
    rows.push_back({2 * p.m * p.n * p.k / p.seconds, p.m * p.k / p.seconds, p.k * p.n / p.seconds,
                    p.m * p.n / p.seconds, 1 / p.seconds});
  const std::vector<double> fit = least_squares(rows, std::vector<double>(rows.size(), 1));
  return {
      .rate = rate_of(fit[0]), .left = fit[1], .right = fit[2], .result = fit[3], .call_s = fit[4]};
}

Cluster fit_machine(const Measurements& measured) {
  Cluster machine{.name = "this machine", .gpu = {.name = "cpu core", .cpu = true}};
  Gpu& gpu = machine.gpu;
  gpu.core = Core{.operator_s = measured.operator_s,
                  .operator_rate = measured.operator_rate,
                  .process = measured.process,
                  .process_rank = measured.process_rank};
  gpu.efficiency.shared = 1;  // what collectives take of cores is simulated
  const std::vector<Seen> probes = see(measured.probes);
  for (const Math math : {Math::kFp32, Math::kHalf}) {
    CoreRates& rates = rates_of(*gpu.core, math);
    for (const auto& [pass, curve] :
         {std::pair(Pass::kForward, &rates.forward), std::pair(Pass::kInput, &rates.input),
          std::pair(Pass::kWeight, &rates.crosswise)}) {
      std::vector<MeasuredProduct> those;
      for (const MeasuredProduct& p : measured.products)
        if (p.math == math && p.pass == pass) those.push_back(p);
      *curve = fit_products(those);
    }
    double& peak = math == Math::kFp32 ? gpu.fp32_flops : gpu.half_flops;
    peak = rates.forward.rate;
    fit_nodes(probes, math, gpu);
    peak = rates.forward.rate;
  }
  gpu.core->update_rate = rate_of_lines(probes, stepping, true);
  gpu.core->norm_rate = rate_of_lines(probes, norming, true);
  gpu.core->load_rate = rate_of_lines(probes, loading, false, gpu.core->update_rate);
  for (const Measurements::Pulse& pulse : measured.pulses) {
    CoreRates& rates = rates_of(*gpu.core, pulse.math);
    (pulse.ranks == 1 ? rates.pulse_s : rates.crowded_pulse_s) = pulse.seconds;
  }
  gpu.memory_rate = gpu.core->update_rate;
  gpu.core->crowding = crowding_of(probes);
  machine.gpus_per_host = measured.cores;
  gpu.memory = measured.memory / measured.cores;
  if (measured.cores > 1)
    for (const char* transport : {"threads", "shm"})
      machine.tiers.push_back(fit_tier(measured, transport, gpu.core->crowding));
  fit_steps(probes, machine);
  return machine;
}

Measurements read_measurements(const Json& json, const std::string& what) {
  try {
    Measurements measured{.date = json.at("measured").get<std::string>(),
                          .cpu = json.at("cpu").get<std::string>(),
                          .build = json.at("build").get<std::string>(),
                          .cores = json.at("cores").get<int>(),
                          .memory = json.at("memory").get<std::int64_t>(),
                          .process = json.at("process").get<double>(),
                          .process_rank = json.at("process_rank").get<double>(),
                          .operator_s = json.at("operator_s").get<double>(),
                          .operator_rate = json.at("operator_rate").get<double>()};
    for (const Json& p : json.at("products"))
      measured.products.push_back({.math = named_math(p.at("type").get<std::string>()),
                                   .pass = pass_of(p.at("pass").get<std::string>()),
                                   .m = p.at("m").get<double>(),
                                   .n = p.at("n").get<double>(),
                                   .k = p.at("k").get<double>(),
                                   .seconds = p.at("seconds").get<double>()});
    for (const Json& p : json.at("probes"))
      measured.probes.push_back({.job = config::parse_job(p.at("job").get<std::string>(), what),
                                 .ranks = p.at("ranks").get<int>(),
                                 .lines = p.at("lines").get<std::vector<double>>(),
                                 .step_s = p.at("step_s").get<double>()});
    for (const Json& p : json.value("pulses", Json::array()))
      measured.pulses.push_back({.math = named_math(p.at("type").get<std::string>()),
                                 .ranks = p.at("ranks").get<int>(),
                                 .seconds = p.at("seconds").get<double>()});
    for (const Json& c : json.at("collectives"))
      measured.collectives.push_back({.transport = c.at("transport").get<std::string>(),
                                      .bytes = c.at("bytes").get<double>(),
                                      .seconds = c.at("seconds").get<double>()});
    return measured;
  } catch (const Json::exception& error) {
    fail(ErrorKind::kData, "{}: no measurements of a machine: {}", what, error.what());
  }
}

}  // namespace trireme::planner
