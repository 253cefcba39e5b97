// trireme generate: finds the checkpoint; the worker computes.
#include "commands.h"
#include "run_directory.h"
#include "trireme/base/error.h"
#include "workers.h"

namespace trireme::app {

int generate(const GenerateOptions& options) {
  const Path checkpoint = find_checkpoint(options.checkpoint);
  become_worker({"generate", "--checkpoint", checkpoint.string(), "--prompt", options.prompt, "--tokens",
                 std::to_string(options.tokens), "--temperature", fmt::format("{:.17g}", options.temperature), "--top-k",
                 std::to_string(options.top_k), "--seed", std::to_string(options.seed)},
                {});
}

}  // namespace trireme::app
