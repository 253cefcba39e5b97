// Options for CLI11. Only files that add options include this header, since CLI11 takes seconds to compile.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <type_traits>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/plan/plan.h"
#include "apps/trireme/run/finetune.h"
#include "apps/trireme/run/islands.h"
#include "apps/trireme/run/links.h"
#include "apps/trireme/run/reduce_server.h"
#include "apps/trireme/run/relay.h"
#include "commands.h"

namespace trireme::app {

using Run = std::function<int()>;  // the command selected on the command line

// Accepts `section.key=value` after --set, as a word, or as --section.key=value.
void take_assignments(CLI::App& app, JobOptions& job);

// A number from `least` to `most`; --help has its default.
template <typename Number>
void add_number(CLI::App& app, const char* name, Number& value, const char* about,
                std::type_identity_t<Number> least, std::type_identity_t<Number> most) {
  app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
}

void add_job_file(CLI::App& app, JobOptions& job);
void add_job(CLI::App& app, JobOptions& job);

CLI::App& add_command(CLI::App& parent, const char* name, const char* about, const char* examples);

struct BenchOptions {
  BenchCalibrateOptions calibrate;
  BenchCollectivesOptions collectives;
  BenchContextOptions context;
  BenchDiskOptions disk;
  BenchForecastOptions forecast;
  BenchKernelsOptions kernels;
  BenchMemoryOptions memory;
  BenchPipelineOptions pipeline;
  BenchRecomputeOptions recompute;
  BenchStepOptions step;
};
void add_train(CLI::App& root, TrainOptions& o, Run& run);
void add_finetune(CLI::App& root, FinetuneOptions& o, Run& run);
void add_launch(CLI::App& root, LaunchOptions& o, Run& run);
void add_relay_use(CLI::App& app, RelayUse& o);
// Commands of hosts besides those with ranks, and between hosts.
struct HostCommands {
  LinksOptions links;
  RelayOptions relay;
  ReduceServerOptions reduce_server;
  IslandsOptions islands;
  ReplayOptions replay;
};
void add_hosts(CLI::App& root, HostCommands& o, Run& run);
void add_sweep(CLI::App& root, SweepOptions& o, Run& run);
void add_explain(CLI::App& root, ExplainOptions& o, Run& run);
void add_plan(CLI::App& root, PlanOptions& o, Run& run);
void add_bench(CLI::App& root, BenchOptions& o, Run& run);
void add_generate(CLI::App& root, GenerateOptions& o, Run& run);
void add_evaluate(CLI::App& root, EvaluateOptions& o, Run& run);
void add_predict(CLI::App& root, PredictOptions& o, Run& run);
void add_synth(CLI::App& data, SynthOptions& o, Run& run);

}  // namespace trireme::app
