// scoreboard: the planner's forecasts beside published measurements, table by table.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/guard.h"
#include "bench/scoreboard/board.h"
#include "bench/scoreboard/fit.h"

namespace trireme::scoreboard {
namespace {

struct Options {
  std::string directory;
  std::vector<std::string> names;
  std::string format = "text";
  bool rows = false;
  bool unmeasured = false;
  int cross_validate = 0;
  int fit = 0;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--tables", options.directory, "directory of the tables, as CSV files")
      ->required();
  app.add_option("--table", options.names, "only this table; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--format", options.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_flag("--rows", options.rows, "every measurement with its forecast");
  app.add_option("--cross-validate", options.cross_validate,
                 "fit the constants anew as often as a table has groups of runs, each time without "
                 "one group of every "
                 "table, in at most so many trials (300 take minutes), and score the forecasts of "
                 "the groups left out")
      ->check(CLI::Range(1, 100000));
  app.add_flag("--unmeasured", options.unmeasured,
               "score also the forecasts for a GPU of which nothing was measured");
  app.add_option("--fit", options.fit,
                 "fit the constants again in at most so many trials, and print them")
      ->check(CLI::Range(1, 100000));
}

int run(const Options& options) {
  if (options.fit > 0) {
    for (const auto& [name, value] : fit_again(options.directory, options.fit))
      fmt::print("{:<28} {:.4g}\n", name, value);
    return 0;
  }
  Beside beside;
  if (options.unmeasured) beside.unmeasured = unmeasured_cases(options.directory);
  if (options.cross_validate > 0)
    beside.left_out =
        left_out_cases(options.directory, options.cross_validate,
                       [](const std::string& what) { fmt::print(stderr, "{}\n", what); });
  const Scoreboard board = score_directory(options.directory, all_tables(), options.names, beside);
  fmt::print("{}", options.format == "json" ? json(board, options.rows).dump(2) + "\n"
                                            : text(board, options.rows));
  return 0;
}

}  // namespace
}  // namespace trireme::scoreboard

int main(int argc, char** argv) {
  CLI::App app{"The planner's forecasts beside published measurements, table by table.",
               "scoreboard"};
  trireme::scoreboard::Options options;
  trireme::scoreboard::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  return trireme::app::guarded([&] { return trireme::scoreboard::run(options); });
}
