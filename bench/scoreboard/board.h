// Scoreboard: every ability on a directory of tables, beside its bar, the null model and the published peer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/scoreboard/registry.h"
#include "trireme/base/json.h"

namespace trireme::scoreboard {

// One ability on the rows that are there.
struct AbilityScore {
  Ability ability;
  Score score;
  std::optional<Score> left_out;    // forecast without the group of each case
  std::optional<Score> unmeasured;  // forecast as if no run had been seen
  std::vector<Case> cases;
  bool has_bar = false;
  bool met = false;  // of a bar, on at least one case

  std::size_t unscored() const { return cases.size() - score.cases; }
};

struct TableScore {
  std::string name;
  std::size_t rows = 0;
  std::vector<AbilityScore> abilities;
  std::vector<std::size_t> silent;  // lines that no case is about
};

struct Scoreboard {
  std::vector<TableScore> tables;
  std::vector<std::string> absent;  // known tables without a file
  std::vector<std::string> others;  // files that nothing is forecast of
};

// Whether every limit that the bar names holds; a bar without limits holds. A limit on what the score lacks does not.
bool met(const Bar& bar, const Score& score);

// By table, cases that were forecast by other constants.
using CasesByTable = std::map<std::string, std::vector<Case>>;
struct Beside {
  CasesByTable left_out;    // without their groups, beside those a table gives itself
  CasesByTable unmeasured;  // as if no run had been seen
};

// Scores those of `known` that are in `directory`, or of them those named. Throws Error{kUsage} for a directory that is
// none or holds no known table, and for names that are unknown or not there; Error{kData} for files that cannot be read.
Scoreboard score_directory(const std::string& directory, const std::vector<Table>& known,
                           const std::vector<std::string>& names = {}, const Beside& beside = {});

// For people: a line for each ability; with `rows` one for each case.
std::string text(const Scoreboard& board, bool rows);

// docs/planner.md has the keys.
Json json(const Scoreboard& board, bool rows);

}  // namespace trireme::scoreboard
