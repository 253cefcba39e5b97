// What `trireme explain` and `trireme plan` understand.
#include <CLI/CLI.hpp>

#include "command_options.h"
#include "json_output.h"

namespace trireme::app {
namespace {

constexpr char kExplainExamples[] = R"(
Examples:
  trireme explain recipes/quickstart.yaml --ranks 4
  trireme explain job.yaml --ranks 8 --set parallel.zero=3 --json -
  trireme explain job.yaml --nproc 2 --format plan > job.plan     # every line of every rank
  trireme explain job.yaml --ranks 4 --set parallel.pp=4 --format svg > step.svg
  trireme explain --check job.plan                                # the validator's verdict on it
  trireme explain job.yaml --nproc 2 --memory
  trireme explain planned.yaml --ranks 64 --cluster dgx-h100
  trireme explain job.yaml --nproc 2 --fits 20GiB

Exit codes: 0 done, 2 usage or config, 3 --check found a mistake in the plan, 6 a rank needs more than --fits or
recompute.memory allows.
)";

constexpr char kPlanExamples[] = R"(
A layout is pp x dp_replicate x dp_shard x cp x tp with ZeRO stage, schedule, micro-batch, recomputation and, where nothing else
fits, offload. What the job has of these is ignored, or with --keep stays.

Examples:
  trireme plan job.yaml --cluster dgx-h100 --gpus 64
  trireme plan job.yaml --cluster dgx-h100 --gpus 512 --tokens 300e9 --by money
  trireme plan job.yaml --cluster mine.yaml --keep --set parallel.tp=4 --json plan.json
  trireme plan job.yaml --cluster dgx-a100 --gpus 16 --out planned.yaml
  trireme explain planned.yaml --ranks 16 --cluster dgx-a100

Exit codes: 0 done, 2 usage, config, cluster or deadline, 6 no layout fits into the GPUs' memory.
)";

void add_as(CLI::App& app, std::string& as, const std::string& when) {
  app.add_option("--as", as,
                 when +
                     "runtime that is priced on GPUs. today: collectives are waited for, "
                     "operators are not fused; planned: with overlap and kernels to come")
      ->check(CLI::IsMember({"today", "planned"}))
      ->capture_default_str();
}

}  // namespace

void add_explain(CLI::App& root, ExplainOptions& o, Run& run) {
  CLI::App& app =
      add_command(root, "explain", "Show the plan of a job, proven and priced, without running it",
                  kExplainExamples);
  add_job(app, o.job);
  app.add_option(
         "--format", o.format,
         "text: a screen; json: as --json -; plan: every line of every rank; svg: a picture of the "
         "step; trace: "
         "for Perfetto and chrome://tracing; csv: the schedule as PyTorch's pipelining writes it")
      ->check(CLI::IsMember({"text", "json", "plan", "svg", "trace", "csv"}));
  app.add_flag("--communication", o.communication,
               "with csv: sends, receives, gathers and reductions as well");
  app.add_option(
      "--cluster", o.cluster,
      "forecast on a shipped cluster (docs/clusters.md) or a file's; default: this machine");
  add_as(app, o.as, "with --cluster: ");
  app.add_option("--rank", o.rank,
                 "with text: every line of this rank and the bytes live while it runs");
  app.add_flag("--memory", o.memory, "what every rank needs, by kind, and when");
  app.add_option(
      "--fits", o.fits,
      "a size such as 20GiB: exit code 0 if no rank needs more, else 6; where rows vary by "
      "the bound, with the expected need beside it");
  app.add_option("--check", o.check,
                 "instead of a job, the file of a plan's text: parse and validate it, exit code 3 "
                 "with rank and line of the first mistake");
  add_json_option(app, o.json);
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return o.check.empty() ? explain(o) : explain_check(o); };
  });
}

void add_plan(CLI::App& root, PlanOptions& o, Run& run) {
  CLI::App& app = add_command(
      root, "plan", "Find the best layout of a job on a cluster, and say why", kPlanExamples);
  add_job_file(app, o.job);
  app.add_option("--cluster", o.cluster, "a shipped cluster (docs/clusters.md) or a file")
      ->required();
  add_as(app, o.as, "");
  app.add_option("--gpus", o.gpus, "how many; by money at most. Default: all of the cluster");
  app.add_option("--by", o.by, "what is best: time of a step, or money for a token")
      ->check(CLI::IsMember({"time", "money"}))
      ->capture_default_str();
  app.add_flag(
      "--keep", o.keep,
      "what the job or --set says of parallel, recompute, offload and run.micro_batch stays");
  app.add_option("--top", o.top, "layouts of different shapes to show")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "of the whole training; default: the job's run.steps");
  app.add_option("--deadline", o.deadline,
                 "hours in which the whole training has to end: the cheapest offers that do");
  app.add_flag(
      "--expandable-segments", o.expandable,
      "the GPU's allocator grows segments (PYTORCH_CUDA_ALLOC_CONF), so that no holes stay");
  app.add_option("--format", o.format, "table, or json: as --json -")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.add_option("--out", o.out, "write the best layout's job to this file, for train and explain");
  add_json_option(app, o.json);
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return plan(o); };
  });
}

}  // namespace trireme::app
