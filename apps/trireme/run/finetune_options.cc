// Options of finetune.
#include "apps/trireme/command_options.h"
#include "apps/trireme/environment.h"

namespace trireme::app {
namespace {

constexpr char kFinetuneExamples[] = R"(
The command takes model, vocabulary and chat template from MODEL_DIR. It chooses row length, batch and steps by the
data. The planner chooses micro-batch, layout and recomputation for the cores and the free memory of this machine. The
job is RUN/job.yaml. Keys after DATA are the job's and are kept.

Examples:
  trireme finetune Qwen3-0.6B chats.jsonl --out runs/mine          # repeated: resumes
  trireme finetune Qwen3-0.6B chats.jsonl --dry-run
  trireme finetune Llama-3.2-1B chats --lora 64 --epochs 1 optim.lr=1e-4 lora.targets=attention
  trireme finetune Qwen3-0.6B pairs.jsonl preference.beta=0.2      # DPO
  trireme finetune Qwen3-0.6B rollouts.jsonl preference.kl=0.04    # GRPO
  trireme finetune SmolLM3-3B chats.jsonl --full --steps 200 model.seq_len=1024 'data.chat=auto long=cut'
  trireme generate --checkpoint runs/mine --chat auto --prompt 'Who are you?'

Exit codes: those of trireme train, and 6 if no layout fits in memory.
)";

}  // namespace

void add_finetune(CLI::App& root, FinetuneOptions& o, Run& run) {
  CLI::App& app = add_command(
      root, "finetune", "Fine-tune a Hugging Face model on conversations, preferences or rollouts",
      kFinetuneExamples);
  app.add_option("MODEL_DIR", o.model,
                 "Hugging Face directory with config.json, tensors and tokenizer")
      ->required();
  app.add_option(
         "DATA", o.data,
         "A .jsonl file of conversations, compared answers or rollouts, or a directory of them")
      ->required();
  app.add_option("--out", o.out, "Run directory (default: runs/MODEL-TIME)");
  CLI::Option* const lora = app.add_option("--lora", o.rank, "Rank of the LoRA adapters that train")
                                ->check(CLI::Range(1, 65536))
                                ->capture_default_str();
  app.add_flag("--full", o.full, "Train all parameters instead of adapters")->excludes(lora);
  CLI::Option* const epochs =
      app.add_option("--epochs", o.epochs,
                     "Number of passes over the data (default: 3, over rollouts 1)")
          ->check(CLI::Range(1e-6, 1e6));
  app.add_option("--steps", o.steps, "Number of steps, instead of --epochs")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->excludes(epochs);
  app.add_option("--ranks", o.job.ranks,
                 "Number of ranks (default: one per core, or per GPU of a host of --cluster)")
      ->check(CLI::Range(1, kMostLocal));
  app.add_option(
      "--cluster", o.cluster,
      "Cluster of GPUs to plan for, a shipped one (docs/clusters.md) or a file (default: "
      "the cores of this machine)");
  app.add_flag("--dry-run", o.dry_run, "Print the choices and the job without writing files");
  app.add_option("--set", o.job.assignments, "Key of the job as section.key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_flag_callback(
      "--no-calibrate", [&o] { o.calibrate = false; },
      "Do not measure this machine for the planner before its first run (up to 5 s)");
  app.allow_extras();
  app.callback([&] {
    take_assignments(app, o.job);
    run = [&] { return finetune(o); };
  });
}

}  // namespace trireme::app
