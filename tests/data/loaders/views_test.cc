// Which part of a picture is seen, and which frames of a clip.
#include "trireme/data/loaders/samples/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme::loaders::views_test {
namespace {

using ::testing::ElementsAre;

TEST(Views, RandomBoxesLieInsideAndAreLargeEnough) {
  bool differ = false;
  for (const media::ImageSize size : {media::ImageSize{64, 48}, {10, 90}, {200, 3}, {1, 1}})
    for (std::int64_t number = 0; number < 500; ++number) {
      Draws draws(1, number), again(1, number);
      const Box box = random_box(size, 0.3, draws);
      EXPECT_EQ(box, random_box(size, 0.3, again));
      ASSERT_GE(box.x, 0);
      ASSERT_GE(box.y, 0);
      ASSERT_GE(box.width, 1);
      ASSERT_GE(box.height, 1);
      ASSERT_LE(box.x + box.width, size.width);
      ASSERT_LE(box.y + box.height, size.height);
      if (size.width != 64) continue;
      EXPECT_GT(box.width * box.height, 0.27 * 64 * 48);
      const double aspect = static_cast<double>(box.width) / box.height;
      EXPECT_TRUE(aspect > 0.7 && aspect < 1.45) << aspect;
      differ = differ || box.x != 0;
    }
  EXPECT_TRUE(differ);
  Draws draws(1, 1);
  EXPECT_EQ(random_box({10, 90}, 0.9, draws), (Box{.x = 0, .y = 38, .width = 10, .height = 13}));
}

TEST(Views, WithoutDrawsTheMiddleIsSeenAsItIs) {
  const View view = choose_view({40, 30}, {}, nullptr);
  EXPECT_EQ(view.box, (Box{.x = 5, .y = 0, .width = 30, .height = 30}));
  EXPECT_FALSE(view.flipped);
}

TEST(Views, OneInTwoIsFlippedWhereTheRuleSaysSo) {
  int flipped = 0;
  for (std::int64_t number = 0; number < 1000; ++number) {
    Draws draws(2, number), others(2, number);
    flipped += choose_view({8, 8}, {}, &draws).flipped;
    EXPECT_FALSE(choose_view({8, 8}, {.flip = false}, &others).flipped);
  }
  EXPECT_NEAR(flipped, 500, 60);
}

const config::PixelScale kImageNet{.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};

TEST(Views, PixelsAreLessTheMeanOverTheDeviation) {
  media::Image left(4, 4);  // red on its left half
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 2; ++x) left.pixel(x, y)[0] = 255;
  const std::vector<media::Image> frames = {left, media::Image(4, 4)};
  const Box all{.x = 0, .y = 0, .width = 4, .height = 4};
  const at::Tensor plain = seen(frames, {.box = all}, 4, kImageNet);
  ASSERT_EQ(plain.sizes(), (at::IntArrayRef{3, 2, 4, 4}));
  EXPECT_NEAR(plain[0][0][1][0].item<double>(), (1 - 0.485) / 0.229, 1e-6);
  EXPECT_NEAR(plain[0][0][1][3].item<double>(), -0.485 / 0.229, 1e-6);
  EXPECT_NEAR(plain[1][0][1][0].item<double>(), -0.456 / 0.224, 1e-6);
  EXPECT_NEAR(plain[2][1][3][3].item<double>(), -0.406 / 0.225, 1e-6);
  EXPECT_TRUE(seen(frames, {.box = all, .flipped = true}, 4, kImageNet).equal(plain.flip({3})));
}

// A ramp stays a ramp: its value at each new centre, without averaging and without rounding to 8 bits.
TEST(Views, WithoutAntialiasingARampIsSampledExactly) {
  media::Image ramp(40, 30);
  for (int y = 0; y < 30; ++y)
    for (int x = 0; x < 40; ++x) {
      ramp.pixel(x, y)[0] = static_cast<std::uint8_t>(5 * x);
      ramp.pixel(x, y)[1] = static_cast<std::uint8_t>(7 * y);
    }
  const Box box{.x = 2, .y = 1, .width = 36, .height = 25};
  const at::Tensor plain = seen({&ramp, 1}, {.box = box}, 8, kImageNet, /*antialias=*/false);
  const at::Tensor smooth = seen({&ramp, 1}, {.box = box}, 8, kImageNet);
  double apart = 0;
  for (int i = 0; i < 8; ++i) {
    const double x = (i + 0.5) * 36 / 8 - 0.5 + 2, y = (i + 0.5) * 25 / 8 - 0.5 + 1;
    for (int other = 0; other < 8; ++other) {
      EXPECT_NEAR(plain[0][0][other][i].item<double>(), (5 * x / 255 - 0.485) / 0.229, 1e-6);
      EXPECT_NEAR(plain[1][0][i][other].item<double>(), (7 * y / 255 - 0.456) / 0.224, 1e-6);
      apart = std::max(apart, std::abs(smooth[1][0][i][other].item<double>() -
                                       plain[1][0][i][other].item<double>()));
    }
  }
  EXPECT_GT(apart, 1e-3);
  // Two stripes of a pixel: four neighbours do not see what lies between them.
  media::Image stripes(16, 16);
  for (int y = 0; y < 16; ++y)
    for (int x = 1; x < 16; x += 4) stripes.pixel(x, y)[0] = 255;
  const Box all{.x = 0, .y = 0, .width = 16, .height = 16};
  const at::Tensor kept = seen({&stripes, 1}, {.box = all}, 4, kImageNet, false);
  EXPECT_NEAR(kept[0][0][0][0].item<double>(), (0.5 - 0.485) / 0.229, 1e-6);
  const at::Tensor averaged = seen({&stripes, 1}, {.box = all}, 4, kImageNet);
  EXPECT_LT(averaged[0][0][1][1].item<double>(), (0.4 - 0.485) / 0.229);
}

TEST(Frames, AreAboutFourASecondInAWindow) {
  const media::VideoInfo info{.width = 8, .height = 8, .fps = 12, .frames = 100};
  EXPECT_THAT(choose_frames(info, {.frames = 4}, nullptr), ElementsAre(44, 48, 52, 55));
  EXPECT_THAT(choose_frames(info, {.frames = 4, .recorded = Recorded::kTrajectory}, nullptr),
              ElementsAre(44, 47, 50, 53));
  std::int64_t least = 100, most = 0;
  for (std::int64_t number = 0; number < 300; ++number) {
    Draws draws(3, number);
    const auto frames = choose_frames(info, {.frames = 4}, &draws);
    EXPECT_EQ(frames[3] - frames[0], 11);
    least = std::min(least, frames.front());
    most = std::max(most, frames.back());
  }
  EXPECT_LT(least, 5);
  EXPECT_GT(most, 94);
  EXPECT_LE(most, 99);
}

// The strides and the box of V-JEPA 2-AC's loader (app/vjepa_droid/droid.py and transforms.py of the original).
TEST(Frames, OfTrajectoriesAreAtMostFourASecond) {
  std::vector<std::int64_t> strides;
  for (const double fps : {12.0, 15.0, 24.0, 25.0, 29.97, 30.0, 60.0}) {
    const auto frames = choose_frames({.width = 8, .height = 8, .fps = fps, .frames = 200},
                                      {.frames = 3, .recorded = Recorded::kTrajectory}, nullptr);
    EXPECT_EQ(frames[2] - frames[1], frames[1] - frames[0]);
    strides.push_back(frames[1] - frames[0]);
  }
  EXPECT_THAT(strides, ElementsAre(3, 4, 6, 7, 8, 8, 15));
}

TEST(Views, OfARobotAreTheMiddleUpToItsWidestAspect) {
  EXPECT_EQ(middle_box({1280, 720}), (Box{.x = 154, .y = 0, .width = 972, .height = 720}));
  EXPECT_EQ(middle_box({300, 400}), (Box{.x = 0, .y = 0, .width = 300, .height = 400}));
  EXPECT_EQ(middle_box({300, 500}), (Box{.x = 0, .y = 50, .width = 300, .height = 400}));
}

TEST(Frames, OfShorterClipsTheLastIsRepeated) {
  const media::VideoInfo info{.width = 8, .height = 8, .fps = 12, .frames = 6};
  EXPECT_THAT(choose_frames(info, {.frames = 4}, nullptr), ElementsAre(0, 5, 5, 5));
  EXPECT_THAT(
      choose_frames({.width = 8, .height = 8, .fps = 0, .frames = 1}, {.frames = 3}, nullptr),
      ElementsAre(0, 0, 0));
  EXPECT_THROW(choose_frames(info, {.frames = 4, .recorded = Recorded::kTrajectory}, nullptr),
               Error);
}

}  // namespace
}  // namespace trireme::loaders::views_test
