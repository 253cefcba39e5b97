#include "trireme/comm/algorithm/algorithm.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace trireme::algorithm {
namespace {

int log2_of(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks))) - 1;
}

// A node of the canonical tree over hosts begin .. end-1, which splits at m; the tree is a list by m.
struct TreeNode {
  int begin = 0;
  int end = 0;
  int parent = 0;  // its m; 0: none
};
int split_of(int begin, int end) {
  return begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin - 1)));
}
void grow(std::vector<TreeNode>& tree, int begin, int end, int parent) {
  if (end - begin < 2) return;
  const int m = split_of(begin, end);
  tree[m] = {begin, end, parent};
  grow(tree, begin, m, m);
  grow(tree, m, end, m);
}

// Bytes of a ring, in which every rank passes on what it has got: (n-1)/n of all.
Traffic around(int ranks, double bytes) {
  return {.messages = static_cast<double>(ranks - 1), .bytes = bytes * (ranks - 1) / ranks};
}

// One way of slices that each end, or begin, at one rank. Direct messages leave at once.
Traffic sliced(Kind kind, int ranks, double bytes) {
  Traffic traffic = around(ranks, bytes);
  if (kind == Kind::kHalving) traffic.messages = log2_of(ranks);
  if (kind == Kind::kDirect || kind == Kind::kHierarchical || kind == Kind::kTree)
    traffic.messages = std::min(1, ranks - 1);
  return traffic;
}

}  // namespace

std::string_view name(Kind kind) {
  constexpr std::string_view kNames[kKinds] = {"auto", "direct", "hierarchical", "halving",
                                               "tree", "ring",   "ring_gather"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string refusal(const Choice& choice, int hosts) {
  if (choice.kind == Kind::kHalving && !std::has_single_bit(static_cast<unsigned>(hosts)))
    return fmt::format(
        "network.algorithm=halving needs a power of two of hosts, not {}; choose tree, or leave it "
        "out",
        hosts);
  if (choice.kind == Kind::kRing && choice.canonical && !choice.integers && hosts > 2)
    return fmt::format(
        "network.algorithm=ring adds the values of {} hosts in another order than canonical sums; "
        "set ring_gather, of which only gathers go round, halving or tree, network.codec=i8x, "
        "whose "
        "sums are integers, or precision.numerics=fast",
        hosts);
  return "";
}

int reversed(int rank, int ranks) {
  int place = 0;
  for (int bit = 1; bit < ranks; bit *= 2) place = 2 * place + ((rank & bit) != 0 ? 1 : 0);
  return place;
}

TreeRole tree_role(int hosts, int host, int half) {
  std::vector<TreeNode> tree(static_cast<std::size_t>(hosts));
  grow(tree, 0, hosts, 0);
  const auto adder = [&](int m) { return m - 1 + half; };
  const auto node_of = [&](int h) { return h + 1 - half; };  // that h adds; 0 or `hosts`: none
  const auto adds = [&](int h) { return node_of(h) >= 1 && node_of(h) < hosts; };
  // The host next to `h` on the way to where the result is made.
  const auto above = [&](int h) {
    if (adds(h)) return tree[node_of(h)].parent == 0 ? -1 : adder(tree[node_of(h)].parent);
    for (int m = 1; m < hosts; ++m)
      if ((m - tree[m].begin == 1 && m - 1 == h) || (tree[m].end - m == 1 && m == h))
        return adder(m);
    return -1;
  };
  TreeRole role;
  for (int m = 1; m < hosts; ++m)
    if ((m - tree[m].begin == 1 && m - 1 == host) || (tree[m].end - m == 1 && m == host))
      role.leaf_to = adder(m);
  if (adds(host)) {
    const int m = node_of(host);
    const TreeNode& node = tree[m];
    const auto child = [&](int begin, int end) -> TreeRole::Child {
      if (end - begin == 1) return {.host = begin, .leaf = true};
      return {.host = adder(split_of(begin, end))};
    };
    role.span = node.end - node.begin;
    role.children = {child(node.begin, m), child(m, node.end)};
    role.up = above(host);
  }
  role.down_from = above(host);
  for (int other = 0; other < hosts; ++other)
    if (other != host && above(other) == host) role.down_to.push_back(other);
  for (int h = above(host); h >= 0; h = above(h)) ++role.depth;
  return role;
}

TreeSent tree_sent(int hosts, int host, std::int64_t count) {
  TreeSent sent;
  for (const int half : {0, 1}) {
    const std::int64_t elements = half == 0 ? (count + 1) / 2 : count / 2;
    const TreeRole role = tree_role(hosts, host, half);
    if (role.leaf_to != host) sent.leaves += elements;
    if (role.up >= 0) sent.sums += elements;
    sent.results += elements * static_cast<std::int64_t>(role.down_to.size());
  }
  return sent;
}

std::vector<std::int64_t> shares(std::int64_t count, const std::vector<Server>& servers) {
  double all = 0, before = 0;
  for (const Server& server : servers) all += server.rate;
  const std::int64_t blocks = (count + kServed - 1) / kServed;
  std::vector<std::int64_t> shares;
  std::int64_t begin = 0;
  for (const Server& server : servers) {
    before += server.rate;
    const bool last = shares.size() + 1 == servers.size();
    const std::int64_t end =
        last
            ? blocks
            : static_cast<std::int64_t>(std::llround(static_cast<double>(blocks) * (before / all)));
    shares.push_back(std::min(end * kServed, count) - std::min(begin * kServed, count));
    begin = end;
  }
  return shares;
}

Traffic all_reduce(Kind kind, int ranks, double bytes) {
  if (kind != Kind::kTree || ranks == 1) {
    const Traffic there = reduce_scatter(kind, ranks, bytes), back = all_gather(kind, ranks, bytes);
    return {.messages = there.messages + back.messages, .bytes = there.bytes + back.bytes};
  }
  std::int64_t most = 0;
  constexpr std::int64_t kWhole = 2;  // an element a half
  for (int host = 0; host < ranks; ++host) {
    const TreeSent sent = tree_sent(ranks, host, kWhole);
    most = std::max(most, sent.leaves + sent.sums + sent.results);
  }
  const double levels = std::bit_width(static_cast<unsigned>(ranks - 1));
  return {.messages = 2 * levels, .bytes = bytes * static_cast<double>(most) / kWhole};
}

Traffic reduce_scatter(Kind kind, int ranks, double bytes) {
  return sliced(kind == Kind::kRingGather ? Kind::kDirect : kind, ranks, bytes);
}

Traffic all_gather(Kind kind, int ranks, double bytes) { return sliced(kind, ranks, bytes); }

}  // namespace trireme::algorithm
