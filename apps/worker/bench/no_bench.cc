// Where TRIREME_BENCH=OFF leaves out all benchmarks but the calibration, which training uses.
#include "apps/worker/subcommands.h"
#include "trireme/base/error.h"

namespace trireme::app {
namespace {

[[noreturn]] void no_bench(const char* name) {
  fail(ErrorKind::kUsage,
       "trireme bench {}: this build, as ./dev quickstart makes it, has no benchmarks; ./dev build "
       "adds them (CMake: "
       "TRIREME_BENCH=ON)",
       name);
}

}  // namespace

int bench_context(const Arguments&) { no_bench("context"); }
int bench_kernels(const Arguments&) { no_bench("kernels"); }
int bench_memory(const Arguments&) { no_bench("memory"); }
int bench_pipeline(const Arguments&) { no_bench("pipeline"); }
int bench_recompute(const Arguments&) { no_bench("recompute"); }
int bench_step(const Arguments&) { no_bench("step"); }

}  // namespace trireme::app
