// Parameters cut over tensor-parallel ranks: every element is held, and one rank owns it.
#include "trireme/model/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/model/spec.h"

namespace trireme::model::cut_test {
namespace {

using testing::Each;
using testing::ElementsAre;

// How many ranks hold, and own, each element; local elements must be tiled in order.
struct Holders {
  std::vector<int> held;
  std::vector<int> owned;
};
Holders holders(const ParamSpec& param, int size) {
  Holders result{.held = std::vector<int>(static_cast<std::size_t>(param.numel())),
                 .owned = result.held};
  for (int rank = 0; rank < size; ++rank) {
    const LocalParam local = local_param(param, rank, size);
    std::int64_t at = 0;
    for (const Extent& extent : local.extents) {
      EXPECT_EQ(extent.local, at);
      at += extent.count;
      for (std::int64_t i = 0; i < extent.count; ++i) {
        ++result.held[extent.global + i];
        result.owned[extent.global + i] += extent.owned;
      }
    }
    EXPECT_EQ(local.numel(), at);
  }
  return result;
}

TEST(Cut, EveryElementIsOwnedOnceWhateverTheShape) {
  for (int size : {1, 2, 3, 4, 5})
    for (const ParamSpec& param : {
             ParamSpec{.shape = {12, 5}, .cut = {.dim = 0, .segments = {{.granules = 12}}}},
             ParamSpec{.shape = {5, 12},
             .cut = {.dim = 1, .segments = {{.granules = 6, .size = 2}}}},
             ParamSpec{.shape = {15}, .cut = {.dim = 0, .segments = {{5, 1}, {5, 2}}}},
             ParamSpec{.shape = {7, 3}},
         }) {
      const Holders result = holders(param, size);
      EXPECT_THAT(result.owned, Each(1));
      if (param.cut.dim >= 0) {
        EXPECT_THAT(result.held, Each(1));
        EXPECT_FALSE(local_param(param, 0, size).partial);
      } else {
        EXPECT_THAT(result.held, Each(size));
      }
    }
}

TEST(Cut, SharedGranulesAreHeldByEveryReaderAndOwnedByTheFirst) {
  // 8 query heads on 3 ranks: 0-1, 2-4, 5-7; pairs of them read one of 4 key-value heads.
  const ParamSpec kv{.shape = {4}, .cut = {.dim = 0, .segments = {{4, 1, 2}}}};
  const Holders result = holders(kv, 3);
  EXPECT_THAT(result.held, ElementsAre(1, 1, 2, 1));
  EXPECT_THAT(result.owned, Each(1));
  EXPECT_THAT(local_param(kv, 1, 3).shape, ElementsAre(2));
  EXPECT_TRUE(local_param(kv, 0, 3).partial);  // on every rank alike
  EXPECT_FALSE(local_param(kv, 0, 2).partial);
  // One key-value head, read by all.
  const ParamSpec single{.shape = {1}, .cut = {.dim = 0, .segments = {{1, 1, 8}}}};
  EXPECT_THAT(holders(single, 4).held, ElementsAre(4));
  EXPECT_THAT(holders(single, 4).owned, ElementsAre(1));
}

TEST(Cut, FusedSegmentsAreSharedOutEachByItself) {
  // Query, key and value of 4 heads with 2 rows each, on 2 ranks.
  const ParamSpec fused{.shape = {24}, .cut = {.dim = 0, .segments = {{4, 2}, {4, 2}, {4, 2}}}};
  const LocalParam second = local_param(fused, 1, 2);
  ASSERT_EQ(second.extents.size(), 3u);
  EXPECT_EQ(second.extents[0].global, 4);
  EXPECT_EQ(second.extents[1].global, 12);
  EXPECT_EQ(second.extents[2].global, 20);
}

TEST(Cut, SlicesOfAUnitAreStretchesOfItsParameters) {
  // Rank 1 of 2 has columns 2 to 4 of w, row by row, and then all of b.
  const UnitSpec unit{
      .name = "u",
      .params = {{.name = "w", .shape = {2, 5}, .cut = {1, {{5}}}}, {.name = "b", .shape = {4}}}};
  ASSERT_EQ(local_param(unit.params[0], 1, 2).numel(), 6);
  const auto within = extents_within(unit, 1, 2, /*offset=*/2, /*count=*/5);
  ASSERT_EQ(within.size(), 2u);
  ASSERT_EQ(within[0].size(), 2u);
  EXPECT_EQ(within[0][0].global, 4);
  EXPECT_EQ(within[0][0].local, 0);
  EXPECT_EQ(within[0][0].count, 1);
  EXPECT_EQ(within[0][1].global, 7);
  EXPECT_EQ(within[0][1].local, 1);
  EXPECT_EQ(within[0][1].count, 3);
  ASSERT_EQ(within[1].size(), 1u);
  EXPECT_EQ(within[1][0].global, 0);
  EXPECT_EQ(within[1][0].local, 4);
  EXPECT_EQ(within[1][0].count, 1);
}

TEST(Cut, CountsForPlans) {
  const UnitSpec unit{.name = "u",
                      .params = {{.name = "w", .shape = {5, 3}, .cut = {0, {{5}}}},
                                 {.name = "g", .shape = {3}, .cut = {.partial = true}},
                                 {.name = "b", .shape = {4}}}};
  EXPECT_EQ(largest_numel(unit, 1), 22);
  EXPECT_EQ(largest_numel(unit, 2), 3 * 3 + 7);
  EXPECT_EQ(partial_numel(unit, 1), 0);
  EXPECT_EQ(partial_numel(unit, 2), 3);
}

}  // namespace
}  // namespace trireme::model::cut_test
