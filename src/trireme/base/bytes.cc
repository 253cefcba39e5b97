#include "trireme/base/bytes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace trireme {
namespace {

constexpr std::pair<std::string_view, double> kUnits[] = {
    {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"TB", 1e12},
    {"GB", 1e9},     {"MB", 1e6},     {"KB", 1e3},     {"kB", 1e3},     {"B", 1},
};
constexpr double kMost = 0x1p53;

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  double factor = 1;
  for (const auto& [unit, bytes] : kUnits) {
    if (!text.ends_with(unit)) continue;
    factor = bytes;
    text.remove_suffix(unit.size());
    if (text.ends_with(' ')) text.remove_suffix(1);
    break;
  }
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const double count = number * factor;
  if (!(count >= 0) || count > kMost || std::signbit(number)) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(count)};
}

std::string exact_text(Bytes bytes) {
  for (int power = 4; power > 0; --power) {
    const std::int64_t unit = std::int64_t{1} << (10 * power);
    if (bytes.count != 0 && bytes.count % unit == 0)
      return fmt::format("{}{}", bytes.count / unit, kUnits[4 - power].first);
  }
  return std::to_string(bytes.count);
}

}  // namespace trireme
