// Options of the commands that train: train, launch and sweep.
#include "command_options.h"
#include "environment.h"
#include "json_output.h"

namespace trireme::app {
namespace {

constexpr char kTrainExamples[] = R"(
Examples:
  trireme train recipes/quickstart.yaml --nproc 2
  trireme train recipes/gpt_s.yaml --ranks 4 --set parallel.zero=2 --set optim.lr=3e-4
  trireme train job.yaml --out runs/first                 # again: resumes the newest checkpoint
  trireme train --out runs/first                          # the same, with the run's own job and ranks
  trireme train job.yaml --out runs/second --resume runs/first/checkpoints/step-100
  torchrun --nproc-per-node 4 --no-python trireme train job.yaml

SIGINT, SIGTERM, SIGHUP and SIGUSR1 end the step, save and end the run; a further SIGINT ends it at once.

Exit codes: 0 done, 2 usage or config, 3 data, checkpoint or output, 4 peer lost (restart resumes), 5 loss not
finite, 6 does not fit into run.memory_limit or recompute.memory, 128 + signal: stopped after saving, 137 stopped
before saving, 1 a bug.
)";

constexpr char kLaunchExamples[] = R"(
What stands behind -- is what every rank runs; each takes its place from the agent. Ranks that fail are started again and
go on from the newest checkpoint.

Examples:
  trireme launch --nproc-per-node 4 -- train job.yaml --out runs/first
  trireme launch --nnodes 2:4 --nproc-per-node 8 --rdzv-endpoint head:29500 --token-file token -- train job.yaml --out runs/big
  srun --ntasks-per-node=1 trireme launch --nproc-per-node 8 --token-file token -- train job.yaml --out runs/big

Exit codes: those of trireme train, and 4 when --max-restarts restarts in a row brought no new checkpoint, or
too few hosts were there for --join-timeout seconds.
)";

constexpr char kSweepExamples[] = R"(
A sweep is a file with the job, what its runs differ in, and which entries of metrics.jsonl are compared:

  job: ../gpt_tiny.yaml            # as seen from this file
  set: {run.steps: 60}             # keys of every run
  runs: {plain: {}, wide: {model.hidden: 128}}
  grid: {optim.lr: [1e-3, 3e-3]}   # every run with every value: four runs here
  metrics: [loss, tokens_per_s]

Examples:
  trireme sweep recipes/sweeps/gpt_tiny_lr.yaml --jobs 2
  trireme sweep recipes/sweeps/gpt_tiny_lr.yaml --out runs/lr    # again: runs that have ended stay

Exit codes: 0 all runs have ended well, 2 usage or config, else that of the first that has not.
)";

void add_allow(CLI::App& app, JobOptions& job) {
  app.add_option(
         "--allow", job.allow,
         "Key whose value may differ from that of model.weights, such as model.rope_theta, or "
         "data.tokenizer for another vocabulary; may be repeated (default: none)")
      ->allow_extra_args(false);
}

}  // namespace

void add_train(CLI::App& root, TrainOptions& o, Run& run) {
  CLI::App& app = add_command(root, "train", "Train a job", kTrainExamples);
  add_job(app, o.job);
  add_allow(app, o.job);
  app.add_option(
      "--steps", o.steps,
      "Step at which the run ends, in place of run.steps; schedules keep the job's length "
      "(optim.decay_steps, else its run.steps)");
  app.add_option("--resume", o.resume,
                 "auto: the newest checkpoint of --out; never; or a checkpoint")
      ->type_name("auto|never|PATH");
  app.add_option("--out", o.out,
                 "run directory; default runs/JOB-TIME. Without a JOB: resume the run there");
  app.add_flag("--quiet", o.quiet, "plain lines, also on a terminal");
  app.add_flag("--verbose", o.verbose, "print the whole resolved job");
  app.add_flag("--baseline", o.baseline,
               "fit the n-gram baseline also when the data is not the quick start's");
  app.add_flag("!--no-calibrate", o.calibrate,
               "do not measure this machine before its first run, up to 5 s, for forecasts");
  app.add_flag("--verify-data", o.verify_data,
               "Read every byte of the data first and compare digests (default: sizes and times)");
  CLI::Option* const help =
      app.add_option("--help-config", "print the keys of a job, of a section or one key, and leave")
          ->expected(0, 1)
          ->type_name("[KEY]");
  app.add_option("--faults", o.faults,
                 "what is to go wrong on purpose: 'rank=1 step=41: kill; fs.fsync=3: error=EIO' "
                 "(docs/reliability.md)");
  app.add_flag("--allow-fault-injection", o.allow_faults, "needed with --faults");
  app.callback([&app, &o, &run, help] {
    if (help->count() > 0) o.help_config = help->results().empty() ? "" : help->results().front();
    take_assignments(app, o.job);
    check_faults(o);
    run = [&] { return train(o); };
  });
}

void add_launch(CLI::App& root, LaunchOptions& o, Run& run) {
  CLI::App& app = add_command(root, "launch", "Keep a job's ranks at work, on one host or many",
                              kLaunchExamples);
  app.add_option("--nnodes", o.nodes,
                 "hosts, as N or MIN:MAX; default: what started us says, or 1");
  app.add_option("--nproc-per-node", o.ranks, "ranks of this host")
      ->check(CLI::Range(1, kMostLocal))
      ->capture_default_str();
  app.add_option("--rdzv-endpoint", o.endpoint,
                 "HOST:PORT where the first host's agent listens; needed for several hosts");
  app.add_option("--rdzv-id", o.id, "name of the run; agents of another are refused");
  app.add_option(
         "--node-rank", o.node_rank,
         "place of this host; 0 leads. Default: what started us says, or whoever can listen")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--max-restarts", o.max_restarts, "in a row that bring no new checkpoint")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--join-timeout", o.join_timeout_s, "seconds to wait for hosts that are missing")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--token-file", o.token_file,
                 "secret of the run's hosts, readable by its owner only; needed with an endpoint");
  app.callback([&] { run = [&] { return launch(o); }; });
}

void add_sweep(CLI::App& root, SweepOptions& o, Run& run) {
  CLI::App& app =
      add_command(root, "sweep", "Train variants of a job and compare them", kSweepExamples);
  add_job(app, o.job);
  app.get_option("JOB")->description("sweep.yaml");
  add_allow(app, o.job);
  app.add_option("--jobs", o.at_once, "runs at a time (default 1)");
  app.add_option("--out", o.out, "where runs and table go; default runs/SWEEP-TIME");
  add_json_option(app, o.json);
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return sweep(o); };
  });
}

// What each rank is to run, understood as a command line of its own.

}  // namespace trireme::app
