#include "trireme/plan/text/text.h"

namespace trireme::plan {

std::string grouped_text(std::int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

}  // namespace trireme::plan
