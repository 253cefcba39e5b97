#include "trireme/plan/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "trireme/base/error.h"

namespace trireme::mesh::mesh_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message_of(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  return "nothing was thrown";
}

// anchors.md, "Grids and arithmetic": 16 ranks, tp 2, pp 4.
TEST(Mesh, AnchorGroups) {
  const Mesh mesh({.pp = 4, .dp_shard = 2, .tp = 2});
  ASSERT_EQ(mesh.world(), 16);
  EXPECT_THAT(mesh.groups(kDp),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6),
                          ElementsAre(5, 7), ElementsAre(8, 10), ElementsAre(9, 11),
                          ElementsAre(12, 14), ElementsAre(13, 15)));
  EXPECT_THAT(mesh.groups(Axis::kTp),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5),
                          ElementsAre(6, 7), ElementsAre(8, 9), ElementsAre(10, 11),
                          ElementsAre(12, 13), ElementsAre(14, 15)));
  EXPECT_THAT(mesh.groups(Axis::kPp),
              ElementsAre(ElementsAre(0, 4, 8, 12), ElementsAre(1, 5, 9, 13),
                          ElementsAre(2, 6, 10, 14), ElementsAre(3, 7, 11, 15)));
}

// Replicas are farther apart than shards: HSDP gathers among neighbours.
TEST(Mesh, ShardsStandInsideReplicas) {
  const Mesh mesh({.dp_replicate = 2, .dp_shard = 2});
  EXPECT_THAT(mesh.groups(Axis::kDpShard), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(mesh.groups(Axis::kDpReplicate), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(mesh.group(3, kDp), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(mesh.degree(kDp), 4);
}

TEST(Mesh, OfOneRank) {
  const Mesh mesh;
  EXPECT_EQ(mesh.world(), 1);
  EXPECT_THAT(mesh.group(0, kWorld), ElementsAre(0));
  EXPECT_EQ(print(mesh), "pp1.dp_replicate1.dp_shard1.cp1.tp1");
}

TEST(Mesh, PeerChangesOneCoordinate) {
  const Mesh mesh({.pp = 4, .dp_shard = 2, .tp = 2});
  EXPECT_EQ(mesh.peer(6, Axis::kPp, 2), 10);
  EXPECT_EQ(mesh.peer(6, Axis::kPp, 1), 6);
  EXPECT_EQ(mesh.peer(6, Axis::kTp, 1), 7);
}

// Over many meshes: coordinates and rank are inverse; groups partition the world, are sorted, agree
// with the definition "shares every other coordinate".
TEST(Mesh, GroupsPartitionTheWorld) {
  for (int pp : {1, 3})
    for (int replicate : {1, 2})
      for (int shard : {1, 2, 3})
        for (int cp : {1, 2})
          for (int tp : {1, 4}) {
            const int islands = pp == 1 ? 2 : 1;
            const Mesh mesh({.pp = pp,
                             .dp_replicate = replicate,
                             .dp_shard = shard,
                             .cp = cp,
                             .tp = tp,
                             .island = islands});
            ASSERT_EQ(mesh.world(), pp * islands * replicate * shard * cp * tp);
            EXPECT_EQ(parse_mesh(print(mesh)), mesh);
            for (unsigned bits = 0; bits < 64; ++bits) {
              AxisSet axes;
              for (Axis axis : kAllAxes)
                if (bits >> static_cast<unsigned>(axis) & 1u) axes = axes | axis;
              std::set<int> seen;
              for (const auto& group : mesh.groups(axes)) {
                EXPECT_EQ(static_cast<int>(group.size()), mesh.degree(axes));
                EXPECT_TRUE(std::ranges::is_sorted(group));
                for (std::size_t i = 0; i < group.size(); ++i) {
                  EXPECT_TRUE(seen.insert(group[i]).second);
                  EXPECT_EQ(mesh.index_in_group(group[i], axes), static_cast<int>(i));
                  EXPECT_EQ(mesh.group(group[i], axes), group);
                  for (Axis axis : kAllAxes)
                    if (!axes.contains(axis)) {
                      EXPECT_EQ(mesh.coordinate(group[i], axis), mesh.coordinate(group[0], axis));
                    }
                }
              }
              EXPECT_EQ(static_cast<int>(seen.size()), mesh.world());
            }
            for (int rank = 0; rank < mesh.world(); ++rank)
              EXPECT_EQ(mesh.rank(mesh.coordinates(rank)), rank);
          }
}

TEST(Mesh, RefusesBadDegrees) {
  EXPECT_THAT(message_of(ErrorKind::kUsage, [] { Mesh({.dp_shard = 0}); }),
              HasSubstr("dp_shard has 0 ranks; needs 1 or more"));
  EXPECT_THAT(message_of(ErrorKind::kUsage, [] { Mesh({.pp = -2}); }),
              HasSubstr("pp has -2 ranks"));
  EXPECT_THAT(message_of(ErrorKind::kUsage,
                         [] { Mesh({.pp = 1 << 30, .dp_shard = 1 << 30, .tp = 1 << 30}); }),
              HasSubstr("more than 1048576 ranks"));
}

TEST(Mesh, ChecksRanksAndCoordinates) {
  const Mesh mesh({.dp_shard = 4});
  EXPECT_THAT(message_of(ErrorKind::kInternal, [&] { mesh.coordinates(4); }), HasSubstr("rank 4"));
  EXPECT_THAT(message_of(ErrorKind::kInternal, [&] { mesh.group(-1, kDp); }), HasSubstr("rank -1"));
  EXPECT_THAT(message_of(ErrorKind::kInternal, [&] { mesh.peer(0, Axis::kTp, 1); }),
              HasSubstr("tp coordinate 1"));
}

TEST(Mesh, ParsesItsOwnTextOnly) {
  EXPECT_EQ(parse_mesh("pp2.dp_replicate1.dp_shard4.cp1.tp8"),
            Mesh({.pp = 2, .dp_shard = 4, .tp = 8}));
  EXPECT_EQ(parse_mesh("pp1.island3.dp_replicate2.dp_shard1.cp1.tp1"),
            Mesh({.dp_replicate = 2, .island = 3}));
  for (const char* text :
       {"", "pp1", "pp1.island1.dp_replicate1.dp_shard4.cp1.tp1",
        "pp1.dp_replicate1.dp_shard4.cp1.tp1.", "pp1.dp_replicate1.dp_shard4.cp1.tp",
        "pp1.dp_replicate1.dp_shard0.cp1.tp1", "pp1.dp_replicate1.dp_shard-1.cp1.tp1",
        "pp01.dp_replicate1.dp_shard4.cp1.tp1", "dp_replicate1.pp1.dp_shard4.cp1.tp1", "1.1.4.1.1",
        "pp1.dp_replicate1.dp_shard99999999999.cp1.tp1", " pp1.dp_replicate1.dp_shard4.cp1.tp1"})
    EXPECT_THAT(message_of(ErrorKind::kData, [&] { parse_mesh(text); }), HasSubstr("is not a mesh"))
        << text;
}

TEST(AxisSet, PrintsAndParsesEverySet) {
  std::set<std::string> texts;
  for (unsigned bits = 0; bits < 64; ++bits) {
    AxisSet axes;
    for (Axis axis : kAllAxes)
      if (bits >> static_cast<unsigned>(axis) & 1u) axes = axes | axis;
    EXPECT_EQ(axes.bits(), bits);
    EXPECT_EQ(parse_axes(print(axes)), axes);
    texts.insert(print(axes));
  }
  EXPECT_EQ(texts.size(), 64u);
  EXPECT_EQ(print(kDp), "island+dp_replicate+dp_shard");
  EXPECT_EQ(print(AxisSet{}), "none");
}

TEST(AxisSet, Algebra) {
  EXPECT_EQ(kWorld - kDp, (AxisSet{Axis::kTp, Axis::kCp, Axis::kPp}));
  EXPECT_EQ(kDp & Axis::kDpShard, AxisSet(Axis::kDpShard));
  EXPECT_TRUE(kDp.contains(Axis::kDpReplicate));
  EXPECT_FALSE(kDp.contains(kWorld));
  EXPECT_TRUE((kDp - kDp).empty());
}

TEST(AxisSet, RefusesOtherText) {
  EXPECT_THAT(message_of(ErrorKind::kData, [] { parse_axes("dp"); }),
              HasSubstr("\"dp\" is not a mesh axis"));
  EXPECT_THAT(message_of(ErrorKind::kData, [] { parse_axes(""); }),
              HasSubstr("is not a mesh axis"));
  EXPECT_THAT(message_of(ErrorKind::kData, [] { parse_axes("tp+"); }),
              HasSubstr("is not a mesh axis"));
  EXPECT_THAT(message_of(ErrorKind::kData, [] { parse_axes("tp+pp"); }),
              HasSubstr("outermost first: \"pp+tp\""));
  EXPECT_THAT(message_of(ErrorKind::kData, [] { parse_axes("tp+tp"); }), HasSubstr("once each"));
}

}  // namespace
}  // namespace trireme::mesh::mesh_test
