// Several data sets with weights, and pictures as clips.
#include "trireme/config/data_sets.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/config/error_of.h"
#include "tests/data/loaders/user_files.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/weighted_order.h"
#include "trireme/data/media/video.h"

namespace trireme::loaders::data_sets_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_within_three_sigma(double count, double share, double draws) {
  EXPECT_NEAR(count, share * draws, 3 * std::sqrt(draws * share * (1 - share))) << share;
}

TEST(WeightedOrder, DrawsEveryDataSetByItsShareAndItsSamplesEvenly) {
  // The mix of V-JEPA 2's released configurations.
  const std::vector<double> shares = {0.335, 0.1, 0.565};
  const std::vector<std::int64_t> sizes = {10, 1000, 3};
  const WeightedOrder order(sizes, shares, 7);
  constexpr int kDraws = 30000;
  std::vector<double> counts(3);
  std::map<std::int64_t, double> of_the_third;
  for (std::int64_t place = 0; place < kDraws; ++place) {
    const SampleOrder::Place drawn = order.at(place);
    const std::size_t set = drawn.sample < 10 ? 0 : drawn.sample < 1010 ? 1 : 2;
    ++counts[set];
    if (set == 2) ++of_the_third[drawn.sample];
    EXPECT_EQ(drawn.epoch, place);
    EXPECT_EQ(order.at(place).sample, drawn.sample);
  }
  for (std::size_t set = 0; set < 3; ++set)
    expect_within_three_sigma(counts[set], shares[set], kDraws);
  ASSERT_EQ(of_the_third.size(), 3u);
  for (const auto& [sample, count] : of_the_third)
    expect_within_three_sigma(count, 1.0 / 3, counts[2]);
  EXPECT_EQ(WeightedOrder({10}, {1}, 7).at(5).sample / 10, 0);
}

TEST(DataSets, AreListsOfOneLength) {
  config::Data data;
  data.path = "a,b";
  EXPECT_EQ(config::data_sets(data).at(0).path, "a,b");  // without weights one path
  data.weights = "3,1";
  const std::vector<config::DataSet> sets = config::data_sets(data);
  EXPECT_EQ(sets.at(1).path, "b");
  EXPECT_EQ(sets.at(0).share, 0.75);
  const auto refusal = [&](const std::string& weights) {
    data.weights = weights;
    return config::usage_error_of([&] { config::data_sets(data); });
  };
  EXPECT_THAT(refusal("3"), HasSubstr("data.weights=3 has 1 weights, data.path=a,b has 2 paths"));
  EXPECT_THAT(refusal("3,0"), HasSubstr("\"0\" is not a number above 0"));
  EXPECT_THAT(refusal("3,x"), HasSubstr("\"x\" is not a number above 0"));
}

// Pictures of one grey: `count` of them, from `first` on.
void write_greys(const harness::ScratchDirectory& scratch, const std::string& folder, int first,
                 int count) {
  for (int i = 0; i < count; ++i)
    scratch.write(fmt::format("{}/{}/{:02}.png", folder, i % 2 == 0 ? "cat" : "dog", i),
                  plain_png(first + i));
}

int grey_of(const at::Tensor& clip) {
  return static_cast<int>(std::lround((clip[0][0][3][3].item<double>() * 0.229 + 0.485) * 255));
}

config::Job mixed_job(const harness::ScratchDirectory& scratch, const Sets& more) {
  Sets sets = {"data.weights=9,1"};
  sets.insert(sets.end(), more.begin(), more.end());
  return job_of((scratch / "a").string() + "," + (scratch / "b").string(), sets);
}

TEST(DataSets, AreMixedByWeightAndHeldOutWhole) {
  const harness::ScratchDirectory scratch;
  write_greys(scratch, "a", 0, 8);
  write_greys(scratch, "b", 100, 80);
  const Sources sources = open_sources(
      mixed_job(scratch, {"model.family=vit", "data.source=images", "data.validation=0.25"}), {});
  constexpr int kDraws = 2000;
  double few = 0;
  std::set<int> trained;
  for (std::int64_t place = 0; place < kDraws; place += 50)
    for (const at::Tensor& picture : sources.train->batch(place, 50)[0].unbind()) {
      trained.insert(grey_of(picture));
      few += grey_of(picture) < 50;
    }
  expect_within_three_sigma(few, 0.9, kDraws);
  // Whatever batches they are drawn in.
  EXPECT_TRUE(at::equal(sources.train->batch(3, 5)[0][2], sources.train->batch(5, 1)[0][0]));
  const auto held_out = static_cast<std::int64_t>(sources.held_out->weight(0, 1000));
  EXPECT_EQ(sources.train->samples() + held_out, 88);
  bool of_both[2] = {};
  for (const at::Tensor& picture : sources.held_out->batch(0, held_out)[0].unbind()) {
    EXPECT_FALSE(trained.contains(grey_of(picture)));
    of_both[grey_of(picture) >= 50] = true;
  }
  EXPECT_TRUE(of_both[0] && of_both[1]);
}

TEST(DataSets, ABadSampleIsReplacedWithinItsDataSet) {
  const harness::ScratchDirectory scratch;
  write_greys(scratch, "a", 0, 2);
  write_greys(scratch, "b", 100, 4);
  std::filesystem::resize_file(scratch / "a/cat/00.png", 20);
  const Sources sources = open_sources(
      mixed_job(scratch, {"model.family=vit", "data.source=images", "data.validation=0"}), {});
  double few = 0;
  for (const at::Tensor& picture : sources.train->batch(0, 400)[0].unbind()) {
    EXPECT_NE(grey_of(picture), 0);
    few += grey_of(picture) == 1;
  }
  expect_within_three_sigma(few, 0.9, 400);
  EXPECT_THAT(sources.train->bad(), ElementsAre(HasSubstr("a/cat/00.png")));
}

TEST(DataSets, OfOtherClassesAreRefusedWhereClassesAreLearned) {
  const harness::ScratchDirectory scratch;
  write_greys(scratch, "a", 0, 4);
  scratch.write("b/horse/0.png", plain_png(9));
  scratch.write("b/horse/1.png", plain_png(9));
  const auto open = [&](const Sets& sets) { open_sources(mixed_job(scratch, sets), {}); };
  try {
    open({"model.family=vit", "data.source=images", "data.validation=0"});
    ADD_FAILURE() << "classes have no numbers";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("have different classes"));
  }
  EXPECT_NO_THROW(open({"model.family=jepa", "data.source=clips", "jepa.hidden=24", "jepa.heads=1",
                        "vision.patch=4", "vision.frames=2", "vision.hidden=24", "vision.heads=1",
                        "vision.positions=rotary", "data.validation=0"}));
}

// Folders and lists of pictures: clips whose frames are all the same.
TEST(Clips, MayBePictures) {
  const harness::ScratchDirectory scratch;
  write_greys(scratch, "p", 10, 4);
  scratch.write("still.jpg", media::encode_jpeg(media::Image(40, 30), 90));
  scratch.write("moving.webp", media::encode_webp(std::vector(3, media::Image(40, 30)), 4, true));
  scratch.write("list.csv", "still.jpg 1\nmoving.webp 0\n");
  for (const char* path : {"p", "list.csv"}) {
    const Sources sources = open_sources(
        job_of(scratch / path, {"model.family=probe", "probe.heads=1", "data.source=clips",
                                "vision.frames=4", "vision.hidden=24", "vision.heads=1",
                                "vision.positions=rotary", "data.validation=0"}),
        {});
    EXPECT_EQ(sources.train->samples(), path[0] == 'p' ? 4 : 2);
    const std::vector<at::Tensor> batch = sources.train->batch(0, 2);
    ASSERT_EQ(batch[0].sizes(), (at::IntArrayRef{2, 3, 4, 16, 16}));
    for (std::int64_t frame = 1; frame < 4; ++frame)
      EXPECT_TRUE(at::equal(batch[0].select(2, 0), batch[0].select(2, frame)));
    EXPECT_TRUE(sources.train->bad().empty());
  }
}

}  // namespace
}  // namespace trireme::loaders::data_sets_test
