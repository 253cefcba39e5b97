// trireme bench planner: the scoreboard.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "trireme/base/json.h"
#include "trireme/planner/tables/fit.h"
#include "trireme/planner/tables/scoreboard.h"

namespace trireme::app {

namespace tables = planner::tables;

int bench_planner(const BenchPlannerOptions& options) {
  check_output(options.json);
  if (options.fit > 0) {
    for (const auto& [name, value] : tables::fit_again(options.tables, options.fit))
      fmt::print("{:<28} {:.4g}\n", name, value);
    return 0;
  }
  tables::Beside beside;
  if (options.unmeasured) beside.unmeasured = tables::unmeasured_cases(options.tables);
  if (options.cross_validate > 0)
    beside.left_out =
        tables::left_out_cases(options.tables, options.cross_validate,
                               [](const std::string& what) { fmt::print(stderr, "{}\n", what); });
  const tables::Scoreboard board =
      tables::score_directory(options.tables, tables::all_tables(), options.names, beside);
  if (options.format == "json")
    fmt::print("{}\n", tables::json(board, options.rows).dump(2));
  else
    fmt::print("{}", tables::text(board, options.rows));
  write_json(options.json, tables::json(board, options.rows));
  return 0;
}

}  // namespace trireme::app
