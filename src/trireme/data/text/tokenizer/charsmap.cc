#include "trireme/data/text/tokenizer/charsmap.h"

#include "trireme/base/error.h"

namespace trireme::text {
namespace {

std::uint32_t little_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
  return value;
}

// A unit of the array: offset to its children, whether a string ends here, and the byte that leads to it.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& what) {
  if (bytes.empty()) return;
  const std::size_t size = bytes.size() < 4 ? 0 : little_endian(bytes, 0);
  if (size < 4 || size % 4 != 0 || size > bytes.size() - 4)
    fail(ErrorKind::kData, "{}: a trie of {} bytes does not fit into {} bytes", what, size,
         bytes.size());
  for (std::size_t at = 4; at < 4 + size; at += 4) units_.push_back(little_endian(bytes, at));
  texts_ = bytes.substr(4 + size);
  if (texts_.empty() || texts_.back() != '\0')
    fail(ErrorKind::kData, "{}: the last replacement does not end with a zero byte", what);
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool shortest) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Match> best;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte || byte == 0) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit) || node >= units_.size()) continue;
    const std::size_t begin = value_of(units_[node]);
    if (begin >= texts_.size()) break;
    best = Match{.size = at + 1, .text = std::string_view(texts_.c_str() + begin)};
    if (shortest) break;
  }
  return best;
}

}  // namespace trireme::text
