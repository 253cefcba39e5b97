#include "trireme/config/values/nearest.h"

#include <fmt/core.h>

#include <numeric>
#include <utility>

namespace trireme::config {

int distance(std::string_view a, std::string_view b) {
  std::vector<int> two_above(b.size() + 1);
  std::vector<int> above(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  std::iota(above.begin(), above.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
    std::swap(two_above, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

int name_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kTelling = 3;
  const bool starts_alike = a.starts_with(b) || b.starts_with(a);
  const bool telling = std::min(a.size(), b.size()) >= kTelling;
  return starts_alike && telling && a != b ? 1 : distance(a, b);
}

std::string join_names(const std::vector<std::string>& names, std::string_view last_separator) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? last_separator : ", ";
    text += names[i];
  }
  return text;
}

std::optional<std::string> nearest(std::string_view written,
                                   const std::vector<std::string>& names) {
  if (written.size() > kLongestName) return std::nullopt;
  Nearest nearest(written);
  for (const std::string& name : names) nearest.offer(name, name_distance(written, name));
  if (nearest.names().empty() || nearest.names().size() > kMostNames) return std::nullopt;
  return fmt::format("did you mean {}?", join_names(nearest.names(), " or "));
}

}  // namespace trireme::config
