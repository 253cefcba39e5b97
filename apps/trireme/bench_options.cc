// What `trireme bench` understands.
#include <CLI/CLI.hpp>

#include "command_options.h"
#include "json_output.h"

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
      "Measure this machine's cores for forecasts: products, steps of small models, sums",
      kBenchExamples);
  app.add_option("--out", o.out, "write the constants to this file, not to where forecasts look");
  app.add_option("--cores", o.cores, "how many work at once; 0: all there are")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_json_option(app, o.json);
  app.add_option("--from", o.from, "take what such a file says, and measure nothing");
  app.callback([&] { run = [&] { return bench_calibrate(o); }; });
}

void add_bench_forecast(CLI::App& group, BenchForecastOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "forecast",
      "Steps of a job in many layouts of 1, 2 and 4 ranks: forecast against clock and memory",
      kBenchExamples);
  app.add_option("job", o.job, "Job file (default: that of the sweep)");
  app.add_option("--variants", o.variants, "Sweep whose runs are measured")->capture_default_str();
  app.add_option("--only", o.only, "Part of the names of the runs to measure (default: all)");
  app.add_option("--steps", o.steps, "of each layout, of which the lower quartile counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "how many to run before")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_forecast(o); }; });
}

void add_bench_context(CLI::App& group, BenchContextOptions& o, Run& run) {
  CLI::App& app =
      add_command(group, "context",
                  "Attention with the sequence spread over ranks, by every method", kBenchExamples);
  const auto number = [&](const char* name, std::int64_t& value, const char* about) {
    app.add_option(name, value, about)
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
        ->capture_default_str();
  };
  app.add_option("--ranks", o.ranks, "how many ranks, as threads, one run each")
      ->delimiter(',')
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "tokens of the sequence, one run each")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  number("--heads", o.heads, "query heads");
  app.add_option("--kv-heads", o.kv_heads, "key-value heads; 0: as many as heads")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20))
      ->capture_default_str();
  number("--head-dim", o.head_dim, "width of a head");
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_context(o); }; });
}

void add_bench_memory(CLI::App& group, BenchMemoryOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "memory", "What jobs of many kinds need of memory: the forecast against the allocator",
      kBenchExamples);
  app.add_option("--variants", o.variants,
                 "Sweeps whose runs are measured (default: recipes/sweeps/memory_*.yaml)");
  app.add_option("--only", o.only, "Part of the names of the runs to measure (default: all)");
  app.add_option("--steps", o.steps, "Number of steps of each job")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_memory(o); }; });
}

void add_bench_pipeline(CLI::App& group, BenchPipelineOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "pipeline", "Stages that sleep, under every schedule: the clock against the simulator",
      kBenchExamples);
  app.add_option("--ranks", o.ranks, "pipeline ranks, as threads")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--micro-batches", o.micro_batches, "of a step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--ms", o.ms,
                 "what forward and each half of backward take of a rank's micro-batch")
      ->check(CLI::Range(0.01, 10000.0))
      ->capture_default_str();
  app.add_option("--steps", o.steps, "steps of each schedule, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--schedules", o.schedules, "which ones; none: all")->delimiter(',');
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_pipeline(o); }; });
}

void add_bench_disk(CLI::App& group, BenchDiskOptions& o, Run& run) {
  CLI::App& app = add_command(
      group, "disk", "Scratch space on disk and in host memory, against memcpy and a plain loop",
      kBenchExamples);
  app.add_option("--dir", o.dir, "where the scratch files are made")->capture_default_str();
  app.add_option("--mib", o.mib, "how much is moved at a time")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--repeats", o.repeats, "of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--depth", o.depth, "requests under way at a time; 0: each engine's own")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return bench_disk(o); }; });
}

void add_steps(CLI::App& app, BenchStepOptions& o) {
  add_job(app, o.job);
  app.add_option("--steps", o.steps, "how many to time")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "how many to run before")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  app.add_option("--device", o.device, "as --set run.device=DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  add_json_option(app, o.json);
}

}  // namespace

void add_bench(CLI::App& root, BenchOptions& o, Run& run) {
  CLI::App& group = add_command(root, "bench", "Measure what this machine gives", kBenchExamples);
  group.require_subcommand(1);
  CLI::App& app = add_command(
      group, "collectives", "Sums and gathers among threads and processes, against memcpy and Gloo",
      kBenchExamples);
  app.add_option("--ranks", o.collectives.ranks, "how many ranks, one run each")
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

  CLI::App& passes =
      add_command(group, "kernels", "Passes of the CPU kernels, against memcpy and ATen's products",
                  kBenchExamples);
  passes.add_option("--threads", o.kernels.threads, "threads that share each pass")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_json_option(passes, o.kernels.json);
  passes.callback([&] { run = [&] { return bench_kernels(o.kernels); }; });

  CLI::App& policies = add_command(
      group, "recompute", "What every policy of recomputation costs and saves in steps of a job",
      kBenchExamples);
  add_steps(policies, o.recompute.step);
  policies.add_option("--variants", o.recompute.variants, "Sweep whose runs are the policies")
      ->capture_default_str();
  policies.add_option("--rounds", o.recompute.rounds, "through all policies")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  policies.callback([&] {
    take_assignments(policies, o.recompute.step.job);
    run = [&] { return bench_recompute(o.recompute); };
  });

  CLI::App& steps =
      add_command(group, "step", "Steps of a job on random tokens, against the machine's limit",
                  kBenchExamples);
  add_steps(steps, o.step);
  steps.callback([&] {
    take_assignments(steps, o.step.job);
    run = [&] { return bench_step(o.step); };
  });
}

}  // namespace trireme::app
