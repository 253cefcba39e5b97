#include "trireme/plan/text/matrix_text.h"

#include <fmt/format.h>

namespace trireme::plan {

std::string print_updates(const Unit& unit) {
  std::string text = unit.states ? fmt::format(" states={}", *unit.states) : "";
  if (unit.by_matrix) text += " by_matrix";
  for (const Matrix& matrix : unit.matrices)
    text += fmt::format(" matrix={}:{}:{}{}", matrix.offset, matrix.rows, matrix.cols,
                        matrix.owner < 0 ? "" : fmt::format(":{}", matrix.owner));
  return text;
}

void parse_updates(Line& line, Unit& unit) {
  if (const auto count = line.optional("states")) unit.states = line.number<int>(*count);
  unit.by_matrix = line.flag("by_matrix");
  while (const auto text = line.optional("matrix")) {
    const std::vector<std::string_view> parts = split(*text, ':');
    if (parts.size() != 3 && parts.size() != 4)
      line.refuse("\"{}\" needs offset, rows, columns and perhaps an owner", *text);
    unit.matrices.push_back({.offset = line.number<std::int64_t>(parts[0]),
                             .rows = line.number<std::int64_t>(parts[1]),
                             .cols = line.number<std::int64_t>(parts[2]),
                             .owner = parts.size() == 4 ? line.number<int>(parts[3]) : -1});
  }
}

}  // namespace trireme::plan
