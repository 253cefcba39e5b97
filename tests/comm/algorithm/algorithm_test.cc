#include "trireme/comm/algorithm/algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::algorithm::algorithm_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Algorithm, RefusesWhatWouldChangeBitsOrHasNoPartners) {
  EXPECT_THAT(refusal({Kind::kHalving}, 8), IsEmpty());
  EXPECT_THAT(refusal({Kind::kHalving}, 6), HasSubstr("needs a power of two of hosts, not 6"));
  EXPECT_THAT(refusal({Kind::kRing}, 2), IsEmpty());
  EXPECT_THAT(refusal({Kind::kRing}, 3), HasSubstr("set ring_gather"));
  EXPECT_THAT(refusal({Kind::kRing, false}, 3), IsEmpty());
  for (const Kind kind : {Kind::kAuto, Kind::kDirect, Kind::kTree, Kind::kRingGather})
    EXPECT_THAT(refusal({kind}, 7), IsEmpty());
}

TEST(Algorithm, PlacesAreReversedBits) {
  EXPECT_EQ(reversed(1, 8), 4);
  EXPECT_EQ(reversed(6, 8), 3);
  for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(reversed(reversed(rank, 16), 16), rank);
}

// In each half every node of the tree has one adder, all leaves reach one, and all hosts get the result once.
TEST(Algorithm, TreesJoinAllHosts) {
  for (int hosts = 2; hosts < 20; ++hosts)
    for (const int half : {0, 1}) {
      SCOPED_TRACE(testing::Message() << hosts << " hosts, half " << half);
      std::multiset<int> got;
      int roots = 0, nodes = 0, leaves = 0;
      for (int host = 0; host < hosts; ++host) {
        const TreeRole role = tree_role(hosts, host, half);
        if (role.down_from < 0) ++roots;
        for (const int other : role.down_to) {
          got.insert(other);
          EXPECT_EQ(tree_role(hosts, other, half).down_from, host);
          EXPECT_EQ(tree_role(hosts, other, half).depth, role.depth + 1);
        }
        EXPECT_NE(role.leaf_to, -1);
        if (role.span == 0) continue;
        ++nodes;
        for (const TreeRole::Child& child : role.children) {
          const TreeRole from = tree_role(hosts, child.host, half);
          EXPECT_EQ(child.leaf ? from.leaf_to : from.up, host);
          leaves += child.leaf ? 1 : 0;
        }
      }
      EXPECT_EQ(roots, 1);
      EXPECT_EQ(nodes, hosts - 1);
      EXPECT_EQ(leaves, hosts);
      EXPECT_EQ(got.size(), static_cast<std::size_t>(hosts - 1));
      EXPECT_EQ(std::set<int>(got.begin(), got.end()).size(), got.size());
    }
}

TEST(Algorithm, ServersGetWholeBlocksByTheirRates) {
  using Shares = std::vector<std::int64_t>;
  EXPECT_EQ(shares(4096, {{8, 1}, {9, 1}}), (Shares{2048, 2048}));
  EXPECT_EQ(shares(4096, {{8, 3e8}, {9, 1e8}}), (Shares{3072, 1024}));
  EXPECT_EQ(shares(1000, {{8, 1}, {9, 1}, {10, 1}}), (Shares{256, 512, 232}));
  EXPECT_EQ(shares(10, {{8, 1}, {9, 1}}), (Shares{10, 0}));
  EXPECT_EQ(shares(700, {{8, 5}}), (Shares{700}));
}

TEST(Algorithm, TrafficIsThatOfTheTable) {
  for (const Kind kind : {Kind::kAuto, Kind::kDirect, Kind::kHalving, Kind::kRing}) {
    EXPECT_DOUBLE_EQ(all_reduce(kind, 4, 100).bytes, 150) << name(kind);
    EXPECT_DOUBLE_EQ(all_gather(kind, 4, 100).bytes, 75) << name(kind);
    EXPECT_DOUBLE_EQ(all_reduce(kind, 1, 100).bytes, 0) << name(kind);
  }
  EXPECT_DOUBLE_EQ(all_reduce(Kind::kDirect, 8, 100).messages, 2);
  EXPECT_DOUBLE_EQ(all_reduce(Kind::kHalving, 8, 100).messages, 6);
  EXPECT_DOUBLE_EQ(all_reduce(Kind::kRing, 8, 100).messages, 14);
  EXPECT_DOUBLE_EQ(all_reduce(Kind::kTree, 8, 100).messages, 6);
  // The busiest host: a leaf and two sums of halves up, and two results down to as many as three.
  EXPECT_GT(all_reduce(Kind::kTree, 8, 100).bytes, 200);
  EXPECT_LE(all_reduce(Kind::kTree, 8, 100).bytes, 350);
}

}  // namespace
}  // namespace trireme::algorithm::algorithm_test
