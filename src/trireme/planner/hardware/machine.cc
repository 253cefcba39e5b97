#include "trireme/planner/hardware/machine.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/base/most_held.h"
#include "trireme/config/families.h"
#include "trireme/model/layout.h"
#include "trireme/plan/memory.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/cost/expected_memory.h"
#include "trireme/planner/cost/expected_share.h"
#include "trireme/planner/cost/pricing.h"
#include "trireme/planner/hardware/calibrate.h"
#include "trireme/planner/hardware/uncertainty.h"

namespace trireme::planner {
namespace {

constexpr char kHow[] = "trireme bench calibrate";

// Tensors take so many times their bytes, as not all fit into what others have left: docs/performance.md, Memory of a process.
constexpr double kWithGaps = 1.05;
// Half of the last huge page.
constexpr double kLastPage = 1 << 20;
// Products of oneDNN pack their operands in buffers of 2.2 MB from malloc: each finds the space of one before, or not.
constexpr double kPacked = 1.5 * 2.2e6;

// Numbers by name, as text and back.
using Fields = std::vector<std::pair<const char*, double*>>;

Fields fields(ProductCurve& curve) {
  return {{"rate", &curve.rate},
          {"left", &curve.left},
          {"right", &curve.right},
          {"result", &curve.result},
          {"call_s", &curve.call_s}};
}
Fields fields(CoreRates& rates) {
  return {{"attention", &rates.attention},     {"attention_s", &rates.attention_s},
          {"memory_rate", &rates.memory_rate}, {"kernel_s", &rates.kernel_s},
          {"pulse_s", &rates.pulse_s},         {"crowded_pulse_s", &rates.crowded_pulse_s}};
}
Fields fields(Core& core) {
  return {{"update_rate", &core.update_rate},     {"norm_rate", &core.norm_rate},
          {"load_rate", &core.load_rate},         {"operator_s", &core.operator_s},
          {"operator_rate", &core.operator_rate}, {"step_s", &core.step_s},
          {"crowding", &core.crowding},           {"process", &core.process},
          {"process_rank", &core.process_rank},   {"spread", &core.spread}};
}
Fields fields(NetworkTier& tier) {
  return {{"rate", &tier.rate}, {"latency_s", &tier.latency_s}, {"efficiency", &tier.efficiency}};
}

// Walks all that is kept, with a visitor of (object of json, fields).
template <typename Visit>
void visit(Json& json, Cluster& machine, const Visit& each) {
  Core& core = *machine.gpu.core;
  each(json["core"], fields(core));
  for (const auto& [name, rates] :
       {std::pair<const char*, CoreRates*>{"fp32", &core.fp32}, {"half", &core.half}}) {
    each(json["core"][name], fields(*rates));
    each(json["core"][name]["forward"], fields(rates->forward));
    each(json["core"][name]["input_gradients"], fields(rates->input));
    each(json["core"][name]["weight_gradients"], fields(rates->crosswise));
  }
  for (NetworkTier& tier : machine.tiers) each(json["tiers"][tier.name], fields(tier));
}

// Rate of one core in LibTorch at sizes of models that train on CPUs: round numbers for Zen 3 to 5 and Sapphire Rapids.
// bf16 is widened if the CPU has no unit for it.
simulate::CostModel cost_model(MatrixUnit unit) {
  struct Rates {
    double fp32, half;
  };
  const Rates rates = [unit]() -> Rates {
    switch (unit) {
      case MatrixUnit::kOther: return {0.02e12, 0.01e12};
      case MatrixUnit::kAvx2: return {0.065e12, 0.038e12};
      case MatrixUnit::kAvx512: return {0.1e12, 0.06e12};
      case MatrixUnit::kAvx512Bf16: return {0.15e12, 0.3e12};
      case MatrixUnit::kAmx: return {0.15e12, 0.9e12};
    }
    TRIREME_CHECK(false, "unit {}", static_cast<int>(unit));
  }();
  return {.fp64_flops = rates.fp32 / 2, .fp32_flops = rates.fp32, .half_flops = rates.half};
}

// Bytes that a rank's tensors take of its process, with the copy of them that checkpoints are written from. Where rows vary,
// gaps take all that the arena allows.
double tensor_bytes(const plan::PlanSet& plan, const config::Job& job, int rank) {
  const auto all = static_cast<std::size_t>(plan::memory_account(plan, rank).peak_of_tensors() +
                                            samples_ahead(plan, job, rank));
  const auto copied = static_cast<double>(snapshot_bytes(plan, job, rank));
  return copied + (ExpectedShare(job).varies() ? static_cast<double>(most_held(all))
                                               : kWithGaps * static_cast<double>(all) + kLastPage);
}

double process_bytes(const plan::PlanSet& plan, const config::Job& job, const Core& core,
                     bool threads) {
  const int ranks = threads ? plan.mesh.world() : 1;
  const plan::PlanSet fullest = with_fullest_rows(plan, job);
  double sum = outside_tensors(core, ranks);
  for (int rank = 0; rank < ranks; ++rank) sum += tensor_bytes(fullest, job, rank);
  return sum;
}

// Of each of its hosts.
int ranks_here(const Cluster& machine, int world) {
  return (world + machine.hosts - 1) / machine.hosts;
}

Cluster with_ranks(Cluster machine, int world, std::string_view transport) {
  const NetworkTier between = machine.links ? machine.tiers.back() : NetworkTier{};
  const int here = ranks_here(machine, world);
  machine.gpus_per_host = machine.links ? here : std::max(machine.gpus_per_host, here);
  std::erase_if(machine.tiers, [&](const NetworkTier& tier) { return tier.name != transport; });
  // One core has no collectives to measure, and its ranks take turns at them.
  if (machine.tiers.empty())
    machine.tiers.push_back(
        {.name = std::string(transport), .rate = machine.gpu.core->update_rate});
  if (!machine.links) return machine;
  if (here == 1) machine.tiers.clear();
  if (here > 1) machine.tiers.back().span = here;
  machine.tiers.push_back(between);
  return machine;
}

}  // namespace

std::string processor_of(std::string_view cpuinfo, int cores) {
  std::string text;
  for (const std::string_view key :
       {"model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part",
        "CPU variant", "uarch", "flags", "Features", "isa"})
    for (std::size_t at = 0; at < cpuinfo.size();) {
      const std::size_t end = std::min(cpuinfo.find('\n', at), cpuinfo.size());
      const std::string_view line = cpuinfo.substr(at, end - at);
      at = end + 1;
      const std::size_t colon = line.find(':');
      if (colon == line.npos || line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != key)
        continue;
      const std::string_view value =
          line.substr(std::min(line.find_first_not_of(" \t", colon + 1), line.size()));
      const bool list = key == "flags" || key == "Features" || key == "isa";
      text += key == "model name" ? fmt::format("{}, ", value)
              : list              ? fmt::format("{} {:08x}, ", key, hash64(value) >> 32)
                                  : fmt::format("{} {}, ", key, value);
      break;  // the first core represents all
    }
  return fmt::format("{}{} core{}", text.empty() ? "unnamed, " : text, cores,
                     cores == 1 ? "" : "s");
}

std::string print_calibration(const Calibration& calibration) {
  Json json{{"calibrated", calibration.date},
            {"cpu", calibration.cpu},
            {"build", calibration.build},
            {"brief", calibration.brief},
            {"cores", calibration.machine.gpus_per_host},
            {"memory", calibration.machine.gpu.memory * calibration.machine.gpus_per_host}};
  Cluster machine = calibration.machine;
  visit(json, machine, [](Json& object, const Fields& fields) {
    for (const auto& [name, value] : fields) object[name] = *value;
  });
  return json.dump(2) + "\n";
}

bool is_calibration(std::string_view text) {
  return text.starts_with('{') && text.find("\"calibrated\"") != text.npos;
}

Calibration parse_calibration(std::string_view text, const std::string& what) {
  Json json = parse_json(text, what);
  try {
    Calibration calibration{.date = json.at("calibrated").get<std::string>(),
                            .cpu = json.at("cpu").get<std::string>(),
                            .build = json.at("build").get<std::string>()};
    calibration.brief = json.value("brief", false);
    Cluster& machine = calibration.machine;
    machine.name = "this machine";
    machine.gpu.name = "cpu core";
    machine.gpu.cpu = true;
    machine.gpu.core.emplace();
    machine.gpu.efficiency.shared = 1;
    machine.gpus_per_host = json.at("cores").get<int>();
    constexpr int kMost = 1024;
    if (machine.gpus_per_host < 1 || machine.gpus_per_host > kMost)
      fail(ErrorKind::kData, "{}: {} cores, which needs to be 1 to {}; calibrate again: {}", what,
           machine.gpus_per_host, kMost, kHow);
    machine.gpu.memory = json.at("memory").get<std::int64_t>() / machine.gpus_per_host;
    if (machine.gpu.memory <= 0)
      fail(ErrorKind::kData, "{}: a core has {} bytes of memory; calibrate again: {}", what,
           machine.gpu.memory, kHow);
    if (json.contains("tiers"))
      for (const auto& [name, tier] : json["tiers"].items())
        machine.tiers.push_back({.name = name});
    visit(json, machine, [&](const Json& object, const Fields& fields) {
      for (const auto& [name, value] : fields) {
        *value = object.at(name).get<double>();
        const bool divides =
            std::string_view(name).ends_with("rate") || std::string_view(name) == "attention";
        if (!std::isfinite(*value) || *value < 0 || (divides && *value == 0))
          fail(ErrorKind::kData, "{}: {} is {}; calibrate again: {}", what, name, *value, kHow);
      }
    });
    machine.gpu.fp32_flops = machine.gpu.core->fp32.forward.rate;
    machine.gpu.half_flops = machine.gpu.core->half.forward.rate;
    machine.gpu.memory_rate = machine.gpu.core->update_rate;
    return calibration;
  } catch (const Json::exception& error) {
    fail(ErrorKind::kData, "{}: no calibration: {}; make one: {}", what, error.what(), kHow);
  }
}

std::string unforeseen(const config::Job& job) {
  if (job.run.device != config::Device::kCpu) return "run.device is not a CPU";
  const DType compute = job.precision.compute;
  if (compute != DType::kF32 && compute != DType::kBF16)
    return std::string("precision.compute=") + std::string(name(compute)) + " is not calibrated";
  if (job.offload.uses(Tier::kHost) || job.offload.uses(Tier::kNvme))
    return "offloading is not calibrated";
  if (job.lora.rank > 0) return "adapters are not calibrated";
  return "";
}

StepForecast forecast_on(const plan::PlanSet& plan, const config::Job& job,
                         const Practice& practice, const Cluster& cluster) {
  if (cluster.gpu.core) return forecast_step(plan, job, cluster);
  const model::ModelSpec model = priced_model(job);
  const Pricing pricing(job, model, practice, cluster);
  StepForecast forecast{.lines = simulate::simulate(plan, line_cost(plan, pricing)),
                        .source = "by cluster " + cluster.name};
  forecast.step_s = forecast.lines.step_s;
  return forecast;
}

double outside_tensors(const Core& core, int ranks) {
  return core.process + (ranks - 1) * core.process_rank + ranks * kPacked;
}

double on_cores(const Cluster& machine, int ranks, double seconds) {
  if (!machine.gpu.core) return seconds;
  const Core& core = *machine.gpu.core;
  const simulate::Cores cores{.count = machine.gpus_per_host, .crowding = core.crowding};
  return (seconds + core.step_s) / cores.speed(ranks_here(machine, ranks));
}

StepForecast forecast_step(const plan::PlanSet& plan, const config::Job& job,
                           const Cluster& machine, RanksAs ranks) {
  const bool threads = ranks == RanksAs::kThreads;
  TRIREME_CHECK(machine.gpu.core.has_value(), "{} has no core", machine.name);
  const Core& core = *machine.gpu.core;
  const Cluster spread = with_ranks(machine, plan.mesh.world(), threads ? "threads" : "shm");
  const Practice practice = own_practice();
  const model::ModelSpec model = priced_model(job);
  const Pricing pricing(job, model, practice, spread);
  const auto cost = [&](int rank, const plan::Instr& line) {
    // What nodes were measured to cost in the very job stays.
    if (line.node >= 0 && plan.program.nodes[line.node].seconds)
      return simulate::seconds(simulate::CostModel{}, plan, rank, line);
    return pricing.line(plan, rank, line);
  };
  StepForecast forecast{
      .lines = simulate::simulate(
          plan, cost, {.count = machine.gpus_per_host * machine.hosts, .crowding = core.crowding})};
  // Every rank has it, on the cores there are.
  const simulate::Cores cores{.count = machine.gpus_per_host, .crowding = core.crowding};
  forecast.step_s =
      forecast.lines.step_s + core.step_s / cores.speed(ranks_here(machine, plan.mesh.world()));
  const double apart = std::exp(kFourOfFive * core.spread);
  Band around{.low = forecast.step_s / apart, .high = forecast.step_s * apart};
  if (!config::info(job).chain) around = wider(around);  // none is measured
  forecast.low_s = around.low;
  forecast.high_s = around.high;
  forecast.process_bytes = process_bytes(plan, job, core, threads);
  return forecast;
}

StepForecast forecast_step(const plan::PlanSet& plan, const config::Job& job,
                           const Calibration& calibration, RanksAs ranks) {
  StepForecast forecast = forecast_step(plan, job, calibration.machine, ranks);
  forecast.source = fmt::format("by the {}calibration of {}", calibration.brief ? "brief " : "",
                                calibration.date);
  return forecast;
}

StepForecast no_forecast(const plan::PlanSet& plan, const std::string& why) {
  return {.lines = simulate::simulate(plan, simulate::CostModel{}), .source = "none: " + why};
}

StepForecast uncalibrated_step(const plan::PlanSet& plan, const std::string& why, MatrixUnit unit) {
  simulate::CostModel model = cost_model(unit);
  StepForecast forecast{.lines = simulate::simulate(plan, model), .source = "uncalibrated: " + why};
  forecast.step_s = forecast.lines.step_s;
  return forecast;
}

StepForecast expected_step(const plan::PlanSet& plan, const config::Job& job,
                           const std::optional<Calibration>& calibration,
                           const std::string& missing, RanksAs ranks) {
  if (job.run.device == config::Device::kCuda)
    return no_forecast(plan, "run.device=cuda; on GPUs: trireme explain --cluster NAME");
  return calibration ? forecast_step(plan, job, *calibration, ranks)
                     : uncalibrated_step(plan, missing);
}

}  // namespace trireme::planner
