#include <algorithm>
#include <numeric>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/fields/retired.h"

namespace trireme::config {
namespace {

// Edits that turn a into b: insert, delete, replace, swap of neighbours (optimal string alignment).
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

// The same for two names, where leaving out or adding the last words is one edit: optimizer, optim.
int name_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kTelling = 3;
  const bool starts_alike = a.starts_with(b) || b.starts_with(a);
  const bool telling = std::min(a.size(), b.size()) >= kTelling;
  return starts_alike && telling && a != b ? 1 : distance(a, b);
}

// The names closest to what was written, as long as they are close at all.
class Nearest {
 public:
  explicit Nearest(std::string_view written) : best_((static_cast<int>(written.size()) + 1) / 3) {
    best_ = std::max(best_, 1);
  }

  void offer(std::string_view name, int distance) {
    if (distance > best_) return;
    if (distance < best_) names_.clear();
    best_ = distance;
    names_.emplace_back(name);
  }

  const std::vector<std::string>& names() const { return names_; }
  // The first `most` names that are right except for one edit, or their section.
  void cut_if_near(std::size_t most) {
    if (best_ <= 1 && names_.size() > most) names_.resize(most);
  }

 private:
  int best_;
  std::vector<std::string> names_;
};

std::string join(const std::vector<std::string>& names, std::string_view last_separator) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? last_separator : ", ";
    text += names[i];
  }
  return text;
}

constexpr std::size_t kLongest = 64;  // no key is near anything longer
constexpr std::size_t kMost = 3;

}  // namespace

std::optional<std::string> nearest(std::string_view written,
                                   const std::vector<std::string>& names) {
  if (written.size() > kLongest) return std::nullopt;
  Nearest nearest(written);
  for (const std::string& name : names) nearest.offer(name, name_distance(written, name));
  if (nearest.names().empty() || nearest.names().size() > kMost) return std::nullopt;
  return fmt::format("did you mean {}?", join(nearest.names(), " or "));
}

std::string suggest(std::string_view unknown) {
  if (const std::optional<std::string> now = retired(unknown)) return *now;
  const std::size_t dot = unknown.find('.');
  const std::string_view section = dot == unknown.npos ? "" : unknown.substr(0, dot);
  const std::string_view word = dot == unknown.npos ? unknown : unknown.substr(dot + 1);
  Nearest nearest(word.substr(0, kLongest));
  if (unknown.size() <= kLongest) {
    if (section.empty())
      for (std::string_view name : sections()) nearest.offer(name, name_distance(word, name));
    for (const Field& field : fields()) {
      // A right name in the wrong section, or without one, is one mistake.
      const int apart = section == field.section() ? 0 : 1;
      const int misspelt = name_distance(word, field.name()) + apart;
      nearest.offer(field.key,
                    section.empty() ? misspelt : std::min(misspelt, distance(unknown, field.key)));
    }
  }
  nearest.cut_if_near(kMost);
  if (!nearest.names().empty() && nearest.names().size() <= kMost)
    return fmt::format("did you mean {}?", join(nearest.names(), " or "));

  std::vector<std::string> names;
  for (const Field& field : fields())
    if (field.section() == section) names.emplace_back(field.name());
  if (!names.empty()) return fmt::format("keys of {} are {}", section, join(names, ", "));
  for (std::string_view name : sections()) names.emplace_back(name);
  return fmt::format("sections are {}", join(names, ", "));
}

}  // namespace trireme::config
