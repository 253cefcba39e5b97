// trireme bench planner: the scoreboard.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "trireme/base/json.h"
#include "trireme/planner/tables/scoreboard.h"

namespace trireme::app {

int bench_planner(const BenchPlannerOptions& options) {
  namespace tables = planner::tables;
  const tables::Scoreboard board =
      tables::score_directory(options.tables, tables::all_tables(), options.names);
  if (options.format == "json")
    fmt::print("{}\n", tables::json(board, options.rows).dump(2));
  else
    fmt::print("{}", tables::text(board, options.rows));
  return 0;
}

}  // namespace trireme::app
