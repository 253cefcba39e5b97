#include "bench/scoreboard/board.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"

namespace trireme::scoreboard {
namespace {

constexpr double kRounding = 1e-9;  // of sums that are exact on paper

bool at_most(const std::optional<double>& limit, const std::optional<double>& value) {
  return !limit || (value && *value <= *limit + kRounding);
}

std::vector<Case> of(const std::vector<Case>& cases, const std::string& quantity) {
  std::vector<Case> some;
  std::ranges::copy_if(cases, std::back_inserter(some),
                       [&](const Case& one) { return one.quantity == quantity; });
  return some;
}

// Of a table's cases those of a quantity.
std::optional<Score> score_beside(const CasesByTable& tables, const std::string& table,
                                  const Ability& ability) {
  const auto cases = tables.find(table);
  if (cases == tables.end()) return std::nullopt;
  const std::vector<Case> some = of(cases->second, ability.quantity);
  if (some.empty()) return std::nullopt;
  return score(some, ability.ranked, ability.measure);
}

TableScore score_table(const Table& table, const std::string& file, const Beside& beside) {
  const Csv csv = Csv::read(file);
  const std::vector<Case> cases = table.cases(csv);
  CasesByTable left_out = beside.left_out;
  if (table.left_out)
    for (Case& one : table.left_out(csv)) left_out[table.name].push_back(std::move(one));
  TableScore result{.name = table.name, .rows = csv.size()};
  std::size_t shown = 0;
  for (const Ability& ability : table.abilities) {
    AbilityScore one{.ability = ability, .cases = of(cases, ability.quantity)};
    one.score = score(one.cases, ability.ranked, ability.measure);
    one.left_out = score_beside(left_out, table.name, ability);
    one.unmeasured = score_beside(beside.unmeasured, table.name, ability);
    const Bar& bar = ability.bar;
    one.has_bar = bar.mape || bar.largest || bar.ninth || bar.tau || bar.regret;
    one.met = one.has_bar && one.score.cases > 0 && met(bar, one.score);
    shown += one.cases.size();
    result.abilities.push_back(std::move(one));
  }
  TRIREME_CHECK(shown == cases.size(),
                "table {} has cases of a quantity that is none of its abilities", table.name);
  std::set<std::size_t> told;
  for (const Case& one : cases) told.insert(one.lines.begin(), one.lines.end());
  for (std::size_t row = 0; row < csv.size(); ++row)
    if (!told.contains(csv.line(row))) result.silent.push_back(csv.line(row));
  return result;
}

std::string list(const std::vector<Table>& tables) {
  std::string names;
  for (const Table& table : tables) names += (names.empty() ? "" : ", ") + table.name;
  return names;
}

// The files NAME.csv of a directory, sorted.
std::vector<std::string> csv_files(const Path& directory) {
  std::error_code cause;
  std::vector<std::string> names;
  for (auto at = std::filesystem::directory_iterator(directory, cause);
       !cause && at != std::filesystem::directory_iterator(); at.increment(cause))
    if (at->path().extension() == ".csv") names.push_back(at->path().stem().string());
  if (cause)
    fail(ErrorKind::kUsage, "--tables {}: {}; it needs a directory of tables as CSV files",
         directory.string(), cause.message());
  std::ranges::sort(names);
  return names;
}

}  // namespace

bool met(const Bar& bar, const Score& score) {
  const auto at_least = [](const std::optional<double>& limit, const std::optional<double>& value) {
    return !limit || (value && *value >= *limit - kRounding);
  };
  return at_most(bar.mape, score.mape) && at_most(bar.largest, score.largest) &&
         at_most(bar.ninth, score.ninth) && at_least(bar.tau, score.tau) &&
         at_most(bar.regret, score.regret);
}

Scoreboard score_directory(const std::string& directory, const std::vector<Table>& known,
                           const std::vector<std::string>& names, const Beside& beside) {
  const std::vector<std::string> files = csv_files(directory);
  for (const std::string& name : names) {
    if (!std::ranges::count(known, name, &Table::name))
      fail(ErrorKind::kUsage, "--table {}: no such table; there are {}", name, list(known));
    if (!std::ranges::count(files, name))
      fail(ErrorKind::kUsage, "--table {}: {} has no file {}.csv", name, directory, name);
  }
  Scoreboard board;
  for (const Table& table : known) {
    if (!names.empty() && !std::ranges::count(names, table.name)) continue;
    if (std::ranges::count(files, table.name))
      board.tables.push_back(
          score_table(table, (Path(directory) / (table.name + ".csv")).string(), beside));
    else
      board.absent.push_back(table.name);
  }
  if (board.tables.empty())
    fail(ErrorKind::kUsage, "--tables {}: no known table in it; one is a file such as {}.csv",
         directory, known.front().name);
  if (names.empty())
    std::ranges::copy_if(files, std::back_inserter(board.others), [&](const std::string& file) {
      return !std::ranges::count(known, file, &Table::name);
    });
  return board;
}

}  // namespace trireme::scoreboard
