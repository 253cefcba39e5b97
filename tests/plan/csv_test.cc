#include "trireme/plan/schedules/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::schedules::csv_test {
namespace {

using testing::HasSubstr;

using Rows = std::vector<std::vector<std::string>>;

Rows cells_of(const std::string& csv) {
  Rows rows(1, std::vector<std::string>(1));
  for (const char c : csv) {
    if (c == '\n')
      rows.emplace_back(1);
    else if (c == ',')
      rows.back().emplace_back();
    else
      rows.back().back() += c;
  }
  rows.pop_back();
  return rows;
}

std::string csv_of(const Rows& rows) {
  std::string csv;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) csv += (i == 0 ? "" : ",") + row[i];
    csv += '\n';
  }
  return csv;
}

std::string refusal(const std::string& csv) {
  try {
    read_csv(csv);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "accepted";
}

std::vector<Grid> grids() {
  std::vector<Grid> all;
  for (int i = 0; i < kScheduleCount; ++i)
    for (const auto& [p, m] : {std::pair{2, 4}, {3, 6}, {4, 8}, {5, 10}}) {
      const auto schedule = static_cast<Schedule>(i);
      all.push_back(
          make_grid(schedule, {.ranks = p, .chunks = chunks_of(schedule, 0), .micro_batches = m}));
    }
  all.push_back(make_grid(Schedule::kInterleaved, {.ranks = 2, .chunks = 3, .micro_batches = 4}));
  all.push_back(make_grid(Schedule::kZbH1, {.ranks = 1, .micro_batches = 3}));
  return all;
}

TEST(Csv, ReadsWhatItWrites) {
  for (const Grid& grid : grids()) {
    EXPECT_EQ(read_csv(compute_csv(grid)), grid);
    EXPECT_EQ(read_csv(lowered_csv(grid)), grid);
    EXPECT_EQ(read_csv(lowered_csv(grid, 1)), grid);
  }
}

TEST(Csv, LinesUpByTime) {
  const Grid grid = make_grid(Schedule::k1F1B, {.ranks = 3, .micro_batches = 3});
  EXPECT_EQ(compute_csv(grid),
            "0F0,0F1,0F2,,,0B0,,0B1,,0B2\n"
            ",1F0,1F1,,1B0,1F2,1B1,,1B2\n"
            ",,2F0,2B0,2F1,2B1,2F2,2B2\n");
}

// anchors.md, "Lowering check (PyTorch)".
TEST(Csv, UnshardsBeforeTheFirstUseAndReshardsAfterTheLast) {
  EXPECT_EQ(lowered_csv(read_csv("0F0,0F1,,0B0,0B1\n")),
            "0UNSHARD,0F0,0F1,0B0,0B1,0REDUCE_GRAD,0RESHARD\n");
  EXPECT_EQ(lowered_csv(read_csv("0F0,1F0,1B0,0B0"), 1),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1REDUCE_GRAD,1RESHARD,0UNSHARD,0B0,"
            "0REDUCE_GRAD,0RESHARD\n");
}

TEST(Csv, SendsAndReceivesBetweenRanks) {
  EXPECT_EQ(lowered_csv(make_grid(Schedule::kGpipe, {.ranks = 2, .micro_batches = 1})),
            "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
            "1RECV_F0,1UNSHARD,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n");
}

// What a cell receives, of which stage's send.
std::string sender(const std::string& cell) {
  const std::size_t at = cell.find("RECV_");
  const int stage = std::stoi(cell.substr(0, at));
  const bool forward = cell[at + 5] == 'F';
  return fmt::format("{}SEND_{}", forward ? stage - 1 : stage + 1, cell.substr(at + 5));
}

// Every receive stands before its use and has one send; two ranks send and receive in one order.
TEST(Csv, LowersEveryScheduleSoThatTransfersMeet) {
  for (const Grid& grid : grids()) {
    const Rows rows = cells_of(lowered_csv(grid));
    std::map<std::string, std::size_t> rank_of_send;
    std::size_t receives = 0;
    for (std::size_t rank = 0; rank < rows.size(); ++rank)
      for (const std::string& cell : rows[rank])
        if (cell.find("SEND") != cell.npos) {
          EXPECT_TRUE(rank_of_send.emplace(cell, rank).second) << cell;
        }
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::string>> sent, received;
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      std::set<std::string> seen;
      for (const std::string& cell : rows[rank]) {
        seen.insert(cell);
        const std::size_t at = cell.find("RECV_");
        if (at == cell.npos) continue;
        ++receives;
        ASSERT_TRUE(rank_of_send.contains(sender(cell))) << cell;
        received[{rank_of_send[sender(cell)], rank}].push_back(sender(cell));
        const std::string stage = cell.substr(0, at), mb = cell.substr(at + 6);
        for (const char* use : cell[at + 5] == 'F' ? std::vector{"F"} : std::vector{"B", "I"})
          EXPECT_FALSE(seen.contains(stage + use + mb)) << cell;
      }
    }
    EXPECT_EQ(receives, rank_of_send.size());
    for (auto& [pair, cells] : received)
      for (const std::string& cell : rows[pair.first])
        if (std::ranges::find(cells, cell) != cells.end()) sent[pair].push_back(cell);
    EXPECT_EQ(sent, received);
  }
}

TEST(Csv, ReadsPairsBlanksAndCarriageReturns) {
  const Grid grid = read_csv("0F0, (0F1;0B0)OVERLAP_F_B ,,0I1\t,0W1,\r\n\r\n\n");
  EXPECT_EQ(compute_csv(grid), "0F0,0F1,0B0,0I1,0W1\n");
  EXPECT_EQ(read_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0").placement, Placement::kV);
  EXPECT_EQ(read_csv("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0").placement, Placement::kLoop);
}

TEST(Csv, RefusesWithRowColumnAndReason) {
  EXPECT_EQ(refusal(""), "a schedule needs a row for each pipeline rank");
  EXPECT_EQ(refusal("\n\n"), "a schedule needs a row for each pipeline rank");
  EXPECT_THAT(refusal("0F0,0Q0"),
              HasSubstr("row 1 (pipeline rank 0), column 2: 0Q0 is not an action"));
  for (const char* cell : {"F0", "0F", "0F-1", "-1F0", "0f0", "0F0x", "0F 0", "0UNSHARD3",
                           "0SEND_F", "0BW0", "0F1234567890", "99999999999F0", "_", "0"})
    EXPECT_THAT(refusal(fmt::format("0F0,{},0B0", cell)),
                HasSubstr(fmt::format("column 2: {} is no", cell)));
  for (const char* cell : {"(0F1", "(0F1;0B0)", "(0F1,0B0)OVERLAP_F_B", "(0B0;0F1)OVERLAP_F_B",
                           "(0F1;0F2)OVERLAP_F_B", "(;)OVERLAP_F_B", "()OVERLAP_F_B"})
    EXPECT_THAT(refusal(fmt::format("0F0,{},0B0", cell)), HasSubstr("column 2: ")) << cell;
  EXPECT_THAT(refusal("0F0,0B0\n3F0,3B0"), HasSubstr("row 2 (pipeline rank 1), column 1: 3F0"));
  EXPECT_THAT(refusal("0F0,1RECV_F0,0B0"), HasSubstr("column 2: 1RECV_F0 is of a stage"));
  EXPECT_THAT(refusal("0F0,0B0\n\n1F0,1B0"),
              HasSubstr("row 2 (pipeline rank 1): computes nothing"));
  EXPECT_THAT(refusal("0F0,,0B0\n1F0,1B0,2F0"), HasSubstr("computes 2 stages, row 1 has 1"));
  EXPECT_THAT(refusal("999999999F0,999999999B0"), HasSubstr("belong"));
  EXPECT_THAT(refusal("0F999999999"), HasSubstr("comes before 0F0"));
  EXPECT_THAT(refusal("0F0,0W0,0I0"), HasSubstr("column 2: 0W0 comes before 0I0"));
  EXPECT_THAT(refusal("0F0,,,0B0,0B0"), HasSubstr("column 5: 0B0 runs a second time"));
  EXPECT_THAT(refusal("0F0,0UNSHARD,0F1,0B0\n1F0,1F1,1B0,1B1"),
              HasSubstr("row 1 (pipeline rank 0): the row ends without 0B1"));
  EXPECT_THAT(refusal("0F0,0B0,0F1,0B1\n1F0,,1F1,1B0,1B1"),
              HasSubstr("row 1 (pipeline rank 0), column 2: 0B0 waits forever: 1I0 of rank 1"));
}

// Cells lost, doubled and swapped, characters changed: read as a valid schedule or refused as data, never anything else.
TEST(Csv, SurvivesBrokenInput) {
  std::mt19937 random(137);
  const auto below = [&](std::size_t n) { return random() % n; };
  const std::vector<Grid> all = grids();
  const std::string letters = "0123456789FBIW,;()\n _-SENDRCVUOHAGPL\r\t";
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const Grid& grid = all[below(all.size())];
    std::string csv = below(2) == 0 ? compute_csv(grid) : lowered_csv(grid);
    Rows rows = cells_of(csv);
    std::vector<std::string>& row = rows[below(rows.size())];
    const std::size_t at = below(row.size());
    switch (below(5)) {
      case 0: row.erase(row.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1:
        row.insert(row.begin() + static_cast<std::ptrdiff_t>(at), row[below(row.size())]);
        break;
      case 2: std::swap(row[at], rows[below(rows.size())][0]); break;
      case 3: std::swap(row[at], row[below(row.size())]); break;
      default: break;
    }
    csv = csv_of(rows);
    for (std::size_t changes = below(4); changes-- > 0;)
      csv[below(csv.size())] = letters[below(letters.size())];
    try {
      const Grid read = read_csv(csv);
      ASSERT_FALSE(find_fault(read)) << csv;
      ASSERT_EQ(read_csv(compute_csv(read)), read) << csv;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kData) << csv;
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Csv, OfASpreadsheetAndWithoutHalves) {
  EXPECT_EQ(read_csv("\xEF\xBB\xBF"
                     "0F0,0B0\n")
                .micro_batches,
            1);
  try {
    read_csv("0F0,0F1,0B0\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("without 0B1"));
  }
}

}  // namespace
}  // namespace trireme::schedules::csv_test
