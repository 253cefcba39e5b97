// What `trireme explain` and `trireme plan` understand.
#include <CLI/CLI.hpp>

#include "apps/trireme/command_options.h"
#include "apps/trireme/json_output.h"

namespace trireme::app {
namespace {

constexpr char kExplainExamples[] = R"(
Examples:
  trireme explain recipes/quickstart.yaml --ranks 4
  trireme explain job.yaml --ranks 8 --set parallel.zero=3 --json -
  trireme explain job.yaml --nproc 2 --format plan > job.plan     # every line of every rank
  trireme explain job.yaml --ranks 4 --set parallel.pp=4 --format svg > step.svg
  trireme explain --check job.plan                                # validates the plan
  trireme explain job.yaml --nproc 2 --memory
  trireme explain planned.yaml --ranks 64 --cluster dgx-h100
  trireme explain job.yaml --nproc 2 --fits 20GiB

Exit codes: 0 done, 2 usage or config, 3 --check found an error in the plan, 6 a rank exceeds --fits or
recompute.memory.
)";

constexpr char kPlanExamples[] = R"(
A layout is pp x dp_replicate x dp_shard x cp x tp with ZeRO stage, schedule, micro-batch, recomputation and, if nothing
else fits, offloading. The job's own values are ignored unless --keep is given.

Examples:
  trireme plan job.yaml --cluster dgx-h100 --gpus 64
  trireme plan job.yaml --cluster dgx-h100 --gpus 512 --tokens 300e9 --by money
  trireme plan job.yaml --cluster mine.yaml --keep --set parallel.tp=4 --json plan.json
  trireme plan job.yaml --cluster dgx-a100 --gpus 16 --out planned.yaml
  trireme plan job.yaml --cluster cpu-host --links links.yaml --max-loss 0.1
  trireme explain planned.yaml --ranks 16 --cluster dgx-a100

Exit codes: 0 done, 2 usage, config, cluster or deadline, 6 no layout fits in GPU memory.
)";

void add_as(CLI::App& app, std::string& as, const std::string& when) {
  app.add_option("--as", as,
                 "Runtime assumed on GPUs" + when +
                     "; today: blocking collectives, no operator fusion; planned: overlap and "
                     "kernels to come")
      ->check(CLI::IsMember({"today", "planned"}))
      ->capture_default_str();
}

}  // namespace

void add_explain(CLI::App& root, ExplainOptions& o, Run& run) {
  CLI::App& app =
      add_command(root, "explain", "Show, validate and price the plan of a job without running it",
                  kExplainExamples);
  add_job(app, o.job);
  app.add_option("--format", o.format,
                 "Output format. text: a summary; json: as --json -; plan: all instructions of all "
                 "ranks; svg: picture of the step; trace: for Perfetto and chrome://tracing; csv: "
                 "schedule in the format of PyTorch's pipelining (default text)")
      ->check(CLI::IsMember({"text", "json", "plan", "svg", "trace", "csv"}));
  app.add_flag("--communication", o.communication,
               "Include sends, receives, gathers and reductions (with csv)");
  app.add_option("--cluster", o.cluster,
                 "Cluster of the forecast: a shipped one (docs/clusters.md) or a file (default: "
                 "this machine)");
  app.add_option("--links", o.links,
                 "Table of the cluster's links from trireme links (with --cluster)")
      ->check(CLI::ExistingFile);
  add_as(app, o.as, " (with --cluster)");
  app.add_option("--rank", o.rank,
                 "Rank whose instructions and live bytes are printed (with text)");
  app.add_flag("--memory", o.memory, "Print the memory of every rank by kind and over time");
  app.add_option(
      "--fits", o.fits,
      "Memory limit of a rank, such as 20GiB: exit code 6 if a rank needs more. Variable-length "
      "inputs are checked at their maximum; the expected need is printed too");
  app.add_option(
      "--check", o.check,
      "Plan text file to parse and validate instead of a job; exit code 3 with rank and line of "
      "the first error");
  add_json_option(app, o.json);
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return o.check.empty() ? explain(o) : explain_check(o); };
  });
}

void add_plan(CLI::App& root, PlanOptions& o, Run& run) {
  CLI::App& app =
      add_command(root, "plan", "Find the best layout of a job on a cluster and explain the choice",
                  kPlanExamples);
  add_job_file(app, o.job);
  app.add_option("--cluster", o.cluster, "Shipped cluster (docs/clusters.md) or cluster file")
      ->required();
  add_as(app, o.as, "");
  app.add_option("--gpus", o.gpus,
                 "Number of GPUs (an upper bound with --by money; default: the whole cluster)");
  app.add_option("--by", o.by, "Objective: step time, or money for a token")
      ->check(CLI::IsMember({"time", "money"}))
      ->capture_default_str();
  app.add_flag("--keep", o.keep,
               "Keep the job's values of parallel, recompute, offload and run.micro_batch");
  app.add_option("--links", o.links,
                 "Table of the cluster's links from trireme links; it sets the number of hosts")
      ->check(CLI::ExistingFile);
  app.add_option("--allow", o.allow,
                 "Approximate communication that may be chosen, such as q8,q4_residual,diloco_30 "
                 "(default: none)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--max-loss", o.max_loss,
                 "Increase of validation loss in percent up to which measured approximate "
                 "communication may be chosen (default: none)")
      ->check(CLI::Range(0.0, 100.0));
  add_number(app, "--top", o.top, "Number of layouts of different shapes to print", 1, 100);
  app.add_option("--tokens", o.tokens,
                 "Tokens of the whole training (default: those of the job's run.steps)");
  app.add_option("--deadline", o.deadline,
                 "Maximum hours of the whole training; prints the cheapest offers that meet it "
                 "(default: none)");
  app.add_flag(
      "--expandable-segments", o.expandable,
      "Assume expandable segments of the CUDA allocator (PYTORCH_CUDA_ALLOC_CONF), without "
      "fragmentation");
  app.add_option("--format", o.format, "Output format; json: as --json -")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.add_option("--out", o.out, "File for the job with the best layout, for train and explain");
  add_json_option(app, o.json);
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return plan(o); };
  });
}

}  // namespace trireme::app
