#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/scoreboard/board.h"
#include "tests/formats/scratch.h"
#include "trireme/base/fs.h"

namespace trireme::scoreboard::scoreboard_test {
namespace {

using formats::refusal;
using formats::Scratch;
using testing::ElementsAre;
using testing::HasSubstr;

// Forecasts half of the measured step time and a tenth too much memory.
std::vector<Case> cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& name = csv.text(row, "name");
    if (name == "skipped") continue;
    Case time{.row = name,
              .quantity = "step time",
              .unit = "s",
              .group = csv.text(row, "group"),
              .measured = csv.need(row, "seconds"),
              .lines = {csv.line(row)}};
    time.forecast = time.measured / 2;
    time.low = time.measured / 4, time.high = time.measured * (row == 0 ? 1.5 : 0.75);
    time.null = 4;
    all.push_back(time);
    Case memory{.row = name, .quantity = "memory", .unit = "GB", .lines = {csv.line(row)}};
    if (const auto gigabytes = csv.number(row, "GB"))
      memory.measured = *gigabytes, memory.forecast = *gigabytes + 1;
    else
      memory.unscored = "no memory in its row";
    all.push_back(memory);
  }
  return all;
}

std::vector<Case> left_out(const Csv& csv) {
  std::vector<Case> all = cases(csv);
  for (Case& one : all) one.forecast *= 1.25;
  return all;
}

std::vector<Table> known() {
  return {
      {.name = "runs",
       .abilities = {{.quantity = "step time",
                      .ranked = true,
                      .bar = {.mape = 60, .tau = 0.7, .regret = 3},
                      .peer = "Another 12, max 30",
                      .null = "always 4 s"},
                     {.quantity = "memory", .measure = Measure::kPoints, .bar = {.largest = 0.5}},
                     {.quantity = "money", .bar = {.mape = 1}}},
       .cases = cases,
       .left_out = left_out},
      {.name = "elsewhere", .abilities = {}, .cases = cases}};
}

constexpr char kRuns[] =
    "name,group,seconds,GB\n"
    "tp 8,a,4,30\n"
    "tp 4,a,5,\n"
    "skipped,a,1,1\n"
    "pp 2,b,8,40\n"
    "pp 4,b,6,41\n";

TEST(Scoreboard, Golden) {
  const Scratch desk;
  desk.write("runs.csv", kRuns);
  desk.write("prices.csv", "gpu,dollars\nH100,2\n");
  const Scoreboard board = score_directory(desk.path(), known());
  const Path path = Path(TRIREME_SOURCE_DIR) / "tests" / "golden" / "scoreboard.txt";
  const std::string now = text(board, true) + "\n" + json(board, true).dump(1) + "\n";
  if (std::getenv("TRIREME_UPDATE_GOLDEN") != nullptr) replace_file(path, now);
  EXPECT_EQ(now, read_file(path));
}

TEST(Scoreboard, ScoresWhatIsThere) {
  const Scratch desk;
  desk.write("runs.csv", kRuns);
  const Scoreboard board = score_directory(desk.path(), known(), {"runs"});
  ASSERT_EQ(board.tables.size(), 1U);
  const TableScore& runs = board.tables[0];
  EXPECT_EQ(runs.rows, 5U);
  EXPECT_THAT(runs.silent, ElementsAre(4));
  EXPECT_TRUE(runs.abilities[0].met);
  EXPECT_EQ(runs.abilities[0].score.mape, 50);
  EXPECT_EQ(runs.abilities[0].left_out->mape, 37.5);
  EXPECT_EQ(runs.abilities[1].unscored(), 1U);
  EXPECT_FALSE(runs.abilities[1].met);
  EXPECT_FALSE(runs.abilities[2].met);
  EXPECT_EQ(runs.abilities[2].score.cases, 0U);
  EXPECT_TRUE(board.absent.empty());
}

TEST(Scoreboard, RefusesWhatItCannotScore) {
  const Scratch desk;
  const auto of = [&](std::vector<std::string> names, ErrorKind kind = ErrorKind::kUsage) {
    return refusal([&] { score_directory(desk.path(), known(), names); }, kind);
  };
  EXPECT_THAT(refusal([&] { score_directory(desk / "absent", known()); }, ErrorKind::kUsage),
              HasSubstr("needs a directory of tables"));
  EXPECT_THAT(of({}), HasSubstr("no known table in it; one is a file such as runs.csv"));
  EXPECT_THAT(of({"sums"}), HasSubstr("--table sums: no such table; there are runs, elsewhere"));
  EXPECT_THAT(of({"runs"}), HasSubstr("has no file runs.csv"));
  desk.write("runs.csv", "name,group,seconds,GB\nx,y,soon,1\n");
  EXPECT_THAT(of({}, ErrorKind::kData), HasSubstr("runs.csv:2: seconds 'soon' is no number"));
  desk.write("runs.csv", "name,group,GB\nx,y,1\n");
  EXPECT_THAT(of({}, ErrorKind::kData), HasSubstr("runs.csv: no column 'seconds'"));
}

TEST(Scoreboard, BarsHoldOnlyWhereTheScoreHasWhatTheyAsk) {
  const Score score{.cases = 2, .mape = 4, .largest = 8, .ninth = 7, .tau = 0.7};
  EXPECT_TRUE(met({}, score));
  EXPECT_TRUE(met({.mape = 4, .largest = 8, .ninth = 7, .tau = 0.7}, score));
  EXPECT_FALSE(met({.mape = 3.9}, score));
  EXPECT_FALSE(met({.largest = 7.9}, score));
  EXPECT_FALSE(met({.ninth = 6.9}, score));
  EXPECT_FALSE(met({.tau = 0.71}, score));
  EXPECT_FALSE(met({.regret = 3}, score));
}

}  // namespace
}  // namespace trireme::scoreboard::scoreboard_test
