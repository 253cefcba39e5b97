// Which of many strings a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::text {

// A read-only prefix tree of byte strings with a number each.
class Trie {
 public:
  struct Match {
    std::size_t size = 0;  // bytes; 0: no match
    std::int32_t value = -1;
  };

  Trie() = default;
  // Of equal strings the first counts; empty ones are left out.
  explicit Trie(std::vector<std::pair<std::string_view, std::int32_t>> entries);

  // Calls visit(Match) for each string that `text` begins with, shortest first.
  template <typename Visit>
  void prefixes(std::string_view text, Visit&& visit) const {
    std::int32_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node < 0) return;
      if (const std::int32_t value = nodes_[node].value; value >= 0)
        visit(Match{.size = at + 1, .value = value});
    }
  }
  Match longest(std::string_view text) const {
    Match best;
    prefixes(text, [&](const Match& match) { best = match; });
    return best;
  }

 private:
  struct Node {
    std::int32_t first = 0;  // of its children, which lie together in order of their bytes
    std::int16_t children = 0;
    unsigned char byte = 0;
    std::int32_t value = -1;
  };

  std::int32_t child(std::int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;  // the root first
  std::array<std::int32_t, 256> root_ = [] {
    std::array<std::int32_t, 256> none;
    none.fill(-1);
    return none;
  }();
};

}  // namespace trireme::text
