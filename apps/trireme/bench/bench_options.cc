// What `trireme bench` understands.
#include <CLI/CLI.hpp>

#include "apps/trireme/command_options.h"
#include "apps/trireme/json_output.h"

namespace trireme::app {
namespace {

constexpr char kBenchExamples[] = R"(
Examples:
  trireme bench calibrate
  trireme bench forecast recipes/gpt_s.yaml --only tp-2
  trireme bench collectives
  trireme bench collectives --ranks 2,4 --json collectives.json
  trireme bench pipeline --ranks 4 --micro-batches 8 --ms 20
  trireme bench context --ranks 2 --tokens 8192 --heads 8 --kv-heads 2
  trireme bench kernels --threads 2
  trireme bench disk --dir /scratch --mib 2048
  trireme bench memory --only gpt_tiny
  trireme bench recompute recipes/gpt_m.yaml --steps 3 --set run.global_batch=4
  trireme bench step recipes/gpt_s.yaml --ranks 2 --set precision.compute=bf16
  trireme bench step recipes/gpt_m.yaml --nproc 2 --set run.global_batch=8 --steps 3 --json step.json
)";

void add_bench_calibrate(CLI::App& group, BenchCalibrateOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "calibrate",
      "Measure this machine's cores for forecasts: matrix products, steps of small models, sums",
      kBenchExamples);
  app.add_option("--out", o.out, "File for the constants (default: the file that forecasts read)");
  add_number(app, "--cores", o.cores, "Number of cores working concurrently; 0: all", 0, 1024);
  add_json_option(app, o.json);
  app.add_option("--from", o.from, "File of constants to use instead of measuring");
  app.callback([&] { run = [&] { return bench_calibrate(o); }; });
}

void add_bench_forecast(CLI::App& group, BenchForecastOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "forecast",
      "Compare forecast and measured step time and memory of a job in many layouts of 1, 2 and 4 "
      "ranks",
      kBenchExamples);
  app.add_option("job", o.job, "Job file (default: that of the sweep)");
  app.add_option("--variants", o.variants, "Sweep whose runs are measured")->capture_default_str();
  app.add_option("--only", o.only, "Part of the names of the runs to measure (default: all)");
  add_number(app, "--steps", o.steps,
             "Number of timed steps of each layout; the lower quartile is reported", 1, 1000);
  add_number(app, "--warmup", o.warmup, "Number of steps before timing", 0, 1000);
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_forecast(o); }; });
}

void add_bench_context(CLI::App& group, BenchContextOptions& o, Run& run) {
  CLI::App& app = add_command(group, "context", "Attention under every context-parallel method",
                              kBenchExamples);
  app.add_option("--ranks", o.ranks, "Numbers of ranks (threads), one measurement each")
      ->delimiter(',')
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "Sequence lengths in tokens, one measurement each")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  add_number(app, "--heads", o.heads, "Number of query heads", 1, 1 << 20);
  add_number(app, "--kv-heads", o.kv_heads, "Number of key-value heads; 0: as many as query heads",
             0, 1 << 20);
  add_number(app, "--head-dim", o.head_dim, "Channels of a head", 1, 1 << 20);
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_context(o); }; });
}

void add_bench_memory(CLI::App& group, BenchMemoryOptions& o, Run& run) {
  CLI::App& app =
      add_command(group, "memory", "Compare forecast and allocated memory of many kinds of jobs",
                  kBenchExamples);
  app.add_option("--variants", o.variants,
                 "Sweeps whose runs are measured (default: recipes/sweeps/memory_*.yaml)");
  app.add_option("--only", o.only, "Part of the names of the runs to measure (default: all)");
  add_number(app, "--steps", o.steps, "Number of steps of each job", 1, 1000);
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_memory(o); }; });
}

void add_bench_pipeline(CLI::App& group, BenchPipelineOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "pipeline",
      "Compare measured and simulated time of every pipeline schedule, with sleeping stages",
      kBenchExamples);
  add_number(app, "--ranks", o.ranks, "Number of pipeline ranks (threads)", 1, 64);
  add_number(app, "--micro-batches", o.micro_batches, "Number of micro-batches in a step", 1, 4096);
  add_number(app, "--ms", o.ms,
             "Milliseconds of forward, input backward and weight backward of a micro-batch, each",
             0.01, 10000.0);
  add_number(app, "--steps", o.steps, "Number of steps of each schedule; the median is reported", 1,
             1000);
  app.add_option("--schedules", o.schedules, "Schedules to run, separated by commas (default: all)")
      ->delimiter(',');
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_pipeline(o); }; });
}

void add_bench_disk(CLI::App& group, BenchDiskOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "disk",
      "Throughput of scratch space on disk and in host memory, against memcpy and a plain loop",
      kBenchExamples);
  app.add_option("--dir", o.dir, "Directory for the scratch files")->capture_default_str();
  add_number(app, "--mib", o.mib, "MiB moved at a time", 2, 1 << 20);
  add_number(app, "--repeats", o.repeats, "Number of repetitions; the median is reported", 1, 1000);
  add_number(app, "--depth", o.depth, "Number of requests in flight; 0: default of each engine", 0,
             1024);
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_disk(o); }; });
}

void add_steps(CLI::App& app, BenchStepOptions& o) {
  add_job(app, o.job);
  add_number(app, "--steps", o.steps, "Number of timed steps", 1, 100000);
  add_number(app, "--warmup", o.warmup, "Number of steps before timing", 0, 100000);
  app.add_option("--device", o.device, "Device, as --set run.device=DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  add_json_option(app, o.json);
}

}  // namespace

void add_bench(CLI::App& root, BenchOptions& o, Run& run) {
  CLI::App& group = add_command(root, "bench", "Measure this machine", kBenchExamples);
  group.require_subcommand(1);
  CLI::App& app =
      add_command(group, "collectives",
                  "Throughput of collectives among threads and processes, against memcpy and Gloo",
                  kBenchExamples);
  app.add_option("--ranks", o.collectives.ranks, "Numbers of ranks, one measurement each")
      ->delimiter(',')
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  add_json_option(app, o.collectives.json);
  app.callback([&] { run = [&] { return bench_collectives(o.collectives); }; });
  add_bench_calibrate(group, o.calibrate, run);
  add_bench_context(group, o.context, run);
  add_bench_disk(group, o.disk, run);
  add_bench_forecast(group, o.forecast, run);
  add_bench_memory(group, o.memory, run);
  add_bench_pipeline(group, o.pipeline, run);

  CLI::App& passes = add_command(
      group, "kernels", "Throughput of CPU kernels, against memcpy and ATen's matrix products",
      kBenchExamples);
  add_number(passes, "--threads", o.kernels.threads, "Number of threads of each kernel", 1, 1024);
  add_json_option(passes, o.kernels.json);
  passes.callback([&] { run = [&] { return bench_kernels(o.kernels); }; });

  CLI::App& policies =
      add_command(group, "recompute", "Time and memory of a job under every recomputation policy",
                  kBenchExamples);
  add_steps(policies, o.recompute.step);
  policies.add_option("--variants", o.recompute.variants, "Sweep whose runs are the policies")
      ->capture_default_str();
  add_number(policies, "--rounds", o.recompute.rounds, "Number of rounds through all policies", 1,
             1000);
  policies.callback([&] {
    take_assignments(policies, o.recompute.step.job);
    run = [&] { return bench_recompute(o.recompute); };
  });

  CLI::App& steps =
      add_command(group, "step", "Step time of a job on random tokens, against the machine's limit",
                  kBenchExamples);
  add_steps(steps, o.step);
  steps.callback([&] {
    take_assignments(steps, o.step.job);
    run = [&] { return bench_step(o.step); };
  });
}

}  // namespace trireme::app
