// trireme-worker bench-step: how fast a job's steps are, of text on random tokens, and how fast they could be.
#include <sys/resource.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/json_output.h"
#include "apps/worker/memory/memory.h"
#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "cpu_time.h"
#include "gemm_limit.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/base/median.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/families/describe.h"
#include "trireme/plan/memory.h"
#include "trireme/train/gpu.h"
#include "trireme/train/job_session.h"
#include "trireme/train/machine.h"
#include "trireme/train/run/samples.h"
#include "trireme/train/watch/memory_meter.h"

namespace trireme::app {
namespace {

constexpr model::FlopsConvention kConvention = model::FlopsConvention::kMegatron;

// Of the process, without reading from a disk: memory it got that it had not.
double page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_minflt);
}

// What one rank saw.
Json measure_step(const config::Job& job, comm::World& world, int warmup, int steps,
                  const Path& peaks) {
  train::JobSession session(job, world);
  train::MemoryMeter meter(&charged_here(), session.device());
  const train::JobSession::Load load = train::load_of(job, job.run.micro_batch);
  std::vector<double> seconds, cpu, waits, faults;
  double loss = 0;
  for (int step = 0; step < warmup + steps; ++step) {
    const Stopwatch watch;
    const double cpu_begin = process_cpu_seconds(), faults_begin = page_faults();
    meter.begin_step();
    const exec::StepResult result = session.train(step, false, load);
    train::finish(session.device());
    meter.end_step();
    if (step < warmup) continue;
    seconds.push_back(watch.seconds());
    cpu.push_back(process_cpu_seconds() - cpu_begin);
    waits.push_back(result.comm_wait_s);
    faults.push_back(page_faults() - faults_begin);
    loss = result.loss;
  }
  Json mine;
  mine["seconds"] = seconds;
  mine["cpu_s"] = median(cpu);
  mine["comm_wait_s"] = median(waits);
  mine["page_faults"] = median(faults);
  mine["loss"] = loss;
  mine["peak_mb"] = session.device().is_cpu() ? train::peak_resident_mb()
                                              : static_cast<double>(train::gpu_peak_bytes()) / 1e6;
  mine["tensors_mb"] = static_cast<double>(meter.peaks().steps) / 1e6;
  train::SeenPeaks seen(peaks);
  const train::Peak peak = train::find_peak(job.precision.compute, session.device(), world, seen);
  mine["peak_gflops"] = peak.flops / 1e9;
  mine["peak_source"] = peak.source;
  mine["plan_mb"] =
      1e-6 * static_cast<double>(
                 plan::memory_account(session.session().plan(), world.rank()).peak_of_tensors());
  for (const Product& p : measure_products(job, session.session().model().spec, world))
    mine["products"].push_back({{"rows", p.rows},
                                {"in", p.in},
                                {"out", p.out},
                                {"a_step", p.a_step},
                                {"forward_gflops", p.flop() / p.forward_s / 1e9},
                                {"input_gradient_gflops", p.flop() / p.input_gradient_s / 1e9},
                                {"weight_gradient_gflops", p.flop() / p.weight_gradient_s / 1e9},
                                {"seconds_a_step", p.seconds_a_step()}});
  return mine;
}

double products_seconds(const Json& rank) {
  double sum = 0;
  for (const Json& product : rank["products"]) sum += product["seconds_a_step"].get<double>();
  return sum;
}

// One report of what all ranks saw; base_mb: the process before it did anything, 0 for a GPU's memory.
Json summary(const config::Job& job, const std::vector<Json>& ranks, bool threads, double base_mb) {
  const auto tokens = static_cast<double>(job.run.global_batch * job.model.seq_len);
  const double step_s = median(ranks[0]["seconds"].get<std::vector<double>>());
  double cpu_s = 0, limit_s = 0;
  Json report{{"side", "trireme"},
              {"ranks", ranks.size()},
              {"as", threads ? "threads" : "processes"},
              {"device", job.run.device == config::Device::kCpu ? "cpu" : "cuda"},
              {"dtype", name(job.precision.compute)},
              {"step_ms", 1e3 * step_s}};
  for (const Json& rank : ranks) {
    cpu_s += rank["cpu_s"].get<double>() / (threads ? static_cast<double>(ranks.size()) : 1);
    limit_s = std::max(limit_s, products_seconds(rank));
    report["comm_wait_ms"].push_back(1e3 * rank["comm_wait_s"].get<double>());
    const double beyond = rank["peak_mb"].get<double>() - base_mb;
    report["beyond_base_mb"].push_back(threads ? beyond / static_cast<double>(ranks.size())
                                               : beyond);
    report["tensors_mb"].push_back(rank["tensors_mb"]);
    report["plan_mb"].push_back(rank["plan_mb"]);
  }
  report["cpu_ms"] = 1e3 * cpu_s;
  report["tokens_per_s"] = tokens / step_s;
  report["gflops"] =
      tokens / step_s * model::flops_per_token(model::describe(job), job.model, kConvention) / 1e9;
  report["flops_convention"] = model::name(kConvention);
  report["peak_gflops"] = ranks[0]["peak_gflops"];
  report["peak_source"] = ranks[0]["peak_source"];
  report["mfu"] = report["gflops"].get<double>() / ranks[0]["peak_gflops"].get<double>();
  report["gemm_limit_tokens_per_s"] = tokens / limit_s;
  report["of_gemm_limit"] = limit_s / step_s;
  report["page_faults"] = ranks[0]["page_faults"];
  report["loss"] = ranks[0]["loss"];
  report["base_mb"] = base_mb;
  report["seconds"] = ranks[0]["seconds"];
  report["products"] = ranks[0]["products"];
  return report;
}

void print_step(const Json& report) {
  const auto figure = [&](const char* key) { return report[key].get<double>(); };
  const auto seconds = report["seconds"].get<std::vector<double>>();
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  fmt::print(
      "step      {:.1f} ms, median of {} ({:.1f} to {:.1f}); {:.1f} ms of CPU time, {:.0f} page "
      "faults\n",
      figure("step_ms"), seconds.size(), 1e3 * *least, 1e3 * *most, figure("cpu_ms"),
      figure("page_faults"));
  fmt::print("rate      {:.0f} tokens/s, {:.1f} GFLOP/s ({})\n", figure("tokens_per_s"),
             figure("gflops"), report["flops_convention"].get<std::string>());
  fmt::print("mfu       {:.1f}% ({}) of {:.1f} GFLOP/s: {}\n", 100 * figure("mfu"),
             report["flops_convention"].get<std::string>(), figure("peak_gflops"),
             report["peak_source"].get<std::string>());
  fmt::print("limit     {:.0f} tokens/s if only ATen's matrix products took time: {:.0f}% of it\n",
             figure("gemm_limit_tokens_per_s"), 100 * figure("of_gemm_limit"));
  for (std::size_t rank = 0; rank < report["ranks"].get<std::size_t>(); ++rank)
    fmt::print(
        "rank {:<4} {:.1f} MB of tensors at their peak, {:.1f} by the plan, {:.1f} {}; {:.1f} ms "
        "of "
        "a step waiting for communication\n",
        rank, report["tensors_mb"][rank].get<double>(), report["plan_mb"][rank].get<double>(),
        report["beyond_base_mb"][rank].get<double>(),
        report["device"] == "cpu" ? fmt::format("beyond LibTorch's {:.1f}", figure("base_mb"))
                                  : "of the GPU",
        report["comm_wait_ms"][rank].get<double>());
  fmt::print("\nGFLOP/s {:>23} {:>7} {:>8} {:>10} {:>11} {:>8}\n", "rows x in -> out", "a step",
             "forward", "input grad", "weight grad", "ms/step");
  for (const Json& p : report["products"])
    fmt::print(
        "{:>31} {:>7} {:>8.1f} {:>10.1f} {:>11.1f} {:>8.1f}\n",
        fmt::format("{} x {} -> {}", p["rows"].get<int>(), p["in"].get<int>(), p["out"].get<int>()),
        p["a_step"].get<int>(), p["forward_gflops"].get<double>(),
        p["input_gradient_gflops"].get<double>(), p["weight_gradient_gflops"].get<double>(),
        1e3 * p["seconds_a_step"].get<double>());
}

}  // namespace

int bench_step(const Arguments& arguments) {
  const double base_mb = train::resident_mb();
  const auto request = arguments.request<BenchStepRequest>();
  const config::Job job = config::parse_job(request.jobs.front().job, "the job");
  run_ranks_here(request.ranks, job, [&](comm::World& world) {
    std::vector<Json> ranks;
    for (const std::string& text : world.exchange(
             measure_step(job, world, request.warmup, request.steps, request.peaks).dump()))
      ranks.push_back(parse_json(text, "a rank"));
    if (world.rank() != 0) return;
    const bool cpu = job.run.device == config::Device::kCpu;
    const Json report = summary(job, ranks, !is_process_of_a_world(), cpu ? base_mb : 0);
    print_step(report);
    write_json(request.json, report);
  });
  return 0;
}

}  // namespace trireme::app
