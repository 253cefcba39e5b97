#include "trireme/train/callbacks/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace trireme::train {

std::string short_count(double count) {
  constexpr const char* kSuffix[] = {"", "k", "M", "G", "T"};
  int power = 0;
  while (std::abs(count) >= 999.5 && power < 4) {
    count /= 1000;
    ++power;
  }
  if (power == 0) return fmt::format("{:.0f}", count);
  return fmt::format("{:.{}f}{}", count, std::abs(count) < 99.95 ? 1 : 0, kSuffix[power]);
}

std::string short_bytes(std::int64_t bytes) {
  constexpr const char* kSuffix[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  int power = 0;
  while (std::abs(size) >= 1000 && power < 4) {
    size /= 1024;
    ++power;
  }
  return fmt::format("{:.{}f} {}", size, power == 0 || size >= 100 ? 0 : 1, kSuffix[power]);
}

std::string moved_text(std::int64_t bytes, double seconds) {
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  return fmt::format("{:.3g} GB at {:.3g} GB/s", gigabytes, seconds > 0 ? gigabytes / seconds : 0);
}

std::string short_time(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  seconds = std::max(0.0, seconds);
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const auto s = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e15)));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d{:02}h", s / 86400, s % 86400 / 3600);
}

}  // namespace trireme::train
