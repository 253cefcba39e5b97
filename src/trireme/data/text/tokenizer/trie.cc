#include "trireme/data/text/tokenizer/trie.h"

#include <algorithm>

namespace trireme::text {

Trie::Trie(std::vector<std::pair<std::string_view, std::int32_t>> entries) {
  std::ranges::stable_sort(entries, {}, [](const auto& entry) { return entry.first; });
  // Entries that share the beginning which leads to a node; nodes are divided in the order in which they were made.
  struct Group {
    std::size_t begin, end, depth;
  };
  nodes_.emplace_back();
  std::vector<Group> groups{{0, entries.size(), 0}};
  for (std::size_t node = 0; node < groups.size(); ++node) {
    auto [at, end, depth] = groups[node];
    if (at < end && entries[at].first.size() == depth && depth > 0)
      nodes_[node].value = entries[at].second;
    while (at < end && entries[at].first.size() == depth) ++at;
    nodes_[node].first = static_cast<std::int32_t>(nodes_.size());
    while (at < end) {
      const char byte = entries[at].first[depth];
      std::size_t next = at;
      while (next < end && entries[next].first[depth] == byte) ++next;
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      groups.push_back({at, next, depth + 1});
      ++nodes_[node].children;
      at = next;
    }
  }
  for (std::int16_t i = 0; i < nodes_[0].children; ++i) root_[nodes_[1 + i].byte] = 1 + i;
}

std::int32_t Trie::child(std::int32_t node, unsigned char byte) const {
  if (node == 0) return root_[byte];
  const Node& parent = nodes_[node];
  const auto begin = nodes_.begin() + parent.first, end = begin + parent.children;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Node& one, unsigned char wanted) { return one.byte < wanted; });
  if (found == end || found->byte != byte) return -1;
  return static_cast<std::int32_t>(found - nodes_.begin());
}

}  // namespace trireme::text
