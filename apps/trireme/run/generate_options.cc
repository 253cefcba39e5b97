// Options of generate.
#include "apps/trireme/command_options.h"

namespace trireme::app {
namespace {

constexpr char kGenerateExamples[] = R"(
Examples:
  trireme generate --checkpoint runs/first --prompt '#include <'
  trireme generate --checkpoint runs/first/checkpoints/step-100 --prompt ROMEO: --tokens 500 --temperature 1
  trireme generate --checkpoint runs/first --prompt 'Q: ' --stop 'Q:' --top-p 0.9
  trireme generate --checkpoint Qwen3-0.6B --prompt 'The oars' --temperature 0
  trireme generate --checkpoint runs/chat --chat auto             # a conversation; Ctrl-D ends it
  trireme generate --checkpoint Qwen3-0.6B --chat auto --prompt '2+2?' --temperature 1 --rollout
  trireme generate --checkpoint runs/vlm --image examples/blocks.png --prompt code? --temperature 0
)";

}  // namespace

void add_generate(CLI::App& root, GenerateOptions& o, Run& run) {
  CLI::App& app = add_command(root, "generate", "Generate text with a model", kGenerateExamples);
  app.add_option("--checkpoint", o.checkpoint,
                 "Run directory, one step-N, or a Hugging Face directory")
      ->required();
  app.add_option(
      "--tokenizer", o.tokenizer,
      "Tokenizer: bytes, or a path with the model's vocabulary (default: that of its run)");
  app.add_option("--stop", o.stops,
                 "Text that ends the output, such as <|im_end|>, in addition to the vocabulary's "
                 "end-of-text "
                 "tokens; may be repeated (default: none)")
      ->allow_extra_args(false);
  app.add_option(
      "--prompt", o.prompt,
      "Text to continue, or message to answer (--chat; default there: each line of stdin)");
  app.add_option("--chat", o.chat, "Chat template and options as in data.chat (default: none)");
  app.add_option("--image", o.image, "JPEG, PNG or WebP image for a vision-language model");
  add_number(app, "--tokens", o.tokens, "Maximum number of tokens to generate", 1, 1000000);
  add_number(app, "--temperature", o.temperature, "Sampling temperature; 0: greedy", 0.0, 100.0);
  add_number(app, "--top-k", o.top_k, "Sample from the k most probable tokens; 0: all", 0,
             std::int64_t{1} << 31);
  app.add_option("--top-p", o.top_p,
                 "Sample from the most probable tokens with this total probability; 1: all")
      ->check([](const std::string& text) {
        double p = 0;
        return CLI::detail::lexical_cast(text, p) && p > 0 && p <= 1
                   ? std::string()
                   : text + ": needs more than 0 and at most 1 (all)";
      })
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of the sampling")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--rollout", o.rollout,
               "Print a line of rollouts without its reward in place of text: token ids and "
               "log-probabilities (docs/rollouts.md)");
  app.callback([&] { run = [&] { return generate(o); }; });
}

}  // namespace trireme::app
