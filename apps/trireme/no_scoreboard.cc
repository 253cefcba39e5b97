// Where TRIREME_SCOREBOARD=OFF leaves the published tables out.
#include "commands.h"
#include "trireme/base/error.h"

namespace trireme::app {

int bench_planner(const BenchPlannerOptions&) {
  fail(ErrorKind::kUsage,
       "trireme bench planner: this build, as ./dev quickstart makes it, has no scoreboard; ./dev build adds it (CMake: "
       "TRIREME_SCOREBOARD=ON)");
}

}  // namespace trireme::app
