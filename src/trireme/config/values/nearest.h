// Names near an unknown one, for messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

inline constexpr std::size_t kLongestName = 64;  // nothing is near anything longer
inline constexpr std::size_t kMostNames = 3;     // that a message proposes

// Edits that turn a into b: insert, delete, replace, swap of neighbours (optimal string alignment).
int distance(std::string_view a, std::string_view b);

// The same for two names, where leaving out or adding the last words is one edit: optimizer, optim.
int name_distance(std::string_view a, std::string_view b);

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

// "A, B or C" with " or " as the last separator.
std::string join_names(const std::vector<std::string>& names, std::string_view last_separator);

// "did you mean A or B?", or nothing where no name is near what was written.
std::optional<std::string> nearest(std::string_view written, const std::vector<std::string>& names);

}  // namespace trireme::config
