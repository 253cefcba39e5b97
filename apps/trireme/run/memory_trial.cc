#include "memory_trial.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"

namespace trireme::app {
namespace {

// The nearest directory at or above it that exists.
Path existing(const Path& path) {
  Path above = std::filesystem::absolute(path).lexically_normal();
  while (!std::filesystem::is_directory(above) && above.has_relative_path())
    above = above.parent_path();
  return above;
}

}  // namespace

std::optional<std::int64_t> try_memory(const Planned& planned, const Place& place,
                                       const Path& run) {
  const std::string result = job_in_memory("");
  std::vector<std::string> words = {"try-memory",
                                    "--job",
                                    job_in_memory(config::print_yaml(planned.job)),
                                    "--json",
                                    result,
                                    "--scratch",
                                    existing(run).string()};
  const elastic::Outcome outcome = run_ranks(std::move(words), place);
  if (outcome.exit_code == 0) {
    std::int64_t most = 0;
    for (const Json& rank : parse_json(read_file(result), "the trial's result"))
      most = std::max(most, rank.get<std::int64_t>());
    return most;
  }
  // The kernel's kill for lack of memory, and the trial's own exit code.
  if (outcome.signal == SIGKILL || outcome.exit_code == exit_code(ErrorKind::kOutOfMemory))
    return std::nullopt;
  fail(outcome.signal != 0 ? ErrorKind::kInternal : ErrorKind::kUsage,
       "the trial of run.micro_batch={} ended with exit code {}{}{}; set run.micro_batch to a "
       "number other than 0",
       planned.job.run.micro_batch, outcome.exit_code, outcome.cause.empty() ? "" : ": ",
       outcome.cause);
}

}  // namespace trireme::app
