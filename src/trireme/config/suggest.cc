#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "trireme/config/fields/fields.h"
#include "trireme/config/fields/retired.h"
#include "trireme/config/values/nearest.h"

namespace trireme::config {

std::string suggest(std::string_view unknown) {
  if (const std::optional<std::string> now = retired(unknown)) return *now;
  const std::size_t dot = unknown.find('.');
  const std::string_view section = dot == unknown.npos ? "" : unknown.substr(0, dot);
  const std::string_view word = dot == unknown.npos ? unknown : unknown.substr(dot + 1);
  Nearest nearest(word.substr(0, kLongestName));
  if (unknown.size() <= kLongestName) {
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
  nearest.cut_if_near(kMostNames);
  if (!nearest.names().empty() && nearest.names().size() <= kMostNames)
    return fmt::format("did you mean {}?", join_names(nearest.names(), " or "));

  std::vector<std::string> names;
  for (const Field& field : fields())
    if (field.section() == section) names.emplace_back(field.name());
  if (!names.empty()) return fmt::format("keys of {} are {}", section, join_names(names, ", "));
  for (std::string_view name : sections()) names.emplace_back(name);
  return fmt::format("sections are {}", join_names(names, ", "));
}

}  // namespace trireme::config
