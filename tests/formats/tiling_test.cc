// Any-resolution tiles of LLaVA and smart resizing of Qwen, against their published sizes.
#include "trireme/formats/tiling.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::formats::tiling_test {
namespace {

// 336 pixels and 24 tokens a side.
std::int64_t kept_tokens(ImageSize image) {
  const TileGrid grid = choose_grid(image, tile_grids(4), 336);
  const TokenRectangle kept = covered(image, grid, 24);
  return 24 * 24 + kept.rows * (kept.columns + 1);  // one more behind each row
}
std::int64_t all_tokens(ImageSize image) {
  return 24 * 24 * (1 + choose_grid(image, tile_grids(4), 336).tiles());
}

TEST(Tiling, GridsOfFourTilesAreThoseOfLlava) {
  EXPECT_EQ(tile_grids(4), (std::vector<TileGrid>{{1, 2}, {2, 1}, {1, 3}, {3, 1}, {2, 2}}));
  EXPECT_EQ(tile_grids(1), (std::vector<TileGrid>{{1, 1}}));
  EXPECT_TRUE(tile_grids(0).empty());
  EXPECT_EQ(tile_grids(9).back(), (TileGrid{3, 3}));
}

TEST(Tiling, TokensOfAnImageAreThoseOfLlava) {
  struct Row {
    ImageSize image;
    std::int64_t kept, all;
  };
  for (const Row& row :
       {Row{{640, 480}, 2340, 2880}, Row{{480, 640}, 2352, 2880}, Row{{1920, 1080}, 1948, 2880},
        Row{{1000, 300}, 2182, 2304}, Row{{672, 672}, 2928, 2880}, Row{{336, 336}, 1176, 1728}}) {
    EXPECT_EQ(kept_tokens(row.image), row.kept) << row.image.width << " x " << row.image.height;
    EXPECT_EQ(all_tokens(row.image), row.all) << row.image.width << " x " << row.image.height;
  }
  const TokenRectangle wide = covered({1920, 1080}, {2, 2}, 24);
  EXPECT_EQ(wide.rows, 28);
  EXPECT_EQ(wide.columns, 48);
  EXPECT_EQ(wide.first_row, 10);
}

// The sizes that LLaVA's resize_and_pad_image gives.
TEST(Tiling, ACanvasRoundsTheOtherSideUp) {
  EXPECT_EQ(canvas_size({101, 37}, {96, 32}), (ImageSize{88, 32}));
  EXPECT_EQ(canvas_size({37, 101}, {32, 96}), (ImageSize{32, 88}));
  EXPECT_EQ(canvas_size({640, 480}, {672, 672}), (ImageSize{672, 504}));
  EXPECT_EQ(canvas_size({1920, 1080}, {672, 672}), (ImageSize{672, 378}));
  EXPECT_EQ(canvas_size({1000, 301}, {1008, 336}), (ImageSize{1008, 304}));
  EXPECT_EQ(canvas_size({200, 1}, {64, 64}), (ImageSize{64, 1}));
  EXPECT_EQ(canvas_size({7, 7}, {96, 32}), (ImageSize{32, 32}));
}

// LLaVA reads its list of grids by width and height, transformers the same list by height and width.
TEST(Tiling, OfEqualGridsTheOrderDecides) {
  const auto chosen = [](ImageSize image, GridOrder order) {
    return choose_grid(image, tile_grids(4, order), 336);
  };
  for (const ImageSize image : {ImageSize{336, 336}, ImageSize{300, 100}, ImageSize{20, 60}}) {
    EXPECT_EQ(chosen(image, GridOrder::kTallFirst), (TileGrid{1, 2})) << image.width;
    EXPECT_EQ(chosen(image, GridOrder::kWideFirst), (TileGrid{2, 1})) << image.width;
  }
  EXPECT_EQ(chosen({337, 337}, GridOrder::kWideFirst), (TileGrid{2, 2}));
  EXPECT_EQ(tile_grids(4, GridOrder::kWideFirst),
            (std::vector<TileGrid>{{2, 1}, {1, 2}, {3, 1}, {1, 3}, {2, 2}}));
}

TEST(Tiling, AnImageThatIsALineIsRefused) {
  for (const ImageSize image : {ImageSize{1000, 1}, ImageSize{1, 1000}, ImageSize{0, 10}}) {
    EXPECT_THROW(choose_grid(image, tile_grids(4), 336), Error);
  }
  EXPECT_NO_THROW(choose_grid({200, 1}, tile_grids(4), 336));
}

}  // namespace
}  // namespace trireme::formats::tiling_test
