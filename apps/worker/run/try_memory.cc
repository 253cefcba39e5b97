// trireme-worker try-memory: two steps of a job, to measure their memory; it may be killed for that, and leaves no
// files.
#include <c10/util/Exception.h>

#include <cstdio>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>

#include "apps/worker/memory/memory.h"
#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/train/run/memory_trial.h"

namespace trireme::app {
namespace {

// Where the kernel must kill something for want of memory, it takes this process first.
void volunteer() { std::ofstream("/proc/self/oom_score_adj") << 1000; }

}  // namespace

int try_memory(const Arguments& arguments) {
  constexpr int kSteps = 2;
  volunteer();
  if (std::freopen("/dev/null", "w", stdout) == nullptr)
    fail(ErrorKind::kInternal, "cannot open /dev/null");
  const Path file = arguments.text("job");
  const config::Job job = config::parse_job(read_file(file), file.string());
  try {
    run_ranks_here(arguments.number<int>("ranks", 1), job, [&](comm::World& world) {
      const train::MemoryTrial trial =
          train::try_memory(job, world, &charged_here(), kSteps, arguments.text("scratch"));
      Json all = Json::array();
      for (const std::string& bytes : world.exchange(std::to_string(trial.measured.steps)))
        all.push_back(std::stoll(bytes));
      if (world.rank() == 0) std::ofstream(arguments.text("json")) << all.dump();
    });
  } catch (const std::bad_alloc&) {
    return exit_code(ErrorKind::kOutOfMemory);
  } catch (const c10::OutOfMemoryError&) {  // of a GPU
    return exit_code(ErrorKind::kOutOfMemory);
  }
  return 0;
}

}  // namespace trireme::app
