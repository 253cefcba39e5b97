#include "trireme/config/sections/mrope.h"

#include <charconv>
#include <numeric>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme::config {

Mrope parse_mrope(const std::string& text) {
  constexpr std::string_view kInterleaved = " interleaved";
  constexpr std::int64_t kMost = 1 << 16;
  Mrope mrope;
  std::string_view rest = text;
  mrope.interleaved = rest.ends_with(kInterleaved);
  if (mrope.interleaved) rest.remove_suffix(kInterleaved.size());
  const char* at = rest.data();
  const char* const end = at + rest.size();
  bool good = true;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (axis > 0) good = good && at != end && *at++ == ',';
    if (!good) break;
    const auto [stop, error] = std::from_chars(at, end, mrope.sections[axis]);
    good = error == std::errc() && mrope.sections[axis] >= 0 && mrope.sections[axis] <= kMost;
    at = stop;
  }
  if (!good || at != end)
    fail(ErrorKind::kUsage,
         "vlm.mrope={}: needs the frequencies of time, row and column, such as 16,24,24 or "
         "24,20,20 interleaved",
         text);
  return mrope;
}

std::vector<std::int64_t> axes(const Mrope& mrope) {
  const auto& sections = mrope.sections;
  const std::int64_t all = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
  std::vector<std::int64_t> axis_of;
  for (std::int64_t i = 0; i < all; ++i) {
    const std::int64_t turn = i % 3;
    if (mrope.interleaved)
      axis_of.push_back(turn > 0 && i < 3 * sections[turn] ? turn : 0);
    else
      axis_of.push_back(i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2);
  }
  return axis_of;
}

}  // namespace trireme::config
