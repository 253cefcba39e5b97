// The merge loop of byte-pair encoding (Sennrich et al. 2016) in n log n.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "trireme/data/text/tokenizer/models/model.h"

namespace trireme::text {

// A merge changes the size of its left symbol and zeroes its right one. Sizes therefore show whether a queued pair
// still exists.
struct Symbol {
  std::int32_t id = 0;
  std::uint32_t begin = 0;
  std::uint32_t size = 0;  // bytes; 0 once merged into its left neighbour
  std::int32_t previous = -1;
  std::int32_t next = -1;
};

struct Merge {
  std::int32_t rank = 0;
  std::int32_t result = 0;
};

inline void append_symbol(std::vector<Symbol>& symbols, std::int32_t id, std::size_t begin,
                          std::size_t size) {
  const auto at = static_cast<std::int32_t>(symbols.size());
  if (at > 0) symbols.back().next = at;
  symbols.push_back({.id = id,
                     .begin = static_cast<std::uint32_t>(begin),
                     .size = static_cast<std::uint32_t>(size),
                     .previous = at - 1});
}

// Merges neighbours by rank, then leftmost. lookup(left, right) gives their Merge, if there is one.
template <typename Lookup>
void merge_symbols(std::vector<Symbol>& symbols, const Lookup& lookup) {
  struct Candidate {
    std::int32_t rank, left, right;
    std::uint32_t left_size, right_size;
    std::int32_t result;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  const auto at = [&](std::int32_t index) -> Symbol& { return symbols[index]; };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol &a = at(left), &b = at(right);
    if (const std::optional<Merge> merge = lookup(a, b))
      queue.push({merge->rank, left, right, a.size, b.size, merge->result});
  };
  for (std::int32_t i = 0; i + 1 < std::ssize(symbols); ++i) consider(i, i + 1);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol &left = at(best.left), &right = at(best.right);
    if (left.size != best.left_size || right.size != best.right_size) continue;
    left.id = best.result;
    left.size += right.size;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
}

}  // namespace trireme::text
