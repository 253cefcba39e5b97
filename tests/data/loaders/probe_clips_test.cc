// What a probe sees of a user's clips: crops, operations, erasing, segments and views.
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "tests/data/loaders/user_files.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/data/loaders/samples/augmentation.h"
#include "trireme/data/loaders/samples/views.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/media/video.h"
#include "trireme/families/probe/model.h"

namespace trireme::loaders::probe_clips_test {
namespace {

using ::testing::ElementsAre;

// 32 frames at 4 a second: red rises from left to right, green by 8 a frame.
void write_clips(const harness::ScratchDirectory& scratch, int count = 1) {
  std::vector<media::Image> frames;
  for (int frame = 0; frame < 32; ++frame) {
    media::Image image(96, 32);
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 96; ++x) {
        image.pixel(x, y)[0] = static_cast<std::uint8_t>(2 * x);
        image.pixel(x, y)[1] = static_cast<std::uint8_t>(8 * frame);
      }
    frames.push_back(image);
  }
  std::string list;
  for (int i = 0; i < count; ++i) {
    scratch.write(fmt::format("{}.webp", i), media::encode_webp(frames, 4, true));
    list += fmt::format("{}.webp {}\n", i, i % 2);
  }
  scratch.write("list.csv", list);
}

Sources open(const harness::ScratchDirectory& scratch, const Sets& more = {},
             const std::string& validation = "0") {
  Sets sets = {"model.family=probe",      "probe.heads=1",
               "data.source=clips",       "vision.frames=4",
               "vision.hidden=24",        "vision.heads=1",
               "vision.positions=rotary", "data.validation=" + validation};
  sets.insert(sets.end(), more.begin(), more.end());
  return open_sources(job_of(scratch / "list.csv", sets), {});
}

double red(const at::Tensor& pixel_or_mean) {
  return (pixel_or_mean.item<double>() * 0.229 + 0.485) * 255;
}
double green(const at::Tensor& pixel_or_mean) {
  return (pixel_or_mean.item<double>() * 0.224 + 0.456) * 255;
}

TEST(ProbeClips, AreCropsFromEightPercentUp) {
  const harness::ScratchDirectory scratch;
  write_clips(scratch);
  const Sources sources = open(scratch, {});
  double least = 1;
  for (std::int64_t place = 0; place < 200; ++place) {
    const at::Tensor row = sources.train->batch(place, 1)[0][0][0][0][8];
    // Both outermost centres lie half a pixel of 16 inside.
    least = std::min(least, (red(row[15]) - red(row[0])) / (2 * 96) * 16 / 15);
  }
  // Of an area 3 : 1 a share of 0.08 with an aspect of 3/4 is sqrt(0.08 * 0.75 / 3) = 0.14 wide, one of 0.3 0.27.
  EXPECT_LT(least, 0.22);
  EXPECT_GT(least, 0.13);
}

TEST(ProbeClips, OperationsAreDrawnOncePerClip) {
  const harness::ScratchDirectory scratch;
  scratch.write("0.webp", media::encode_webp(
                              std::vector(8,
                                          [] {
                                            media::Image image(40, 30);
                                            for (std::size_t i = 0; i < image.rgb.size(); ++i)
                                              image.rgb[i] = static_cast<std::uint8_t>(i * 7 % 251);
                                            return image;
                                          }()),
                              4, true));
  scratch.write("list.csv", "0.webp 0\n");
  // Frames are equal before operations, and afterwards but for the noise in the rectangles of a quarter of the clips.
  const Sources plain = open(scratch, {}), changed = open(scratch, {"probe.augment=4"}),
                again = open(scratch, {"probe.augment=4"});
  int differ = 0, erased = 0;
  for (std::int64_t place = 0; place < 40; ++place) {
    const at::Tensor clip = changed.train->batch(place, 1)[0][0];
    EXPECT_TRUE(at::equal(clip, again.train->batch(place, 1)[0][0]));
    differ += !at::equal(clip, plain.train->batch(place, 1)[0][0]);
    if (at::equal(clip.select(1, 0), clip.select(1, 1))) {
      for (std::int64_t frame = 2; frame < 4; ++frame)
        EXPECT_TRUE(at::equal(clip.select(1, 0), clip.select(1, frame)));
      continue;
    }
    ++erased;
    const at::Tensor noise = clip.select(1, 0).ne(clip.select(1, 1)).any(0);
    const std::int64_t rows = noise.any(1).sum().item<std::int64_t>(),
                       columns = noise.any(0).sum().item<std::int64_t>();
    EXPECT_EQ(rows * columns, noise.sum().item<std::int64_t>());
  }
  EXPECT_GT(differ, 20);
  EXPECT_NEAR(erased, 10, 3 * std::sqrt(40 * 0.25 * 0.75));
}

TEST(ProbeClips, ErasingPutsNoiseIntoARectangle) {
  int erased = 0;
  for (std::int64_t number = 0; number < 1000; ++number) {
    Draws draws(3, number);
    at::Tensor clip = at::zeros({3, 2, 20, 24}, at::kFloat);
    erase(clip, 0.25, draws);
    const at::Tensor touched = clip[0][0].ne(0);
    const double share = touched.sum().item<double>() / (20 * 24);
    if (share == 0) continue;
    ++erased;
    EXPECT_GT(share, 0.01);
    EXPECT_LT(share, 0.36);
    EXPECT_TRUE(at::equal(touched, clip[2][1].ne(0)));  // one rectangle
    const std::int64_t rows = touched.any(1).sum().item<std::int64_t>(),
                       columns = touched.any(0).sum().item<std::int64_t>();
    EXPECT_EQ(rows * columns, touched.sum().item<std::int64_t>());
    EXPECT_FALSE(at::equal(clip[0][0], clip[0][1]));  // noise of each frame
  }
  EXPECT_NEAR(erased, 250, 3 * std::sqrt(1000 * 0.25 * 0.75));
}

TEST(ProbeClips, HaveSegmentsOfTheirVideo) {
  const harness::ScratchDirectory scratch;
  write_clips(scratch, 4);
  const Sources sources = open(scratch, {"probe.clips=[2, 1]"});
  const std::vector<at::Tensor> batch = sources.train->batch(0, 4);
  ASSERT_EQ(batch[0].sizes(), (at::IntArrayRef{8, 3, 4, 16, 16}));
  ASSERT_EQ(batch[1].sizes(), (at::IntArrayRef{4}));
  for (std::int64_t i = 0; i < 8; ++i) {
    const double first = green(batch[0][i][1][0].mean()) / 8,
                 last = green(batch[0][i][1][3].mean()) / 8;
    EXPECT_NEAR(last - first, 3, 0.01);
    EXPECT_GE(first, (i % 2) * 16 - 0.01);
    EXPECT_LE(last, (i % 2) * 16 + 15.01);
  }
  EXPECT_TRUE(at::equal(sources.train->batch(2, 1)[0], batch[0].narrow(0, 4, 2)));
  // Shorter than the segments together: they overlap, from the first frame to the last.
  EXPECT_THAT(
      choose_segments({.width = 8, .height = 8, .fps = 4, .frames = 6}, {.frames = 4}, 2, nullptr),
      ElementsAre(0, 1, 2, 3, 2, 3, 4, 5));
  EXPECT_THAT(
      choose_segments({.width = 8, .height = 8, .fps = 4, .frames = 2}, {.frames = 3}, 2, nullptr),
      ElementsAre(0, 1, 1, 0, 1, 1));
}

TEST(ProbeClips, ThatAreHeldOutHaveViewsAlongTheLongerSide) {
  const harness::ScratchDirectory scratch;
  write_clips(scratch, 6);
  const Sources sources =
      open(scratch, {"probe.clips=[2, 3]", "run.micro_batch=6", "run.global_batch=6"}, "3");
  EXPECT_EQ(sources.train->samples(), 3);
  ASSERT_EQ(sources.held_out->samples(), 12);  // 9 views in batches of 6
  EXPECT_EQ(sources.held_out->weight(0, 12), 3);
  const std::vector<at::Tensor> batch = sources.held_out->batch(0, 6);
  ASSERT_EQ(batch[0].sizes(), (at::IntArrayRef{12, 3, 4, 16, 16}));
  for (std::int64_t row = 0; row < 6; ++row) {
    // Of 96 x 32 pixels squares at 0, 32 and 64, whose first of 16 columns is at half a pixel.
    EXPECT_NEAR(red(batch[0][2 * row][0][0][8][0]), 2 * (32 * (row % 3) + 0.5), 1.5) << row;
    const std::int64_t label = batch[1][row].item<std::int64_t>();
    EXPECT_TRUE(row % 3 == 0 ? label >= 0 : label == model::kSameSample) << row;
  }
  const at::Tensor filled = sources.held_out->batch(6, 6)[1];
  EXPECT_EQ((filled == -100).sum().item<std::int64_t>(), 3);
  EXPECT_THAT(view_boxes({8, 20}, 2), ElementsAre(Box{.x = 0, .y = 0, .width = 8, .height = 8},
                                                  Box{.x = 0, .y = 12, .width = 8, .height = 8}));
}

}  // namespace
}  // namespace trireme::loaders::probe_clips_test
