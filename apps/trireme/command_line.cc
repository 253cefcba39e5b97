#include "command_line.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "command_options.h"
#include "command_words.h"
#include "json_output.h"
#include "trireme/base/error.h"
#include "trireme/config/fields/fields.h"

namespace trireme::app {

void take_assignments(CLI::App& app, JobOptions& job) {
  // Without a JOB the first assignment is in its place.
  if (const std::size_t is = job.file.find('=');
      is != std::string::npos && config::find_field(job.file.substr(0, is)) != nullptr)
    job.assignments.push_back(std::exchange(job.file, {}));
  for (const std::string& word : app.remaining()) {
    const bool option = word.starts_with("--");
    if (option && (word.find('.') == std::string::npos || word.find('=') == std::string::npos))
      refuse_option(app, word);
    if (!option && word.find('=') == std::string::npos)
      fail(ErrorKind::kUsage, "unexpected argument {}; keys are set as section.key=value", word);
    job.assignments.push_back(word);
  }
}

void add_job_file(CLI::App& app, JobOptions& job) {
  app.add_option("JOB", job.file, "Job file, YAML or JSON");
  app.add_option("--phase", job.phase,
                 "Phase of a job with phases (default: train runs all, other commands require it)");
  app.add_option("--set", job.assignments, "Key of the job as section.key=value; may be repeated")
      ->allow_extra_args(false);
  app.allow_extras();
}

void add_job(CLI::App& app, JobOptions& job) {
  add_job_file(app, job);
  app.add_option("--ranks", job.ranks,
                 "Number of ranks as threads of one process (default: from the launcher, else 1)");
  app.add_option("--nproc", job.nproc,
                 "Number of ranks as processes of this machine, instead of --ranks");
}

namespace {

// Of a group's examples those of one of its commands.
std::string examples_of(const CLI::App& group, const std::string& name, const char* examples) {
  const std::string ours = "  trireme " + group.get_name() + " " + name;
  std::istringstream lines(examples);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool own = line == ours || line.starts_with(ours + " ");
    if (own || !line.starts_with("  trireme ")) text += line + "\n";
  }
  return text;
}

}  // namespace

CLI::App& add_command(CLI::App& parent, const char* name, const char* about, const char* examples) {
  CLI::App& app = *parent.add_subcommand(name, about);
  app.footer(parent.get_parent() == nullptr ? examples : examples_of(parent, name, examples));
  return app;
}

namespace {

constexpr char kAbout[] =
    "Distributed training of large neural networks from validated step plans.";

constexpr char kCheckpointExamples[] = R"(
Examples:
  trireme checkpoint ls runs/first
  trireme checkpoint inspect runs/first/checkpoints/step-100
  trireme checkpoint verify runs/first                    # reads all bytes of all checkpoints
  trireme checkpoint diff runs/first runs/second
  trireme checkpoint reshard runs/first other --to tp=2,dp_shard=2,zero=1
  trireme checkpoint convert runs/first for_transformers  # or back, from a directory with config.json
  trireme checkpoint convert runs/lora adapter            # in the form of PEFT; --merge: the whole model
  trireme checkpoint convert adapter lora --base MODEL    # from PEFT
  trireme checkpoint convert recipes/vjepa_vitl.yaml --list
  trireme checkpoint ls runs/first --json -
)";

constexpr char kDataExamples[] = R"(
Examples:
  trireme data prepare book.txt --out data/book --tokenizer characters --validation tail:0.1
  trireme data prepare src --extension .h --extension .cc --out data/code --tokenizer bpe:4096
  trireme data prepare corpus --out data/corpus --tokenizer tokenizer.json --end-of-document '<|endoftext|>'
  trireme data inspect data/book
  trireme data inspect data/book --json -
  trireme data verify data/book
  trireme data prepare more --out data/more --tokenizer data/code     # uses the same vocabulary
  trireme data tokenizer data/code --out tokenizer.json
  trireme data synth vlm data/scenes --count 5000
)";

constexpr char kDiffExamples[] = R"(
A layout is key=value,key=value. Keys without a section belong to `parallel`; recompute.*, offload.*,
precision.numerics, precision.group and run.micro_batch are allowed too. Omitted degrees are 1, and other keys are the
job's. Ranks are threads of one process. A job without data.path uses random tokens.

Examples:
  trireme diff recipes/gpt_tiny.yaml --layouts tp=2
  trireme diff recipes/llama_tiny.yaml --layouts dp_shard=2,zero=3 tp=2,cp=2 --against tp=1
  trireme diff job.yaml --layouts recompute.policy=full --dtype bf16 --steps 4 --all
  trireme diff job.yaml --set data.path=data/book --layouts dp_shard=4 dp_shard=4,zero=2 --json diff.json

Exit codes: 0 all tensors within the tolerance, 1 some outside, 2 usage or config.
)";

constexpr char kDoctorExamples[] = R"(
Examples:
  trireme doctor        # runs and reports each capability; exit code 0 only if all work
  trireme doctor --json checks.json
)";

TrainOptions parse_train(const std::vector<std::string>& words) {
  if (words.empty() || words.front() != "train")
    fail(ErrorKind::kUsage, "trireme launch needs `-- train JOB.yaml ...` at its end{}",
         words.empty() ? "" : ", not " + words.front());
  TrainOptions options;
  Run unused;
  CLI::App root;
  add_train(root, options, unused);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
  try {
    root.parse(reversed);
  } catch (const CLI::ParseError& error) {
    refuse_words(*root.get_subcommand("train"), error, words);
  }
  if (options.job.ranks || options.job.nproc)
    fail(ErrorKind::kUsage,
         "after trireme launch --, --ranks and --nproc have no effect; use "
         "--nproc-per-node before the --");
  return options;
}

void add_checkpoint(CLI::App& root, CheckpointCommands& o, Run& run) {
  CLI::App& group = add_command(root, "checkpoint", "List, inspect, verify and rewrite checkpoints",
                                kCheckpointExamples);
  group.require_subcommand(1);
  const auto add = [&](const char* name, const char* about, int (*body)(const CheckpointOptions&)) {
    CLI::App& app = add_command(group, name, about, kCheckpointExamples);
    app.add_option("PATH", o.look.path, "Run directory, its checkpoints, or one step-N")
        ->required();
    add_json_option(app, o.look.json);
    app.callback([&run, &o, body] { run = [&o, body] { return body(o.look); }; });
  };
  add("ls", "List the checkpoints of a run and their state", checkpoint_ls);
  add("inspect", "Show the content of a checkpoint", checkpoint_inspect);
  add("verify", "Verify all bytes of one or all checkpoints", checkpoint_verify);
  CLI::App& diff =
      add_command(group, "diff", "Compare two checkpoints of any layouts", kCheckpointExamples);
  diff.add_option("A", o.diff.a, "Run directory or one step-N")->required();
  diff.add_option("B", o.diff.b, "Run directory or one step-N to compare with")->required();
  add_json_option(diff, o.diff.json);
  diff.callback([&] { run = [&] { return checkpoint_diff(o.diff); }; });
  CLI::App& reshard =
      add_command(group, "reshard", "Rewrite a checkpoint for another layout", kCheckpointExamples);
  reshard.add_option("PATH", o.reshard.path, "Run directory or one step-N")->required();
  reshard.add_option("OUT", o.reshard.out, "Directory for the new step-N")->required();
  reshard.add_option("--to", o.reshard.to, "Layout, such as tp=2,pp=2; omitted degrees are 1")
      ->required();
  reshard.callback([&] { run = [&] { return checkpoint_reshard(o.reshard); }; });
  CLI::App& convert = add_command(group, "convert",
                                  "Convert to and from Hugging Face: GPT-2, Llama and relatives, "
                                  "GPT-NeoX, ViT, CLIP, LLaVA, V-JEPA 2",
                                  kCheckpointExamples);
  convert
      .add_option("PATH", o.convert.path,
                  "Run directory, step-N, or directory with config.json or adapter_config.json; "
                  "with --list "
                  "also a job file")
      ->required();
  convert.add_option("OUT", o.convert.out, "Directory to write; not with --list");
  convert
      .add_option(
          "--set", o.convert.assignments,
          "Key as section.key=value of the job made from a Hugging Face model, or of the job file "
          "with --list; may be repeated")
      ->allow_extra_args(false);
  convert.add_flag("--merge", o.convert.merge,
                   "Merge LoRA adapters into the weights (default: write them as a PEFT adapter)");
  convert.add_option("--base", o.convert.base,
                     "Hugging Face directory of the model of a PEFT adapter (default: the one that "
                     "adapter_config.json names)");
  convert.add_flag("--list", o.convert.list,
                   "Print name, type and shape of each Hugging Face tensor without writing files");
  add_json_option(convert, o.convert.json);
  convert.callback([&] { run = [&] { return checkpoint_convert(o.convert); }; });
}

void add_data(CLI::App& root, PrepareOptions& p, DatasetOptions& d, TokenizerOptions& t,
              SynthOptions& s, Run& run) {
  CLI::App& group =
      add_command(root, "data", "Prepare, inspect, verify and generate datasets", kDataExamples);
  group.require_subcommand(1);
  CLI::App& prepare =
      add_command(group, "prepare", "Tokenize text files into a token dataset", kDataExamples);
  prepare.add_option("INPUT", p.inputs, "Text files and directories")->required();
  prepare.add_option("--out", p.out, "Directory of the dataset")->required();
  prepare.add_option(
      "--tokenizer", p.tokenizer,
      "Tokenizer: bytes, characters, bpe:N (N tokens, 257 to 1048576, learned from the "
      "training split), a Hugging Face tokenizer.json, or a run, checkpoint or dataset "
      "with a vocabulary (default bytes)");
  prepare.add_option(
      "--validation", p.validation,
      "Held-out data: documents:FRACTION or documents:N (default for several files: 0.1), or "
      "tail:FRACTION of the text (default for one file: 0.1)");
  prepare
      .add_option("--extension", p.extensions,
                  "File name extension; may be repeated (default: all)")
      ->allow_extra_args(false);
  prepare.add_option("--end-of-document", p.end_of_document,
                     "Added token after each file (default: none)");
  prepare
      .add_option(
          "--special", p.special,
          "Special token of the vocabulary of bpe:N, such as <|endoftext|>, included in N; may be "
          "repeated (default: none)")
      ->allow_extra_args(false);
  prepare.add_flag("--binary", p.binary, "Accept binary files, byte for byte");
  prepare.add_flag("--force", p.force, "Replace a dataset at --out");
  prepare.callback([&] { run = [&] { return data_prepare(p); }; });
  const auto add = [&](const char* name, const char* about, int (*body)(const DatasetOptions&)) {
    CLI::App& app = add_command(group, name, about, kDataExamples);
    app.add_option(
           "DATASET", d.path,
           "Directory written by data prepare; or pictures, clips and trajectories as a directory, "
           ".tar ('train-*.tar') or list (.json, .csv)")
        ->required();
    add_json_option(app, d.json);
    app.callback([&run, &d, body] { run = [&d, body] { return body(d); }; });
  };
  add("inspect", "Show the content of a dataset", data_inspect);
  add("verify", "Verify all bytes of a dataset and decode all samples", data_verify);
  CLI::App& tokenizer = add_command(
      group, "tokenizer", "Show a vocabulary, or export it as a tokenizer.json", kDataExamples);
  tokenizer
      .add_option(
          "PATH", t.path,
          "File tokenizer.json or vocabulary.json, or a run, checkpoint, dataset or Hugging Face "
          "directory with one")
      ->required();
  tokenizer.add_option("--out", t.out, "File tokenizer.json to write (default: none)");
  add_json_option(tokenizer, t.json);
  tokenizer.callback([&] { run = [&] { return data_tokenizer(t); }; });
  add_synth(group, s, run);
}

void add_diff(CLI::App& root, DiffOptions& o, Run& run) {
  CLI::App& app =
      add_command(root, "diff", "Compare two layouts of a job, tensor by tensor", kDiffExamples);
  add_job_file(app, o.job);
  app.add_option(
         "--layouts", o.layouts,
         "Layouts to compare: one with --against or one rank, several with --against or the first")
      ->required();
  app.add_option("--against", o.against, "Reference layout");
  add_number(app, "--steps", o.steps, "Number of steps from the first", 1, 100000);
  app.add_option("--dtype", o.dtype, "precision.compute of both sides")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16"}))
      ->capture_default_str();
  app.add_option(
      "--tolerance", o.tolerance,
      "Maximum relative norm of a difference (default 1e-11 in fp64, 1e-4 in fp32, 0.05 in "
      "bf16)");
  add_json_option(app, o.json);
  app.add_flag("--all", o.all, "Print a line for every tensor");
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return diff(o); };
  });
}

struct MachineOptions {
  std::string doctor_json;
  int process = 0;
};

// The commands about this machine, its processes and this program.
void add_machine(CLI::App& root, MachineOptions& o, Run& run) {
  CLI::App& doctor_command = add_command(
      root, "doctor", "Test the capabilities of this machine by running them", kDoctorExamples);
  add_json_option(doctor_command, o.doctor_json);
  doctor_command.callback([&] { run = [&] { return doctor(o.doctor_json); }; });
  CLI::App& stack_command =
      add_command(root, "stack", "Print the stacks of the threads of a process",
                  "\nExamples:\n  trireme stack 1234\n");
  stack_command.add_option("PID", o.process, "Process ID")->required()->check(CLI::PositiveNumber);
  stack_command.callback([&] { run = [&] { return stack(o.process); }; });
  add_command(root, "version", "Print the versions of Trireme and its compiler",
              "\nExamples:\n  trireme version\n")
      .callback([&] { run = version; });
}

}  // namespace

int run_command_line(int argc, char** argv) {
  TrainOptions train_options;
  SweepOptions sweep_options;
  LaunchOptions launch_options;
  HostCommands host_options;
  FinetuneOptions finetune_options;
  ExplainOptions explain_options;
  PlanOptions plan_options;
  CheckpointCommands checkpoint_options;
  PrepareOptions prepare_options;
  DatasetOptions dataset_options;
  TokenizerOptions tokenizer_options;
  SynthOptions synth_options;
  GenerateOptions generate_options;
  EvaluateOptions evaluate_options;
  PredictOptions predict_options;
  BenchOptions bench_options;
  DiffOptions diff_options;
  MachineOptions machine_options;
  Run run;

  CLI::App root(kAbout, "trireme");
  root.set_version_flag("--version", std::string("trireme ") + TRIREME_VERSION);
  root.require_subcommand(1);
  root.footer("\ntrireme COMMAND --help shows the options and examples of a command.");
  add_train(root, train_options, run);
  add_finetune(root, finetune_options, run);
  add_launch(root, launch_options, run);
  add_hosts(root, host_options, run);
  add_explain(root, explain_options, run);
  add_plan(root, plan_options, run);
  add_sweep(root, sweep_options, run);
  add_checkpoint(root, checkpoint_options, run);
  add_data(root, prepare_options, dataset_options, tokenizer_options, synth_options, run);
  add_generate(root, generate_options, run);
  add_evaluate(root, evaluate_options, run);
  add_predict(root, predict_options, run);
  add_bench(root, bench_options, run);
  add_diff(root, diff_options, run);
  add_machine(root, machine_options, run);
  CompletionOptions completion_options;
  add_completion(root, completion_options, run);

  take_help(argc, argv);
  char** const ours = std::find(argv, argv + argc, std::string_view("--"));
  const bool launching = argc > 1 && std::string_view(argv[1]) == "launch";
  try {
    root.parse(launching ? static_cast<int>(ours - argv) : argc, argv);
    if (launching) {
      launch_options.command.assign(std::min(ours + 1, argv + argc), argv + argc);
      launch_options.train = parse_train(launch_options.command);
    }
  } catch (const CLI::ParseError& error) {
    const bool unknown_command = root.get_subcommands().empty() && argc > 1 && argv[1][0] != '-';
    if (error.get_exit_code() == 0 && !unknown_command) return root.exit(error);
    refuse(root, error, argc, argv);
  }
  train_options.command = finetune_options.command = typed(argc, argv);
  return run_with_json(innermost(root), run);
}

}  // namespace trireme::app
