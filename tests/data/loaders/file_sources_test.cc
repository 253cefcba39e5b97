// A user's pictures, captions, clips, trajectories and questions as batches.
#include "trireme/data/loaders/samples/file_sources.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "tests/data/loaders/user_files.h"
#include "tests/harness/needs.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/read_ahead.h"
#include "trireme/data/media/hdf5.h"
#include "trireme/data/synthetic/make.h"
#include "trireme/families/arrcoc/samples_questions.h"

namespace trireme::loaders::file_sources_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Sets kVit = {"model.family=vit", "data.source=images"};

// Two classes of ten pictures, each of a grey of its own.
void write_classes(const harness::ScratchDirectory& scratch) {
  for (int i = 0; i < 20; ++i)
    scratch.write(fmt::format("{}/{:02}.png", i < 10 ? "cat" : "dog", i), plain_png(10 * i));
}

// The grey that a picture was.
int grey_of(const at::Tensor& picture) {
  return static_cast<int>(std::lround((picture[0][0][3][3].item<double>() * 0.229 + 0.485) * 255));
}

std::multiset<int> greys(const Source& source, std::int64_t first, std::int64_t count) {
  std::multiset<int> all;
  for (const at::Tensor& picture : source.batch(first, count)[0].unbind())
    all.insert(grey_of(picture));
  return all;
}

void expect_rows(const Source& source, std::int64_t first, std::int64_t count) {
  const std::vector<at::Tensor> all = source.batch(first, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<at::Tensor> one = source.batch(first + i, 1);
    for (std::size_t input = 0; input < all.size(); ++input)
      EXPECT_TRUE(at::equal(all[input][i], one[input][0])) << i;
  }
}

TEST(Images, ComeOnceAnEpochWithTheirClass) {
  const harness::ScratchDirectory scratch;
  write_classes(scratch);
  const Sources sources = open_sources(job_of(scratch.path(), kVit), {});
  const std::int64_t count = sources.train->samples();
  ASSERT_LT(count, 20);
  const auto first = greys(*sources.train, 0, count), second = greys(*sources.train, count, count);
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), static_cast<std::size_t>(count));
  const std::vector<at::Tensor> batch = sources.train->batch(0, count);
  ASSERT_EQ(batch[0].sizes(), (at::IntArrayRef{count, 3, 1, 16, 16}));
  for (std::int64_t i = 0; i < count; ++i)
    EXPECT_EQ(batch[1][i].item<std::int64_t>(), grey_of(batch[0][i]) >= 100);
  EXPECT_TRUE(sources.train->bad().empty());
}

// Whatever batches they are drawn in, as layouts draw other ones.
TEST(Images, DoNotDependOnTheirBatch) {
  const harness::ScratchDirectory scratch;
  for (int i = 0; i < 8; ++i) {
    media::Image image(20 + i, 30);
    for (std::size_t at = 0; at < image.rgb.size(); ++at)
      image.rgb[at] = static_cast<std::uint8_t>(at * static_cast<std::size_t>(i + 3) % 251);
    scratch.write(fmt::format("c{}/{}.jpg", i % 2, i), media::encode_jpeg(image, 90));
  }
  const Sources sources = open_sources(job_of(scratch.path(), kVit), {});
  expect_rows(*sources.train, 3, 6);
  EXPECT_FALSE(at::equal(sources.train->batch(0, 8)[0], sources.train->batch(8, 8)[0]));
}

TEST(Images, ThatAreHeldOutFillUpTheirBatchWithoutLoss) {
  const harness::ScratchDirectory scratch;
  write_classes(scratch);
  const Sources sources = open_sources(job_of(scratch.path(), kVit), {});
  const std::int64_t held_out = 20 - sources.train->samples();
  EXPECT_EQ(sources.held_out->samples() % 4, 0);
  EXPECT_EQ(sources.held_out->weight(0, sources.held_out->samples()), held_out);
  const auto batch = sources.held_out->batch(0, sources.held_out->samples());
  EXPECT_EQ((batch[1] != -100).sum().item<std::int64_t>(), held_out);
  const auto trained = greys(*sources.train, 0, sources.train->samples());
  for (const int grey : greys(*sources.held_out, 0, held_out)) EXPECT_FALSE(trained.contains(grey));
}

TEST(Images, ThatAreBadAreLeftOutAndNamed) {
  const harness::ScratchDirectory scratch;
  write_classes(scratch);
  const std::string whole = media::encode_jpeg(media::Image(40, 40), 90);
  scratch.write("cat/broken.jpg", whole.substr(0, whole.size() / 2));
  const Sources sources =
      open_sources(job_of(scratch.path(), {kVit[0], kVit[1], "data.validation=0"}), {});
  ASSERT_EQ(sources.train->samples(), 21);
  expect_rows(*sources.train, 0, 21);
  EXPECT_THAT(sources.train->bad(), ElementsAre(HasSubstr("cat/broken.jpg")));
  for (int i = 0; i < 20; ++i) {
    const Path name = scratch / fmt::format("{}/{:02}.png", i < 10 ? "cat" : "dog", i);
    std::filesystem::resize_file(name, 30);
  }
  const Sources none = open_sources(job_of(scratch.path(), kVit), {});
  try {
    none.train->batch(0, 1);
    ADD_FAILURE() << "nothing is good";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), HasSubstr("can be used"));
  }
}

TEST(Images, OfMoreClassesThanTheModelAreRefused) {
  const harness::ScratchDirectory scratch;
  write_classes(scratch);
  config::Job job = job_of(scratch.path(), kVit);
  job.vision.classes = 1;
  const Sources sources = open_sources(job, {});
  EXPECT_THROW(sources.train->batch(0, 16), Error);
}

TEST(Captions, AreBytesCutToTheModelsLength) {
  const harness::ScratchDirectory scratch;
  for (int i = 0; i < 4; ++i) {
    scratch.write(fmt::format("{}.png", i), plain_png(60 * i));
    scratch.write(fmt::format("{}.txt", i), std::string(static_cast<std::size_t>(3 * i + 1), 'a'));
  }
  const Sources sources = open_sources(
      job_of(scratch.path(),
             {"model.family=clip", "data.source=pairs", "model.seq_len=8", "data.validation=0"}),
      {});
  const std::vector<at::Tensor> batch = sources.train->batch(0, 4);
  ASSERT_EQ(batch[1].sizes(), (at::IntArrayRef{4, 8}));
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::int64_t length = std::min(3 * (grey_of(batch[0][i]) / 60) + 1, 7);
    EXPECT_EQ(batch[2][i].item<std::int64_t>(), length);
    EXPECT_EQ((batch[1][i] == 'a').sum().item<std::int64_t>(), length);
    EXPECT_EQ(batch[1][i][7].item<std::int64_t>(), 0);
  }
}

// 3 of 8 pairs in batches of 4: the fourth place of the batch is nobody.
TEST(Captions, ThatAreHeldOutFillUpTheirBatchWithoutAPlace) {
  const harness::ScratchDirectory scratch;
  for (int i = 0; i < 8; ++i) {
    scratch.write(fmt::format("{}.png", i), plain_png(30 * i));
    scratch.write(fmt::format("{}.txt", i), "abc");
  }
  const Sources sources = open_sources(
      job_of(scratch.path(),
             {"model.family=clip", "data.source=pairs", "model.seq_len=8", "data.validation=3"}),
      {});
  EXPECT_EQ(sources.train->samples(), 5);
  ASSERT_EQ(sources.held_out->samples(), 4);
  EXPECT_EQ(sources.held_out->weight(0, 4), 3);
  const at::Tensor places = sources.held_out->batch(0, 4)[2];
  EXPECT_TRUE(places.equal(torch::tensor(std::vector<std::int64_t>{3, 3, 3, -1}, at::kLong)));
}

Path write_clips(const harness::ScratchDirectory& scratch) {
  synthetic::make_video({.common = {.out = scratch / "clips", .count = 8, .validation = 4},
                         .width = 24,
                         .height = 20,
                         .frames = 10,
                         .format = "webp"});
  return scratch / "clips";
}

TEST(Clips, BringMasksToFamilyJepaAndClassesToAProbe) {
  const harness::ScratchDirectory scratch;
  const Path path = write_clips(scratch);
  const Sets clips = {"data.source=clips", "vision.frames=4", "vision.tubelet=2",
                      "vision.hidden=24",  "vision.heads=1",  "vision.positions=rotary"};
  Sets jepa = clips, probe = clips;
  jepa.insert(jepa.end(), {"model.family=jepa", "jepa.hidden=24", "jepa.heads=1",
                           "jepa.masks=2x0.25,2x0.7", "vision.patch=4"});
  probe.insert(probe.end(), {"model.family=probe", "probe.heads=1", "vision.classes=13"});
  const Sources masked = open_sources(job_of(path, jepa), {});
  EXPECT_EQ(masked.train->samples(), 8);
  EXPECT_EQ(masked.held_out->samples(), 4);
  Sets threes = jepa;
  threes.insert(threes.end(), {"run.global_batch=3", "run.micro_batch=3"});
  const Sources filled = open_sources(job_of(path, threes), {});
  ASSERT_EQ(filled.held_out->samples(), 6);
  EXPECT_EQ(filled.held_out->weight(0, 6), 4);
  const at::Tensor targets = filled.held_out->batch(3, 3)[4].diff();
  EXPECT_GT(targets.narrow(0, 0, 2).min().item<int>(), 0);
  EXPECT_EQ(targets.narrow(0, 2, 4).max().item<int>(), 0) << "copies have no targets";
  const std::vector<at::Tensor> batch = masked.train->batch(0, 3);
  ASSERT_EQ(batch.size(), 5U);
  ASSERT_EQ(batch[0].sizes(), (at::IntArrayRef{3, 3, 4, 16, 16}));
  const Sources labelled = open_sources(job_of(path, probe), {});
  expect_rows(*labelled.train, 2, 7);
  const at::Tensor labels = labelled.train->batch(0, 8)[1];
  EXPECT_GE(labels.min().item<std::int64_t>(), 0);
  EXPECT_LT(labels.max().item<std::int64_t>(), 13);
  const auto* const first = labels.data_ptr<std::int64_t>();
  EXPECT_GT(std::set<std::int64_t>(first, first + 8).size(), 3U);
}

// A clip that stands still is seen alike in all frames.
TEST(Clips, AreSeenThroughOneWindow) {
  const harness::ScratchDirectory scratch;
  media::Image image(30, 20);
  for (std::size_t at = 0; at < image.rgb.size(); ++at)
    image.rgb[at] = static_cast<std::uint8_t>(at * 7 % 251);
  const std::vector<media::Image> still(6, image);
  for (const char* name : {"a/0.webp", "b/1.webp"})
    scratch.write(name, media::encode_webp(still, 8, true));
  scratch.write("list.csv", "a/0.webp 0\nb/1.webp 1\n");
  const Sources sources = open_sources(
      job_of(scratch / "list.csv", {"model.family=probe", "probe.heads=1", "data.source=clips",
                                    "vision.frames=4", "vision.hidden=24", "vision.heads=1",
                                    "vision.positions=rotary", "data.validation=0"}),
      {});
  const at::Tensor clip = sources.train->batch(0, 1)[0][0];
  for (std::int64_t frame = 1; frame < 4; ++frame)
    EXPECT_TRUE(at::equal(clip.select(1, 0), clip.select(1, frame)));
}

// Black on the left and white on the right, whatever is cut out and wherever: never mirrored.
TEST(Clips, OfAProbeAreNeverMirrored) {
  const harness::ScratchDirectory scratch;
  media::Image image(64, 48);
  for (int y = 0; y < 48; ++y)
    for (int x = 0; x < 64; ++x)
      std::fill_n(image.pixel(x, y), 3, static_cast<std::uint8_t>(4 * x));
  scratch.write("a/0.webp", media::encode_webp(std::vector(4, image), 4, true));
  scratch.write("list.csv", "a/0.webp 0\n");
  const auto mirrored = [&](const Sets& family) {
    Sets sets = {"data.source=clips", "vision.frames=2",         "vision.hidden=24",
                 "vision.heads=1",    "vision.positions=rotary", "data.validation=0"};
    sets.insert(sets.end(), family.begin(), family.end());
    const Sources sources = open_sources(job_of(scratch / "list.csv", sets), {});
    int count = 0;
    for (std::int64_t place = 0; place < 1000; ++place) {
      const at::Tensor row = sources.train->batch(place, 1)[0][0][0][0][8];
      count += (row[15] < row[0]).item<bool>();
    }
    return count;
  };
  EXPECT_EQ(mirrored({"model.family=probe", "probe.heads=1"}), 0);
  EXPECT_NEAR(mirrored({"model.family=jepa", "jepa.hidden=24", "jepa.heads=1", "vision.patch=4"}),
              500, 60);
}

TEST(Trajectories, BringStatesAndWhatLedFromOneToTheNext) {
  TRIREME_NEEDS("HDF5", media::why_no_hdf5());
  const harness::ScratchDirectory scratch;
  synthetic::make_arm({.common = {.out = scratch / "arm", .count = 4, .validation = 2},
                       .width = 32,
                       .height = 24,
                       .frames = 20,
                       .fps = 8,
                       .format = "webp"});
  const Sources sources = open_sources(
      job_of(scratch / "arm", {"model.family=jepa_ac", "data.source=trajectories",
                               "vision.frames=4", "vision.hidden=24", "vision.heads=1",
                               "vision.positions=rotary", "action.hidden=24", "action.heads=1"}),
      {});
  EXPECT_EQ(sources.train->samples(), 4);
  expect_rows(*sources.train, 1, 5);
  const std::vector<at::Tensor> batch = sources.train->batch(0, 4);
  ASSERT_EQ(batch[1].sizes(), (at::IntArrayRef{4, 3, 7}));
  ASSERT_EQ(batch[2].sizes(), (at::IntArrayRef{4, 3, 7}));
  const at::Tensor moved = batch[2].slice(1, 1, 3) - batch[2].slice(1, 0, 2);
  for (const std::int64_t number : {0, 1, 2, 6})  // places and grip: plain differences
    EXPECT_LT((moved.select(2, number) - batch[1].slice(1, 0, 2).select(2, number))
                  .abs()
                  .max()
                  .item<double>(),
              1e-6);
  EXPECT_GT(batch[1].abs().max().item<double>(), 1e-3);
  // Two samples fill up the held-out batch, without weight.
  EXPECT_EQ(sources.train->batch(0, 4)[3].sum().item<double>(), 4);
  EXPECT_EQ(sources.held_out->weight(0, 4), 2);
  EXPECT_TRUE(at::equal(sources.held_out->batch(0, 4)[3], at::tensor({1.0f, 1.0f, 0.0f, 0.0f})));
}

TEST(RegionQuestions, ArePicturesAsTheyAreWithBytesOfQuestionAndAnswer) {
  const harness::ScratchDirectory scratch;
  for (int i = 0; i < 4; ++i) {
    scratch.write(fmt::format("{}.png", i), media::encode_png(media::Image(i < 2 ? 12 : 64, 10)));
    scratch.write(fmt::format("{}.txt", i), "black");
    scratch.write(fmt::format("{}.json", i),
                  R"({"questions": [{"question": "code?", "answer": "ab"}]})");
  }
  const config::Job job =
      job_of(scratch.path(), {"model.family=arrcoc", "data.source=pairs", "arrcoc.grid=2",
                              "arrcoc.sides=[1, 2]", "model.seq_len=20", "data.validation=0"});
  const Sources sources = open_sources(job, {});
  const std::vector<at::Tensor> all = sources.train->batch(0, 4);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].sizes(), (at::IntArrayRef{4, 3, 16, 16}));
  EXPECT_EQ(all[1].sizes(), (at::IntArrayRef{4, 20 - 9}));
  EXPECT_EQ(sources.train->weight(0, 4), 12);  // "ab" and its end
  for (std::int64_t i = 0; i < 4; ++i) {
    // 64 x 10 is shrunk to 16 x 3; 12 x 10 stays.
    const bool small = all[5][i][1].item<std::int64_t>() == 12;
    EXPECT_EQ(all[5][i][0].item<std::int64_t>(), small ? 10 : 3);
    EXPECT_EQ(all[0][i].abs().max().item<double>(), 0);
    EXPECT_EQ(all[2][i].item<std::int64_t>(), 5);
    EXPECT_TRUE(at::equal(all[1][i].narrow(0, 0, 8),
                          at::tensor({99, 111, 100, 101, 63, 97, 98, 0}, at::kLong)));
    EXPECT_TRUE(
        at::equal(all[3][i].narrow(0, 3, 5), at::tensor({-100, 97, 98, 257, -100}, at::kLong)));
  }
  EXPECT_FALSE(at::equal(all[4][0], all[4][1]));
  expect_rows(*sources.train, 0, 4);
  config::Job narrow = job;
  narrow.model.seq_len = 9 + 6;
  const Sources none = open_sources(narrow, {});
  EXPECT_THROW(none.train->batch(0, 1), Error);
  EXPECT_THAT(none.train->bad().at(0), HasSubstr("more than the 6 tokens"));
}

TEST(RegionQuestions, APromptIsOneWithoutItsAnswer) {
  const config::Job job = [] {
    config::Job made;
    for (const char* set :
         {"model.family=arrcoc", "data.source=pairs", "data.path=x", "arrcoc.grid=2",
          "arrcoc.sides=[1, 2]", "vision.image=16", "vision.patch=8", "model.seq_len=15"})
      config::apply_set(made, set);
    return config::resolve(made, 1, {});
  }();
  media::Image image(8, 6);
  std::ranges::fill(image.rgb, std::uint8_t{255});
  const std::vector<at::Tensor> inputs = region_prompt(job, image, "ab", {99});
  EXPECT_TRUE(at::equal(inputs[1][0], at::tensor({97, 98, 99, 0, 0, 0}, at::kLong)));
  EXPECT_EQ(inputs[2].item<std::int64_t>(), 2);
  // The last token's place has a target; white is 1.
  EXPECT_EQ((inputs[3][0] != -100).nonzero().max().item<std::int64_t>(), 2);
  EXPECT_EQ(inputs[0][0].narrow(1, 0, 6).narrow(2, 0, 8).min().item<double>(), 1);
  EXPECT_EQ(inputs[0].sum().item<double>(), 3 * 6 * 8);
  EXPECT_THROW(region_prompt(job, image, "a longer prompt", {}), Error);
}

// Counts how often it is asked.
class Counting final : public Source {
 public:
  explicit Counting(std::atomic<int>& asked) : asked_(asked) {}
  std::int64_t samples() const override { return 100; }
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    ++asked_;
    return {at::full({count}, first, at::kLong)};
  }
  double weight(std::int64_t, std::int64_t count) const override {
    return static_cast<double>(count);
  }

 private:
  std::atomic<int>& asked_;
};

TEST(ReadAhead, ReadsTheNextStepsBatchBeforeItIsAskedFor) {
  std::atomic<int> asked = 0;
  config::Job job;
  job.run.global_batch = 4;
  job = config::resolve(job, 1, {.vocab = 256});
  const auto source = read_ahead(std::make_unique<Counting>(asked), job);
  EXPECT_EQ(source->batch(0, 2)[0][0].item<std::int64_t>(), 0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (asked < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(source->batch(4, 2)[0][0].item<std::int64_t>(), 4);
  EXPECT_EQ(source->batch(40, 2)[0][0].item<std::int64_t>(), 40);  // training went elsewhere
  EXPECT_EQ(source->batch(8, 2)[0][0].item<std::int64_t>(), 8);
}

}  // namespace
}  // namespace trireme::loaders::file_sources_test
