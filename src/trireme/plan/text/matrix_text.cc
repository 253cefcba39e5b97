#include "trireme/plan/text/matrix_text.h"

#include <fmt/format.h>

namespace trireme::plan {

std::string print_matrices(const std::vector<Matrix>& matrices) {
  std::string text;
  for (const Matrix& matrix : matrices)
    text += fmt::format(" matrix={}:{}:{}{}", matrix.offset, matrix.rows, matrix.cols,
                        matrix.owner < 0 ? "" : fmt::format(":{}", matrix.owner));
  return text;
}

std::vector<Matrix> parse_matrices(Line& line) {
  std::vector<Matrix> matrices;
  while (const auto text = line.optional("matrix")) {
    const std::vector<std::string_view> parts = split(*text, ':');
    if (parts.size() != 3 && parts.size() != 4)
      line.refuse("\"{}\" needs offset, rows, columns and perhaps an owner", *text);
    matrices.push_back({.offset = line.number<std::int64_t>(parts[0]),
                        .rows = line.number<std::int64_t>(parts[1]),
                        .cols = line.number<std::int64_t>(parts[2]),
                        .owner = parts.size() == 4 ? line.number<int>(parts[3]) : -1});
  }
  return matrices;
}

}  // namespace trireme::plan
