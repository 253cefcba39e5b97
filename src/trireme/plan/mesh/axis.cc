#include "trireme/plan/mesh/axis.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::mesh {

std::string_view name(Axis axis) {
  constexpr std::string_view kNames[] = {"tp", "cp", "dp_shard", "dp_replicate", "island", "pp"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::string print(AxisSet axes) {
  std::string text;
  for (auto axis = kAllAxes.rbegin(); axis != kAllAxes.rend(); ++axis) {
    if (!axes.contains(*axis)) continue;
    if (!text.empty()) text += '+';
    text += name(*axis);
  }
  return text.empty() ? "none" : text;
}

AxisSet parse_axes(std::string_view text) {
  AxisSet axes;
  for (std::size_t begin = 0; text != "none" && begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto axis = std::ranges::find(kAllAxes, word, [](Axis a) { return name(a); });
    if (axis == kAllAxes.end())
      fail(ErrorKind::kData,
           "\"{}\" is not a mesh axis: axes are pp, island, dp_replicate, dp_shard, cp, tp", word);
    axes = axes | *axis;
    begin = end + 1;
  }
  if (print(axes) != text)
    fail(ErrorKind::kData, "axes \"{}\" must be named once each, outermost first: \"{}\"", text,
         print(axes));
  return axes;
}

}  // namespace trireme::mesh
