// Tiles of an image against PIL's bicubic, LLaVA's canvas, and the mean and deviation that pixels have.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/data/loaders/user_files.h"
#include "tests/data/media/pil_bicubic.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/data/loaders/asked.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/data/media/resize.h"
#include "trireme/families/vlm/samples_source.h"

namespace trireme::loaders::tiles_test {
namespace {

config::Job seeing(int side, const Sets& more) {
  Sets sets = {"model.family=vlm", "data.source=pairs", "model.seq_len=400",
               "vision.image=" + std::to_string(side), "vision.patch=" + std::to_string(side / 2)};
  sets.insert(sets.end(), more.begin(), more.end());
  return job_of("pictures", sets);
}

media::Image white(int width, int height) {
  media::Image image(width, height);
  std::ranges::fill(image.rgb, std::uint8_t{255});
  return image;
}

// What the whole image becomes, from 0 to 255, rows first.
at::Tensor levels(const at::Tensor& tile) { return ((tile + 1) * 127.5).permute({1, 2, 0}); }

TEST(Tiles, OfNoiseAreThoseOfPil) {
  const Tiling tiling(seeing(8, {"vlm.max_tiles=0"}));
  for (const auto& [side, pil] :
       {std::pair{32, media::kPilShrunkBy4}, {64, media::kPilShrunkBy8}}) {
    const at::Tensor tile = levels(tiles_of(tiling, media::noise(side, side))[0]).contiguous();
    for (std::size_t i = 0; i < pil.size(); ++i)
      EXPECT_NEAR(tile.data_ptr<float>()[i], pil[i], 1) << side << " " << i;
  }
}

TEST(Tiles, NoColumnAndNoRowIsLeftOut) {
  const Tiling tiling(seeing(8, {"vlm.max_tiles=0"}));
  for (const int side : {32, 64}) {
    const at::Tensor black = tiles_of(tiling, media::Image(side, side));
    for (int line = 0; line < side; ++line) {
      media::Image column(side, side), row(side, side);
      for (int i = 0; i < side; ++i) {
        std::fill_n(column.pixel(line, i), 3, std::uint8_t{255});
        std::fill_n(row.pixel(i, line), 3, std::uint8_t{255});
      }
      EXPECT_FALSE(at::equal(tiles_of(tiling, column), black)) << "column " << line;
      EXPECT_FALSE(at::equal(tiles_of(tiling, row), black)) << "row " << line;
    }
  }
}

// 101 x 37 in three tiles of 32: 88 x 32 pixels in the middle of a black canvas.
TEST(Tiles, OfAGridAreLlavasCanvas) {
  const Tiling tiling(seeing(32, {"vlm.max_tiles=3"}));
  const at::Tensor tiles = tiles_of(tiling, white(101, 37));
  ASSERT_EQ(tiles.sizes(), (at::IntArrayRef{4, 3, 32, 32}));
  const at::Tensor canvas = at::cat({tiles[1], tiles[2], tiles[3]}, 2);
  EXPECT_TRUE(at::equal(canvas.narrow(2, 4, 88), torch::ones({3, 32, 88})));
  EXPECT_TRUE(at::equal(canvas.narrow(2, 0, 4), -torch::ones({3, 32, 4})));
  EXPECT_TRUE(at::equal(canvas.narrow(2, 92, 4), -torch::ones({3, 32, 4})));
  EXPECT_TRUE(at::equal(tiles[0], torch::ones({3, 32, 32})));
}

TEST(Tiles, OfASmallImageStandAsTheTieSays) {
  const at::Tensor tall = tiles_of(Tiling(seeing(32, {})), white(20, 20)),
                   wide = tiles_of(Tiling(seeing(32, {"vlm.fit=wide"})), white(20, 20));
  ASSERT_EQ(tall.size(0), 3);
  ASSERT_EQ(wide.size(0), 3);
  for (const auto& [tiles, dim] : {std::pair{tall, 1}, std::pair{wide, 2}}) {
    const at::Tensor canvas = at::cat({tiles[1], tiles[2]}, dim);
    EXPECT_EQ(canvas.narrow(dim, 0, 16).max().item<float>(), -1) << dim;
    EXPECT_EQ(canvas.narrow(dim, 16, 32).min().item<float>(), 1) << dim;
    EXPECT_EQ(canvas.narrow(dim, 48, 16).max().item<float>(), -1) << dim;
  }
}

// Bands of 122, 116 and 104, CLIP's mean in 8 bits, above and below.
TEST(Tiles, OfAPaddedImageKeepItsAspect) {
  const Tiling tiling(seeing(32, {"vlm.max_tiles=0", "vlm.fit=pad", "vision.pixels=clip"}));
  const at::Tensor tile = tiles_of(tiling, white(64, 33))[0];
  EXPECT_NEAR(tile[0][0][5].item<double>(), (122 / 255.0 - 0.48145466) / 0.26862954, 1e-6);
  EXPECT_NEAR(tile[1][0][5].item<double>(), (116 / 255.0 - 0.4578275) / 0.26130258, 1e-6);
  EXPECT_NEAR(tile[2][31][5].item<double>(), (104 / 255.0 - 0.40821073) / 0.27577711, 1e-6);
  EXPECT_NEAR(tile[0][16][5].item<double>(), (1 - 0.48145466) / 0.26862954, 1e-6);
  const Tiling whole(seeing(32, {"vlm.max_tiles=0", "vision.pixels=clip"}));
  EXPECT_TRUE(
      at::equal(tiles_of(tiling, media::noise(40, 40)), tiles_of(whole, media::noise(40, 40))));
  // The longer side of both is 101, in more than one strip of rows: 34 before the picture and 34 behind, or 32.
  for (const auto& [width, height] : {std::pair{101, 33}, {101, 37}, {33, 101}, {37, 101}}) {
    const media::Image picture = media::noise(width, height);
    media::Image by_hand(101, 101);
    for (std::size_t i = 0; i < by_hand.rgb.size(); ++i)
      by_hand.rgb[i] = std::array<std::uint8_t, 3>{122, 116, 104}[i % 3];
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        std::copy_n(picture.pixel(x, y), 3,
                    by_hand.pixel(x + (101 - width) / 2, y + (101 - height) / 2));
    EXPECT_TRUE(at::equal(tiles_of(tiling, picture), tiles_of(whole, by_hand))) << width;
  }
}

// The first value is red.
double red_of(const at::Tensor& pixels) { return pixels.flatten()[0].item<double>(); }

TEST(Pixels, OfGrey128AreThoseOfEachPublishedTower) {
  const harness::ScratchDirectory scratch;
  const std::string file = scratch.write("grey.png", plain_png(128)).string();
  scratch.write("grey.txt", "grey");
  scratch.write("grey.json", R"({"questions": [{"question": "?", "answer": "g"}]})");
  struct Published {
    const char* pixels;
    double red;
  };
  for (const Published& one : {Published{"clip", (128 / 255.0 - 0.48145466) / 0.26862954},
                               Published{"siglip", (128 / 255.0 - 0.5) / 0.5},
                               Published{"imagenet", (128 / 255.0 - 0.485) / 0.229},
                               Published{"0.1,0.2,0.3/0.25,1,1", (128 / 255.0 - 0.1) / 0.25}}) {
    const Sets said = {std::string("vision.pixels=") + one.pixels, "data.validation=0"};
    const auto job = [&](const Sets& family) {
      Sets sets = family;
      sets.insert(sets.end(), said.begin(), said.end());
      return job_of(scratch.path(), sets);
    };
    const config::Job llava = job({"model.family=vlm", "data.source=pairs", "model.seq_len=120"});
    EXPECT_NEAR(red_of(open_sources(llava, {}).train->batch(0, 1)[3]), one.red, 1e-6) << one.pixels;
    EXPECT_NEAR(red_of(asked_inputs(llava, file)[3]), one.red, 1e-6) << one.pixels;
    const config::Job clip = job({"model.family=clip", "data.source=pairs", "model.seq_len=60"});
    EXPECT_NEAR(red_of(open_sources(clip, {}).train->batch(0, 1)[0]), one.red, 1e-6) << one.pixels;
    EXPECT_NEAR(red_of(asked_pixels(clip, file)), one.red, 1e-6) << one.pixels;
  }
}

TEST(Pixels, OfAFamilyThatSaysNothingAreAsBefore) {
  const harness::ScratchDirectory scratch;
  const std::string file = scratch.write("grey.png", plain_png(128)).string();
  const config::Job tiles =
                        job_of("x", {"model.family=vlm", "data.source=pairs", "model.seq_len=120"}),
                    clip = job_of("x", {"model.family=clip", "data.source=pairs"});
  EXPECT_NEAR(red_of(asked_inputs(tiles, file)[3]), 128 / 127.5 - 1, 1e-6);
  EXPECT_NEAR(red_of(asked_pixels(clip, file)), (128 / 255.0 - 0.485) / 0.229, 1e-6);
}

}  // namespace
}  // namespace trireme::loaders::tiles_test
