// Options of the commands that train: train, launch and sweep.
#include "apps/trireme/command_options.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/json_output.h"

namespace trireme::app {
namespace {

constexpr char kTrainExamples[] = R"(
Examples:
  trireme train recipes/quickstart.yaml --nproc 2
  trireme train recipes/gpt_s.yaml --ranks 4 --set parallel.zero=2 --set optim.lr=3e-4
  trireme train job.yaml --out runs/first                 # repeated: resumes the newest checkpoint
  trireme train --out runs/first                          # the same, with the run's job and ranks
  trireme train job.yaml --out runs/second --resume runs/first/checkpoints/step-100
  torchrun --nproc-per-node 4 --no-python trireme train job.yaml

After SIGINT, SIGTERM, SIGHUP or SIGUSR1 the run finishes the step, saves and exits. A second SIGINT stops it at once.

Exit codes: 0 done, 2 usage or config, 3 data, checkpoint or output, 4 peer lost (a restart resumes), 5 loss not
finite, 6 run.memory_limit or recompute.memory exceeded, 128 + signal stopped after saving, 137 stopped before
saving, 1 a bug.
)";

constexpr char kLaunchExamples[] = R"(
Every rank runs the command after -- and gets its rank from the agent. After a failure, ranks restart from the newest
checkpoint.

Examples:
  trireme launch --nproc-per-node 4 -- train job.yaml --out runs/first
  trireme launch --nnodes 2:4 --nproc-per-node 8 --rdzv-endpoint head:29500 --token-file token -- train job.yaml --out runs/big
  srun --ntasks-per-node=1 trireme launch --nproc-per-node 8 --token-file token -- train job.yaml --out runs/big

Exit codes: those of trireme train, and 4 after --max-restarts consecutive restarts without a new checkpoint, or if
hosts are missing for --join-timeout seconds.
)";

constexpr char kSweepExamples[] = R"(
A sweep file names a job, the keys in which its runs differ, and the entries of metrics.jsonl to compare:

  job: ../gpt_tiny.yaml            # relative to this file
  set: {run.steps: 60}             # keys of every run
  runs: {plain: {}, wide: {model.hidden: 128}}
  grid: {optim.lr: [1e-3, 3e-3]}   # every run with every value: four runs
  metrics: [loss, tokens_per_s]

Examples:
  trireme sweep recipes/sweeps/gpt_tiny_lr.yaml --jobs 2
  trireme sweep recipes/sweeps/gpt_tiny_lr.yaml --out runs/lr    # repeated: completed runs are kept

Exit codes: 0 all runs succeeded, 2 usage or config, otherwise the exit code of the first failed run.
)";

void add_allow(CLI::App& app, JobOptions& job) {
  app.add_option(
         "--allow", job.allow,
         "Key that may differ from model.weights, such as model.rope_theta, or data.tokenizer for "
         "another vocabulary; may be repeated (default: none)")
      ->allow_extra_args(false);
}

}  // namespace

void add_train(CLI::App& root, TrainOptions& o, Run& run) {
  CLI::App& app = add_command(root, "train", "Train a job", kTrainExamples);
  add_job(app, o.job);
  add_allow(app, o.job);
  app.add_option("--steps", o.steps,
                 "Step at which the run ends (default: run.steps); schedules keep the job's length "
                 "(optim.decay_steps, else run.steps)");
  app.add_option("--resume", o.resume,
                 "Checkpoint to resume from; auto: the newest one of --out (default auto)")
      ->type_name("auto|never|PATH");
  app.add_option("--out", o.out,
                 "Run directory (default: runs/JOB-TIME); without a JOB, the run to resume");
  app.add_flag("--quiet", o.quiet, "Print plain lines on a terminal too");
  app.add_flag("--verbose", o.verbose, "Print the resolved job with all keys");
  app.add_flag("--baseline", o.baseline,
               "Fit the n-gram baseline for other data than the quick start's too");
  app.add_flag_callback(
      "--no-calibrate", [&o] { o.calibrate = false; },
      "Do not measure this machine for forecasts before its first run (up to 5 s)");
  app.add_flag("--verify-data", o.verify_data,
               "Compare digests of all data before the run (default: sizes and times)");
  CLI::Option* const help =
      app.add_option("--help-config", "Print all keys of a job, a section or one key, and exit")
          ->expected(0, 1)
          ->type_name("[KEY]");
  app.add_option("--islands", o.island.leader,
                 "Address HOST:PORT of trireme islands, whose islands merge weights as "
                 "network.outer says (docs/parallel.md)");
  app.add_option("--island", o.island.number,
                 "Number K/N of this run among at most N islands, from 0: it has every N-th batch "
                 "of samples");
  app.add_option("--token-file", o.island.token_file,
                 "File with the secret of the islands, readable by its owner only");
  app.add_option("--replay-run", o.island.replay_run)->group("");
  app.add_option("--replay-last", o.island.replay_last)->group("");
  app.add_option("--faults", o.faults,
                 "Faults to inject, such as 'rank=1 step=41: kill; fs.fsync=3: error=EIO' "
                 "(docs/reliability.md)");
  app.add_flag("--allow-fault-injection", o.allow_faults, "Permit --faults");
  app.callback([&app, &o, &run, help] {
    if (help->count() > 0) o.help_config = help->results().empty() ? "" : help->results().front();
    take_assignments(app, o.job);
    check_faults(o);
    run = [&] { return train(o); };
  });
}

void add_launch(CLI::App& root, LaunchOptions& o, Run& run) {
  CLI::App& app =
      add_command(root, "launch", "Start and restart the ranks of a job on one or several hosts",
                  kLaunchExamples);
  app.add_option("--nnodes", o.nodes,
                 "Number of hosts, N or MIN:MAX (default: from the environment, else 1)");
  add_number(app, "--nproc-per-node", o.ranks, "Number of ranks on this host", 1, kMostLocal);
  app.add_option("--rdzv-endpoint", o.endpoint,
                 "Address HOST:PORT of the first host's agent; required for several hosts");
  app.add_option("--rdzv-id", o.id,
                 "Name of the run; agents with another name are refused (default: from the "
                 "environment, else trireme)");
  app.add_option("--node-rank", o.node_rank,
                 "Index of this host; 0 leads (default: from the environment, else the host that "
                 "can listen on the endpoint leads)")
      ->check(CLI::Range(0, 1 << 20));
  add_number(app, "--max-restarts", o.max_restarts,
             "Maximum consecutive restarts without a new checkpoint (default 3)", 0, 1000000);
  add_number(app, "--join-timeout", o.join_timeout_s, "Seconds to wait for missing hosts", 1.0,
             1e6);
  app.add_option(
      "--token-file", o.token_file,
      "File with the secret of the run, readable by its owner only; required with an endpoint");
  app.add_option("--links", o.links,
                 "Table of links from trireme links, the same on every host, for network.algorithm")
      ->check(CLI::ExistingFile);
  add_relay_use(app, o.relay);
  add_number(app, "--lost-after", o.lost_after_s,
             "Seconds of silence after which a host is lost and the ranks restart, the same on "
             "every host",
             1.0, 600.0);
  app.callback([&] { run = [&] { return launch(o); }; });
}

void add_sweep(CLI::App& root, SweepOptions& o, Run& run) {
  CLI::App& app = add_command(
      root, "sweep", "Run variants of a job in parallel and tabulate the results", kSweepExamples);
  add_job(app, o.job);
  app.get_option("JOB")->description("Sweep file, such as sweep.yaml");
  add_allow(app, o.job);
  app.add_option("--jobs", o.at_once, "Maximum concurrent runs (default 1)");
  app.add_option("--out", o.out, "Directory for runs and table (default: runs/SWEEP-TIME)");
  add_json_option(app, o.json);
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return sweep(o); };
  });
}

}  // namespace trireme::app
