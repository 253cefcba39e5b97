#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/csv.h"

namespace trireme::schedules {
namespace {

struct Word {
  std::string_view text;
  std::optional<Work> work;  // none: communication
  bool has_mb;
};
constexpr Word kWords[] = {{"F", Work::kForward, true},         {"B", Work::kBackward, true},
                           {"I", Work::kBackwardInput, true},   {"W", Work::kBackwardWeight, true},
                           {"SEND_F", std::nullopt, true},      {"RECV_F", std::nullopt, true},
                           {"SEND_B", std::nullopt, true},      {"RECV_B", std::nullopt, true},
                           {"UNSHARD", std::nullopt, false},    {"RESHARD", std::nullopt, false},
                           {"REDUCE_GRAD", std::nullopt, false}};
constexpr std::string_view kOverlap = ")OVERLAP_F_B";

struct Cell {
  std::optional<Work> work{};
  int stage = 0;
  int mb = 0;
  std::size_t column = 0;
  std::string_view text{};
};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

class Reader {
 public:
  explicit Reader(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      read_row(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    while (!rows_.empty() && rows_.back().empty()) rows_.pop_back();
  }

  Grid grid() {
    if (rows_.empty()) fail(ErrorKind::kData, "a schedule needs a row for each pipeline rank");
    Grid grid{.rows = std::vector<Row>(rows_.size())};
    place_stages(grid);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      std::erase_if(rows_[row], [](const Cell& cell) { return !cell.work; });
      for (const Cell& cell : rows_[row]) {
        grid.rows[row].push_back({.work = *cell.work,
                                  .chunk = chunk_of(grid.placement, grid.ranks(), cell.stage),
                                  .mb = cell.mb});
        grid.micro_batches = std::max(grid.micro_batches, cell.mb + 1);
      }
    }
    if (const std::optional<GridFault> fault = find_fault(grid)) {
      const auto row = static_cast<std::size_t>(fault->rank);
      if (fault->place < rows_[row].size()) refuse(row, rows_[row][fault->place], fault->reason);
      refuse(row, {}, fault->reason);
    }
    return grid;
  }

 private:
  [[noreturn]] static void refuse(std::size_t row, const Cell& cell, std::string_view reason) {
    if (cell.text.empty())
      fail(ErrorKind::kData, "schedule row {} (pipeline rank {}): {}", row + 1, row, reason);
    fail(ErrorKind::kData, "schedule row {} (pipeline rank {}), column {}: {} {}", row + 1, row,
         cell.column + 1, cell.text, reason);
  }

  void read_row(std::string_view line) {
    rows_.emplace_back();
    for (std::size_t column = 0;; ++column) {
      const std::size_t end = std::min(line.find(','), line.size());
      read_cell(trimmed(line.substr(0, end)), column);
      if (end == line.size()) return;
      line.remove_prefix(end + 1);
    }
  }

  void read_cell(std::string_view text, std::size_t column) {
    if (text.empty()) return;
    if (text.front() != '(') return rows_.back().push_back(action(text, text, column));
    const std::size_t middle = text.find(';');
    const bool pair = middle != text.npos && text.ends_with(kOverlap);
    if (pair) {
      const Cell first = action(text.substr(1, middle - 1), text, column);
      const Cell second =
          action(text.substr(middle + 1, text.size() - kOverlap.size() - middle - 1), text, column);
      if (first.work == Work::kForward && second.work && second.work != Work::kForward) {
        rows_.back().push_back(first);
        rows_.back().push_back(second);
        return;
      }
    }
    refuse(rows_.size() - 1, {.column = column, .text = text},
           "is not a pair of a forward and a backward like (0F1;1B0)OVERLAP_F_B");
  }

  // `text` of one action in a cell.
  Cell action(std::string_view text, std::string_view cell, std::size_t column) const {
    Cell result{.column = column, .text = cell};
    std::string_view rest = text;
    const bool numbered = number(rest, result.stage);
    const std::size_t letters = std::min(rest.find_first_of("0123456789"), rest.size());
    const auto* word = std::ranges::find(kWords, rest.substr(0, letters), &Word::text);
    rest.remove_prefix(letters);
    const bool known = numbered && word != std::end(kWords);
    if (!known || (word->has_mb && !number(rest, result.mb)) || !rest.empty())
      refuse(rows_.size() - 1, result,
             "is not an action: it needs a stage, one of F B I W SEND_F RECV_F SEND_B RECV_B and a "
             "micro-batch (2F0), or a stage and UNSHARD, RESHARD or REDUCE_GRAD (2UNSHARD)");
    result.work = word->work;
    return result;
  }

  // Eats a number of at most nine digits.
  static bool number(std::string_view& text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto digits = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || digits > 9 || text.front() == '-') return false;
    text.remove_prefix(digits);
    return true;
  }

  // Chunks and placement, from which stages the rows compute.
  void place_stages(Grid& grid) const {
    std::vector<std::set<int>> stages(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      for (const Cell& cell : rows_[row])
        if (cell.work) stages[row].insert(cell.stage);
      if (stages[row].empty()) refuse(row, {}, "computes nothing");
      if (stages[row].size() != stages[0].size())
        refuse(row, {},
               fmt::format("computes {} stages, row 1 has {}: ranks have equally many",
                           stages[row].size(), stages[0].size()));
    }
    grid.chunks = static_cast<int>(stages[0].size());
    const bool loop = grid.ranks() == 1 || grid.chunks != 2 || stages[0].contains(grid.ranks());
    grid.placement = loop ? Placement::kLoop : Placement::kV;
    const int count = grid.ranks() * grid.chunks;
    for (std::size_t row = 0; row < rows_.size(); ++row)
      for (const Cell& cell : rows_[row])
        if (cell.stage >= count ||
            rank_of(grid.placement, grid.ranks(), cell.stage) != static_cast<int>(row))
          refuse(
              row, cell,
              fmt::format("is of a stage that does not belong here: {} ranks of {} have {} to {}",
                          grid.ranks(),
                          grid.chunks == 1 ? "1 stage" : fmt::format("{} stages", grid.chunks),
                          own_stages(grid, 0), own_stages(grid, grid.ranks() - 1)));
  }

  static std::string own_stages(const Grid& grid, int rank) {
    std::string stages;
    for (int chunk = 0; chunk < grid.chunks; ++chunk)
      stages += fmt::format("{}{}", chunk == 0 ? "" : "+",
                            stage_of(grid.placement, grid.ranks(), rank, chunk));
    return stages;
  }

  std::vector<std::vector<Cell>> rows_;
};

}  // namespace

Grid read_csv(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // as spreadsheets write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return Reader(text).grid();
}

}  // namespace trireme::schedules
