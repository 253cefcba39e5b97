// trireme bench: the worker measures and prints.
#include "commands.h"
#include "trireme/base/error.h"
#include "workers.h"

namespace trireme::app {

int bench_collectives(const BenchCollectivesOptions& options) {
  std::string ranks;
  for (const int count : options.ranks)
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", count);
  std::vector<std::string> words = {"bench-collectives", "--ranks", ranks};
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
  become_worker(words, {});
}

}  // namespace trireme::app
