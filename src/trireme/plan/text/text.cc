#include "trireme/plan/text/text.h"

#include <fmt/format.h>

namespace trireme::plan {

std::string grouped_text(std::int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string bytes_text(double count) {
  constexpr double kMib = 1 << 20;
  if (count < 1024) return fmt::format("{:.0f} B", count);
  if (count < kMib) return fmt::format("{:.1f} KiB", count / 1024);
  if (count < 1024 * kMib) return fmt::format("{:.1f} MiB", count / kMib);
  return fmt::format("{:.2f} GiB", count / (1024 * kMib));
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

}  // namespace trireme::plan
