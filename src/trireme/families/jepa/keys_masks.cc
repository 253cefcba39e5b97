#include "trireme/families/jepa/keys_masks.h"

#include <charconv>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

namespace trireme::config {
namespace {

constexpr std::int64_t kMostMaskBlocks = 1 << 10;

// Whether all of the text is a number.
template <typename Number>
bool read_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::array<MaskRule, 2> mask_rules(const Jepa& jepa) {
  const auto refuse = [&] {
    fail(ErrorKind::kUsage,
         "jepa.masks={}: needs two masks, each as BLOCKSxSHARE with 1 to {} blocks and a share of "
         "the frame above 0 up to 1, such as 8x0.15,2x0.7",
         jepa.masks, kMostMaskBlocks);
  };
  const std::vector<std::string_view> parts = split_list(jepa.masks);
  std::array<MaskRule, 2> rules;
  if (parts.size() != rules.size()) refuse();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::size_t cross = parts[i].find('x');
    if (cross == std::string_view::npos ||
        !read_whole(parts[i].substr(0, cross), rules[i].blocks) ||
        !read_whole(parts[i].substr(cross + 1), rules[i].scale) || rules[i].blocks < 1 ||
        rules[i].blocks > kMostMaskBlocks || !(rules[i].scale > 0) || rules[i].scale > 1)
      refuse();
  }
  return rules;
}

}  // namespace trireme::config
