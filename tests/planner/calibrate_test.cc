#include "trireme/planner/hardware/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/harness/scratch_directory.h"
#include "tests/planner/cards.h"
#include "tests/planner/synthetic_machine.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/plan/memory.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::planner::calibrate_test {
namespace {

// Buffers of a rank's products, half a huge page, and what a process of one rank holds besides its tensors.
constexpr double kPacked = 3.3e6, kLastPage = 1 << 20, kProcess = 190e6 + kPacked;

config::Job job_of(int ranks, const std::vector<std::string>& sets = {}) {
  config::Job job;
  job.model = {.layers = 2, .hidden = 256, .heads = 4, .vocab = 512, .seq_len = 128};
  job.run.micro_batch = 4;
  job.run.global_batch = 16;
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, ranks, {});
}

plan::PlanSet plan_of(const config::Job& job) { return Candidate(job, own_practice()).plan(); }

TEST(LeastSquares, KeepsConstantsFromFallingBelowZero) {
  // x + 2y = 5, x - y = -1 has the solution 1, 2.
  EXPECT_THAT(least_squares({{1, 2}, {1, -1}}, {5, -1}),
              testing::ElementsAre(testing::DoubleNear(1, 1e-9), testing::DoubleNear(2, 1e-9)));
  // With y = -1 as the free solution, y stays 0 and x is the projection: (1*1 + 2*1)/(1 + 4).
  EXPECT_THAT(least_squares({{1, 0}, {2, 1}}, {1, 1}),
              testing::ElementsAre(testing::DoubleNear(0.6, 1e-9), 0.0));
}

TEST(Calibrate, FindsTheCurveThatProductsLieOn) {
  const ProductCurve curve = synthetic_calibration().machine.gpu.core->half.crosswise;
  std::vector<MeasuredProduct> products;
  for (const double m : {64, 256, 1024})
    for (const double n : {96, 512})
      for (const double k : {128, 2048})
        products.push_back({.m = m, .n = n, .k = k, .seconds = seconds(curve, m, n, k)});
  const ProductCurve found = fit_products(products);
  EXPECT_NEAR(found.rate / curve.rate, 1, 1e-6);
  EXPECT_NEAR(found.left / curve.left, 1, 1e-4);
  EXPECT_NEAR(found.right / curve.right, 1, 1e-4);
  EXPECT_NEAR(found.result / curve.result, 1, 1e-4);
  EXPECT_NEAR(found.call_s / curve.call_s, 1, 1e-3);
  products.resize(4);
  EXPECT_THROW(fit_products(products), Error);
}

// Lines and steps as the machine would take them.
Probe probe_of(const config::Job& job, int ranks, const Cluster& machine) {
  const plan::PlanSet plan = plan_of(job);
  const StepForecast forecast = forecast_step(plan, job, machine);
  Probe probe{.job = job, .ranks = ranks, .step_s = forecast.step_s};
  for (const simulate::LineTime& line : forecast.lines.lists[0].lines)
    probe.lines.push_back(line.end - line.start);
  return probe;
}

// Of pictures of 16 tokens.
config::Job seeing(const std::string& compute) {
  config::Job job;
  job.model.family = config::Family::kVit;
  job.vision = {.image = 64, .patch = 16, .layers = 2, .hidden = 128, .heads = 4};
  job.data.source = config::DataSource::kStripes;
  job.run.micro_batch = 4;
  job.run.global_batch = 16;
  config::apply_set(job, compute);
  return config::resolve(job, 1, config::synthetic_source(job.data.source)->facts);
}

Measurements measurements_of(const Cluster& machine) {
  Measurements measured{.cores = 2, .memory = std::int64_t{8} << 30, .process = 190e6};
  measured.operator_s = machine.gpu.core->operator_s;
  measured.operator_rate = machine.gpu.core->operator_rate;
  const Core& core = *machine.gpu.core;
  for (const Math math : {Math::kFp32, Math::kHalf})
    for (const Pass pass : {Pass::kForward, Pass::kInput, Pass::kWeight})
      for (const double m : {64, 256, 1024})
        for (const double n : {96, 512})
          for (const double k : {128, 2048}) {
            const CoreRates& rates = math == Math::kFp32 ? core.fp32 : core.half;
            measured.products.push_back(
                {.math = math,
                 .pass = pass,
                 .m = m,
                 .n = n,
                 .k = k,
                 .seconds = seconds(pass == Pass::kForward ? rates.forward
                                    : pass == Pass::kInput ? rates.input
                                                           : rates.crosswise,
                                    m, n, k)});
          }
  for (const char* type : {"fp32", "bf16"}) {
    const std::string compute = std::string("precision.compute=") + type;
    for (const char* shape :
         {"model.hidden=128", "model.seq_len=512", "model.vocab=4096", "model.seq_len=16"})
      for (const int ranks : {1, 2})
        measured.probes.push_back(probe_of(job_of(ranks, {shape, compute}), ranks, machine));
    measured.probes.push_back(probe_of(seeing(compute), 1, machine));
    const CoreRates& rates = type == std::string("fp32") ? core.fp32 : core.half;
    const Math math = type == std::string("fp32") ? Math::kFp32 : Math::kHalf;
    measured.pulses.push_back({.math = math, .ranks = 1, .seconds = rates.pulse_s});
    measured.pulses.push_back({.math = math, .ranks = 2, .seconds = rates.crowded_pulse_s});
  }
  for (const NetworkTier& tier : machine.tiers)
    for (const double bytes : {1024.0, 1048576.0, 16777216.0})
      measured.collectives.push_back(
          {.transport = tier.name,
           .bytes = bytes,
           .seconds = 2 * (bytes / 2 / tier.rate + tier.latency_s) * core.crowding});
  return measured;
}

TEST(Calibrate, FindsTheMachineThatMeasurementsComeFrom) {
  const Cluster machine = synthetic_calibration().machine;
  const Cluster found = fit_machine(measurements_of(machine));
  const Core &a = *machine.gpu.core, &b = *found.gpu.core;
  EXPECT_NEAR(b.fp32.forward.rate / a.fp32.forward.rate, 1, 1e-3);
  EXPECT_NEAR(b.half.crosswise.rate / a.half.crosswise.rate, 1, 1e-3);
  EXPECT_NEAR(b.half.attention / a.half.attention, 1, 1e-2);
  EXPECT_NEAR(b.half.attention_s / a.half.attention_s, 1, 1e-2);
  EXPECT_NEAR(b.fp32.memory_rate / a.fp32.memory_rate, 1, 1e-2);
  EXPECT_NEAR(b.crowding, a.crowding, 0.01);  // sums run beside backwards
  EXPECT_NEAR(b.update_rate / a.update_rate, 1, 1e-3);
  EXPECT_NEAR(b.norm_rate / a.norm_rate, 1, 1e-3);
  EXPECT_NEAR(b.load_rate / a.load_rate, 1, 1e-3);
  EXPECT_EQ(b.half.crowded_pulse_s, a.half.crowded_pulse_s);
  EXPECT_NEAR(b.step_s / a.step_s, 1, 0.05);
  EXPECT_LT(b.spread, 0.01);
  ASSERT_EQ(found.tiers.size(), 2u);
  EXPECT_NEAR(found.tiers[1].rate / machine.tiers[1].rate, 1, 1e-2);
  EXPECT_NEAR(found.tiers[1].latency_s / machine.tiers[1].latency_s, 1, 1e-2);
  // So a layout that was not measured is forecast alike.
  const config::Job job = job_of(4, {"parallel.pp=2", "parallel.tp=2", "precision.compute=bf16"});
  const plan::PlanSet plan = plan_of(job);
  EXPECT_NEAR(forecast_step(plan, job, found).step_s / forecast_step(plan, job, machine).step_s, 1,
              0.01);
}

// What is measured again and again while the machine's own speed halves is the same thing.
TEST(Calibrate, TakesTheMachinesOwnSpeedOutOfWhatItMeasures) {
  EXPECT_DOUBLE_EQ(at_one_speed({2, 4, 3}, {0.2, 0.4, 0.3}, 0.3), 3);
  EXPECT_DOUBLE_EQ(at_one_speed({2, 9, 3, 4, 1}, {0.2, 0.2, 0.3, 0.5, 0.6}, 0.3), 3);  // disturbed
  EXPECT_DOUBLE_EQ(at_one_speed({5, 5, 5}, {0.2, 0.2, 0.2}, 0.1), 2.5);
  EXPECT_THROW(at_one_speed({1, 2}, {1}, 1), Error);
}

TEST(Calibrate, RefusesWhatIsNotThere) {
  Measurements measured = measurements_of(synthetic_calibration().machine);
  std::erase_if(measured.probes,
                [](const Probe& probe) { return probe.job.precision.compute == DType::kF32; });
  EXPECT_THROW(fit_machine(measured), Error);
  measured = measurements_of(synthetic_calibration().machine);
  measured.probes[0].lines.pop_back();
  EXPECT_THROW(fit_machine(measured), Error);
  measured = measurements_of(synthetic_calibration().machine);
  measured.collectives.clear();
  EXPECT_THROW(fit_machine(measured), Error);
  EXPECT_THROW(read_measurements(Json{{"cores", 2}}, "m.json"), Error);
}

// Measurements as the worker writes them, for their words.
TEST(Calibrate, RefusesWordsThatItDoesNotKnow) {
  const Json product{{"type", "bf16"}, {"pass", "input"}, {"m", 1},
                     {"n", 2},         {"k", 3},          {"seconds", 4}};
  const Json good{{"measured", "2026-01-31"},
                  {"cpu", "a"},
                  {"build", "b"},
                  {"cores", 2},
                  {"memory", 8},
                  {"process", 1},
                  {"process_rank", 1},
                  {"operator_s", 1},
                  {"operator_rate", 1},
                  {"products", Json::array({product})},
                  {"probes", Json::array()},
                  {"collectives", Json::array()}};
  const Measurements read = read_measurements(good, "m.json");
  EXPECT_EQ(read.products.at(0).math, Math::kHalf);
  EXPECT_EQ(read.products.at(0).pass, Pass::kInput);
  EXPECT_EQ(read.cpu + read.build, "ab");  // whose they are, whoever fits them
  for (const char* key : {"type", "pass"}) {
    Json bad = good;
    bad["products"][0][key] = "fp8";
    EXPECT_THROW(read_measurements(bad, "m.json"), Error) << key;
  }
}

// What was too little to measure leaves constants that can be written and read.
TEST(Calibrate, KeepsWhatCannotBeToldFinite) {
  Calibration made = synthetic_calibration();
  Cluster instant = made.machine;
  instant.gpu.core->half.attention = instant.gpu.core->fp32.attention = 1e30;
  made.machine = fit_machine(measurements_of(instant));
  EXPECT_EQ(parse_calibration(print_calibration(made), "c"), made);
}

// Where other programs ran beside the probes, no time seemed to be left for products, whose rates then were infinite.
TEST(Calibrate, OfADisturbedMachineIsFinite) {
  Calibration made = synthetic_calibration();
  Measurements measured = measurements_of(made.machine);
  for (Probe& probe : measured.probes)
    for (std::size_t line = 0; line < probe.lines.size(); ++line)
      probe.lines[line] = line % 2 == 0 ? 1e-3 : 1e-7;
  made.machine = fit_machine(measured);
  EXPECT_LT(made.machine.gpu.core->fp32.forward.rate,
            2.01 * synthetic_calibration().machine.gpu.core->fp32.forward.rate);
  EXPECT_EQ(parse_calibration(print_calibration(made), "c"), made);
}

TEST(Machine, ToldApartByWhatProcessorsCan) {
  const char kText[] =
      "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
      "model name\t: AMD EPYC\ncpu MHz\t\t: 2445.4\nflags\t\t: fpu avx2\n\n"
      "processor\t: 1\nmodel name\t: AMD EPYC\n";
  const std::string own = processor_of(kText, 2);
  EXPECT_THAT(own, testing::StartsWith("AMD EPYC, cpu family 25, model 17, flags "));
  EXPECT_THAT(own, testing::EndsWith(", 2 cores"));
  const auto with = [&](std::string_view what, std::string_view instead) {
    std::string text = kText;
    text.replace(text.find(what), what.size(), instead);
    return processor_of(text, 2);
  };
  EXPECT_EQ(with("2445.4", "3000.1"), own);
  for (const auto& [what, instead] :
       {std::pair("fpu avx2", "fpu avx512f"), {"17", "1"}, {"25", "26"}})
    EXPECT_NE(with(what, instead), own) << instead;
  EXPECT_NE(processor_of(kText, 4), own);
  EXPECT_THAT(processor_of("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\nFeatures : fp asimd\n", 1),
              testing::HasSubstr("CPU implementer 0x41, CPU part 0xd0c, Features "));
}

TEST(Machine, CalibrationsPrintAndParse) {
  const Calibration made = synthetic_calibration();
  EXPECT_EQ(parse_calibration(print_calibration(made), "c"), made);
  EXPECT_THROW(parse_calibration("{}", "c"), Error);
  // Where a cluster is asked for, its machine is one.
  const harness::ScratchDirectory scratch;
  EXPECT_EQ(find_cluster(scratch.write("machine.json", print_calibration(made)).string()),
            made.machine);
  const auto refused = [&](std::string_view what, std::string_view instead) {
    std::string text = print_calibration(made);
    text.replace(text.find(what), what.size(), instead);
    EXPECT_THROW(parse_calibration(text, "c"), Error) << instead;
  };
  refused("\"crowding\": 1.125", "\"crowding\": -1.25");
  refused("\"cores\": 2", "\"cores\": -4");
  refused("\"cores\": 2", "\"cores\": 0");
  refused("\"memory\": 8589934592", "\"memory\": 0");
  refused("\"update_rate\": 6000000000.0", "\"update_rate\": 0");
}

// Ranks without anything to exchange: two on one core take twice as long, on two cores as long as crowding says.
TEST(Machine, RanksShareItsCores) {
  Cluster machine = synthetic_calibration().machine;
  const auto step = [&](int ranks) {
    const config::Job job =
        job_of(ranks, {"run.global_batch=" + std::to_string(4 * ranks), "parallel.zero=0"});
    return forecast_step(plan_of(job), job, machine).step_s;
  };
  for (NetworkTier& tier : machine.tiers) tier = {.name = tier.name, .rate = 1e18};
  const double one = step(1);
  EXPECT_NEAR(step(2) / one, 1.125, 1e-4);
  EXPECT_NEAR(step(4) / one, 2 * 1.125, 1e-4);
  machine.gpus_per_host = 1;
  EXPECT_NEAR(step(2) / one, 2, 1e-4);
}

// One rank has no one to share with: its step is the sum of its lines, each the sum of its kernels.
TEST(Machine, AStepOfOneRankIsTheSumOfItsKernels) {
  const Cluster machine = synthetic_calibration().machine;
  const config::Job job = job_of(1, {"precision.compute=bf16"});
  const auto all = [&](const char* name) {
    const NodeKernels node = node_kernels(job, own_practice(), name);
    return seconds(machine.gpu, node.forward) + seconds(machine.gpu, node.input) +
           seconds(machine.gpu, node.weight);
  };
  const plan::PlanSet plan = plan_of(job);
  double sum = 4 * (all("embed") + 2 * all("block.0") + all("head")) + 1e-3;
  for (const plan::Instr& line : plan.list(0))
    if (line.node < 0)
      sum +=
          simulate::moved_bytes(plan, 0, line) / (line.verb == plan::Verb::kGradNorm ? 3e9 : 6e9);
  const StepForecast forecast = forecast_step(plan, job, machine);
  EXPECT_NEAR(forecast.step_s / sum, 1, 1e-9);
  EXPECT_NEAR(forecast.high_s / forecast.step_s, std::exp(1.2816 * 0.03), 1e-6);
  EXPECT_NEAR(forecast.step_s / forecast.low_s, std::exp(1.2816 * 0.03), 1e-6);
  EXPECT_DOUBLE_EQ(forecast.process_bytes,
                   kProcess +
                       1.05 * static_cast<double>(plan::memory_account(plan, 0).peak_of_tensors()) +
                       kLastPage);
}

// bf16 is faster than fp32 only where a CPU multiplies it.
TEST(Machine, AnUncalibratedForecastKnowsInstructionSets) {
  const auto step = [](const char* type, MatrixUnit unit) {
    return uncalibrated_step(plan_of(job_of(1, {std::string("precision.compute=") + type,
                                                "model.hidden=512", "model.seq_len=512"})),
                             "why", unit)
        .step_s;
  };
  for (const MatrixUnit unit : {MatrixUnit::kOther, MatrixUnit::kAvx2, MatrixUnit::kAvx512})
    EXPECT_GT(step("bf16", unit), 1.3 * step("fp32", unit)) << name(unit);
  for (const MatrixUnit unit : {MatrixUnit::kAvx512Bf16, MatrixUnit::kAmx})
    EXPECT_LT(step("bf16", unit), 0.75 * step("fp32", unit)) << name(unit);
  EXPECT_GT(step("fp32", MatrixUnit::kAvx2), 1.5 * step("fp32", MatrixUnit::kAvx512Bf16));
}

// Threads' tensors are one process's, over the first tier; processes have their own, and the second.
TEST(Machine, RanksAreThreadsOrProcesses) {
  Calibration made = synthetic_calibration();
  const config::Job job = job_of(2, {"parallel.tp=2"});
  const plan::PlanSet plan = plan_of(job);
  const StepForecast threads = forecast_step(plan, job, made, RanksAs::kThreads),
                     processes = forecast_step(plan, job, made, RanksAs::kProcesses);
  const auto tensors = static_cast<double>(plan::memory_account(plan, 0).peak_of_tensors());
  EXPECT_DOUBLE_EQ(threads.process_bytes, kProcess + kPacked + 2 * (1.05 * tensors + kLastPage));
  EXPECT_DOUBLE_EQ(processes.process_bytes, kProcess + 1.05 * tensors + kLastPage);
  EXPECT_GT(processes.step_s, threads.step_s);
  EXPECT_EQ(threads.source, "by the calibration of 2026-01-31");
  const StepForecast none = uncalibrated_step(plan, "why");
  EXPECT_EQ(expected_step(plan, job, {}, "why", RanksAs::kThreads).step_s, none.step_s);
  EXPECT_EQ(expected_step(plan, job, made, "why", RanksAs::kThreads).step_s, threads.step_s);
  EXPECT_EQ(none.source, "uncalibrated: why");
  EXPECT_EQ(none.high_s, 0);
  EXPECT_EQ(none.process_bytes, 0);
}

TEST(Machine, EachFurtherThreadHoldsSomethingMore) {
  Calibration made = synthetic_calibration();
  made.machine.gpu.core->process_rank = 7e6;
  const config::Job job = job_of(2, {"parallel.tp=2"});
  const plan::PlanSet plan = plan_of(job);
  const auto tensors = static_cast<double>(plan::memory_account(plan, 0).peak_of_tensors());
  EXPECT_DOUBLE_EQ(outside_tensors(*made.machine.gpu.core, 3), kProcess + 14e6 + 2 * kPacked);
  EXPECT_DOUBLE_EQ(forecast_step(plan, job, made, RanksAs::kThreads).process_bytes,
                   kProcess + 7e6 + kPacked + 2 * (1.05 * tensors + kLastPage));
  EXPECT_DOUBLE_EQ(forecast_step(plan, job, made, RanksAs::kProcesses).process_bytes,
                   kProcess + 1.05 * tensors + kLastPage);
}

TEST(Machine, SaysWhatItDoesNotForesee) {
  EXPECT_EQ(unforeseen(job_of(1)), "");
  EXPECT_EQ(unforeseen(job_of(1, {"precision.compute=bf16"})), "");
  EXPECT_THAT(unforeseen(job_of(1, {"precision.compute=fp16"})), testing::HasSubstr("fp16"));
  EXPECT_THAT(unforeseen(job_of(1, {"offload.optimizer=host"})), testing::HasSubstr("offload"));
  EXPECT_THAT(unforeseen(job_of(1, {"lora.rank=4"})), testing::HasSubstr("adapters"));
}

}  // namespace
}  // namespace trireme::planner::calibrate_test
