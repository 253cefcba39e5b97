// Algorithms of collectives between hosts: messages and bytes of each host, as pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::algorithm {

enum class Kind : std::uint8_t {
  kAuto,          // hierarchical where it gains something, else direct
  kDirect,        // every rank with every other
  kHierarchical,  // inside each host first, then directly between hosts
  kHalving,       // pairs of hosts at distances 1, 2, 4, ..., each round with half the elements
  kTree,          // double binary tree: sums go up to one host, and the result down
  kRing,          // from each host to the next
  kRingGather,    // gathers by kRing, sums directly
};
inline constexpr int kKinds = 7;
std::string_view name(Kind kind);  // "auto", "direct", ..., "ring_gather"

// A reduction server: it adds slices that all hosts send it, and sends the sum to all.
struct Server {
  int rank = 0;
  double rate = 1;  // bytes a second, or of any unit that all servers share
};

// An algorithm for a group whose sums are canonical, or may be added in any order.
struct Choice {
  Kind kind = Kind::kAuto;
  bool canonical = true;
  bool served =
      false;  // kAuto: by reduction servers, or as measured links suggest, where there are some
  std::vector<Server> servers{};
  std::vector<int> order{};      // of hosts around a ring; empty: by number
  std::vector<double> shares{};  // of hosts in large sums of all that go directly; empty: equal
  // kRing: sums of integers go round, which are canonical in any order, and other sums directly.
  bool integers = false;
};
// Why so many hosts cannot run it; empty where they can.
std::string refusal(const Choice& choice, int hosts);

// The place of a rank whose halves, quarters, ... of a buffer are those that its bits, lowest first, choose.
int reversed(int rank, int ranks);

// A host in one half of the elements. Of the canonical tree over hosts, a node that splits its hosts at m is
// added by host m-1 in the first half and by host m in the second. Every host hence adds at most one node a half.
struct TreeRole {
  struct Child {
    int host = -1;  // that brings it; may be this one
    bool leaf = false;
  };
  int span = 0;  // leaves of the node that this host adds; 0: none
  std::array<Child, 2> children{};
  int up = -1;  // host that adds this node's sum to another; -1: it is the result, or there is none
  int leaf_to = -1;          // host that adds this one's own element; may be this one
  int down_from = -1;        // host that brings the result; -1: it is made here
  std::vector<int> down_to;  // hosts that the result is passed on to
  int depth = 0;             // of this host below the one that makes the result
};
TreeRole tree_role(int hosts, int host, int half);

// Elements that each host sends in an all-reduce of `count` elements by the tree, by what they are.
struct TreeSent {
  std::int64_t leaves = 0;   // as they are given
  std::int64_t sums = 0;     // partial, as they are added
  std::int64_t results = 0;  // as they are given
};
TreeSent tree_sent(int hosts, int host, std::int64_t count);

// Elements of `count` that each server adds, by its rate: whole blocks of kServed, but the last.
inline constexpr std::int64_t kServed = 256;
std::vector<std::int64_t> shares(std::int64_t count, const std::vector<Server>& servers);

// For simulations: messages one after the other, and bytes that the busiest of `ranks` sends.
struct Traffic {
  double messages = 0;
  double bytes = 0;
};
Traffic all_reduce(Kind kind, int ranks, double bytes);
Traffic reduce_scatter(Kind kind, int ranks, double bytes);
Traffic all_gather(Kind kind, int ranks, double bytes);

}  // namespace trireme::algorithm
