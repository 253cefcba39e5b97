// Mean and deviation of pixels, by name and as numbers.
#include "trireme/config/pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::pixels_test {
namespace {

using testing::HasSubstr;

Job seeing(const std::vector<std::string>& sets) {
  Job job;
  for (const char* set : {"model.family=vlm", "data.source=scenes"}) apply_set(job, set);
  for (const std::string& set : sets) apply_set(job, set);
  return resolve(job, 1, {});
}

TEST(PixelScale, IsPublishedUnderANameOrThreeNumbers) {
  const PixelScale clip = pixel_scale(seeing({"vision.pixels=clip"}));
  EXPECT_EQ(clip.mean, (std::array{0.48145466, 0.4578275, 0.40821073}));
  EXPECT_EQ(clip.std, (std::array{0.26862954, 0.26130258, 0.27577711}));
  const PixelScale own = pixel_scale(seeing({"vision.pixels=0,0.25,1/1,0.5,1e-3"}));
  EXPECT_EQ(own.mean, (std::array{0.0, 0.25, 1.0}));
  EXPECT_EQ(own.std, (std::array{1.0, 0.5, 1e-3}));
  EXPECT_EQ(pixel_scale(seeing({})).mean, (std::array{0.5, 0.5, 0.5}));
  for (const char* name : {"clip", "siglip", "imagenet"}) {
    const std::string text = name;
    const PixelScale scale = pixel_scale(seeing({"vision.pixels=" + text}));
    EXPECT_EQ(written(scale), text);
  }
  EXPECT_EQ(written(own), "0,0.25,1/1,0.5,0.001");
}

TEST(PixelScale, OfAnotherFormIsRefused) {
  for (const char* wrong :
       {"CLIP", "0.5", "0.5,0.5", "0.5,0.5,0.5", "0.5,0.5,0.5,0.5/1,1,1", "0.5,0.5,1.1/1,1,1",
        "a,b,c/1,1,1", "-0.1,0,0/1,1,1", "nan,0,0/1,1,1", "0.5,,0.5/1,1,1", "0,0,0/0,1,1",
        "0,0,0/1,1", "0,0,0/1,1,1/1,1,1", "clip/clip"})
    EXPECT_THAT(usage_error_of([&] { seeing({std::string("vision.pixels=") + wrong}); }),
                HasSubstr(std::string("vision.pixels=") + wrong +
                          ": needs clip, siglip, imagenet or three means from 0 to 1"));
}

}  // namespace
}  // namespace trireme::config::pixels_test
