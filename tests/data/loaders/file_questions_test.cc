// A user's questions about one picture or several, one to a row or packed, and what of them is bad.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>

#include "tests/data/loaders/user_files.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/media/tar.h"
#include "trireme/data/synthetic/make.h"

namespace trireme::loaders::file_questions_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Questions, AreMergedAsSyntheticOnesAre) {
  const harness::ScratchDirectory scratch;
  synthetic::make_vlm({.common = {.out = scratch / "scenes", .count = 8, .validation = 3},
                       .min_size = 20,
                       .max_size = 40});
  const config::Job job =
      job_of(scratch / "scenes", {"model.family=vlm", "data.source=pairs", "model.seq_len=200"});
  const Sources sources = open_sources(job, {});
  EXPECT_EQ(sources.train->samples(), 8);
  const std::vector<at::Tensor> all = sources.train->batch(0, 4);
  ASSERT_EQ(all[0].sizes(), (at::IntArrayRef{4, 200}));
  EXPECT_EQ(sources.train->weight(0, 4), (all[1] != -100).sum().item<double>());
  EXPECT_EQ(open_sources(job, {}).train->weight(0, 4), sources.train->weight(0, 4));
  std::int64_t tile = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::vector<at::Tensor> one = sources.train->batch(i, 1);
    EXPECT_TRUE(at::equal(all[0][i], one[0][0]));
    EXPECT_TRUE(at::equal(all[1][i], one[1][0]));
    const std::int64_t tiles = one[3].size(0), tokens = 4;
    EXPECT_EQ(all[2][i].max().item<std::int64_t>(),
              one[2][0].max().item<std::int64_t>() + tile * tokens);
    EXPECT_TRUE(at::equal(all[3].narrow(0, tile, tiles), one[3]));
    tile += tiles;
  }
  EXPECT_EQ(all[3].size(0), tile);
  // One held-out sample is there to fill the batch.
  EXPECT_EQ((sources.held_out->batch(3, 1)[1] != -100).sum().item<std::int64_t>(), 0);
  EXPECT_EQ(sources.held_out->weight(3, 1), 0);
}

// Pictures of a grey of their own, each with a question of its own length.
void write_questions(const harness::ScratchDirectory& scratch, int count) {
  for (int i = 0; i < count; ++i) {
    scratch.write(fmt::format("{:02}.png", i), plain_png(10 * i));
    scratch.write(fmt::format("{:02}.json", i),
                  fmt::format(R"({{"caption": "grey",
                      "questions": [{{"question": "{}?", "answer": "{:02}"}},
                                    {{"question": "{}?", "answer": "{:02}"}}]}})",
                              std::string(static_cast<std::size_t>(i), 'q'), i,
                              std::string(static_cast<std::size_t>(i + 3), 'q'), i));
  }
}

// Answers of two digits and an end, in the order of rows.
std::vector<int> answers(const at::Tensor& targets) {
  std::vector<int> all;
  const at::Tensor flat = targets.flatten();
  for (std::int64_t i = 2; i < flat.size(0); ++i)
    if (flat[i].item<std::int64_t>() == 257)
      all.push_back(static_cast<int>(10 * (flat[i - 2].item<std::int64_t>() - '0') +
                                     flat[i - 1].item<std::int64_t>() - '0'));
  return all;
}

const Sets kAsking = {"model.family=vlm", "data.source=pairs", "model.seq_len=120",
                      "data.validation=0"};

Sets asking(const Sets& more) {
  Sets all = kAsking;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Questions, ThatArePackedComeOnceAnEpochAndBadOnesAreLeftOut) {
  const harness::ScratchDirectory scratch;
  write_questions(scratch, 20);
  const std::string whole = media::encode_jpeg(media::Image(24, 20), 90);
  // Bad in its header, in its body, by its words and by its length.
  scratch.write("20.png", "no picture");
  std::filesystem::remove(scratch / "05.png");
  scratch.write("05.jpg", whole.substr(0, whole.size() / 2));
  scratch.write("06.json", R"({"caption": "grey", "questions": []})");
  scratch.write("07.json", fmt::format(R"({{"caption": "grey",
      "questions": [{{"question": "{}", "answer": "07"}}]}})",
                                       std::string(120, 'q')));
  scratch.write("20.txt", "words");
  const Sources sources = open_sources(job_of(scratch.path(), asking({"vlm.pack=true"})), {});
  const std::int64_t rows = sources.train->samples();
  EXPECT_LT(rows, 14);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::multiset<int> seen;
    double weight = 0;
    for (std::int64_t row = epoch * rows; row < (epoch + 1) * rows; ++row) {
      for (const int answer : answers(sources.train->batch(row, 1)[1])) seen.insert(answer);
      weight += sources.train->weight(row, 1);
    }
    EXPECT_EQ(seen.size(), 17U);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 17U);
    EXPECT_EQ(weight, 3 * 17);
    for (const int bad : {5, 6, 7}) EXPECT_FALSE(seen.contains(bad));
  }
  EXPECT_THAT(sources.train->bad(),
              ::testing::UnorderedElementsAre(HasSubstr("05.jpg"), HasSubstr("06.png"),
                                              HasSubstr("07.png"), HasSubstr("20.png")));
}

TEST(Questions, OfSeveralPicturesNameThemInTheirJson) {
  const harness::ScratchDirectory scratch;
  write_questions(scratch, 4);
  scratch.write(".more/b.png", plain_png(200));
  scratch.write("00.json", R"({"caption": "two", "images": ["00.png", ".more/b.png", "00.png"],
      "questions": [{"question": "a<image>b<image>c<image>d", "answer": "00"}]})");
  scratch.write("01.json", R"({"caption": "two", "images": ["01.png", ".more/none.png"],
      "questions": [{"question": "?", "answer": "01"}]})");
  scratch.write("02.json", R"({"caption": "two", "images": ["02.png", ".more/b.png"],
      "questions": [{"question": "<image>?", "answer": "02"}]})");
  scratch.write("03.json", R"({"caption": "two", "images": [],
      "questions": [{"question": "?", "answer": "03"}]})");
  const Sources sources = open_sources(job_of(scratch.path(), asking({"vlm.max_tiles=0"})), {});
  // The others stand in for nothing: the one that is good does for them.
  const std::vector<at::Tensor> batch = sources.train->batch(0, 4);
  EXPECT_THAT(answers(batch[1]), ElementsAre(0, 0, 0, 0));
  ASSERT_EQ(batch[3].size(0), 12);
  const auto grey = [&](std::int64_t tile) {
    return std::lround((batch[3][tile][0][0][0].item<double>() + 1) * 127.5);
  };
  EXPECT_EQ(grey(0), 0);
  EXPECT_EQ(grey(1), 200);
  EXPECT_EQ(grey(2), 0);
  // Four tokens a picture behind each letter.
  const at::Tensor visual = batch[2][0];
  for (std::int64_t i = 0; i < 15; ++i)
    EXPECT_EQ(visual[i].item<std::int64_t>(), i % 5 == 0 ? -1 : i - i / 5 - 1) << i;
  EXPECT_THAT(sources.train->bad(),
              ElementsAre(AllOf(HasSubstr("01.png: "), HasSubstr("none.png, which is not a file")),
                          HasSubstr("1 times, for 2 pictures"), HasSubstr("\"images\"")));
}

TEST(Questions, OfSeveralPicturesOfAShardNameItsMembers) {
  const harness::ScratchDirectory scratch;
  media::TarWriter tar(scratch / "a.tar");
  tar.add("k.png", plain_png(10));
  tar.add("k.left.png", plain_png(90));
  tar.add("k.txt", "two");
  tar.add("k.json", R"({"images": ["left.png", "png"],
      "questions": [{"question": "?", "answer": "00"}]})");
  tar.finish();
  const Sources sources =
      open_sources(job_of(scratch / "a.tar", asking({"vlm.max_tiles=0", "vlm.pack=true"})), {});
  const std::vector<at::Tensor> batch = sources.train->batch(0, 1);
  ASSERT_EQ(batch[3].size(0), 2);
  EXPECT_EQ(std::lround((batch[3][0][0][0][0].item<double>() + 1) * 127.5), 90);
}

TEST(Questions, ThatAreBadHaveAnotherStandIn) {
  const harness::ScratchDirectory scratch;
  write_questions(scratch, 8);
  const std::string whole = media::encode_jpeg(media::Image(24, 20), 90);
  std::filesystem::remove(scratch / "00.png");
  scratch.write("00.jpg", whole.substr(0, whole.size() / 2));  // corrupt
  scratch.write("01.json",
                R"({"questions": [{"question": "?", "answer": "01"}]})");  // needs no caption
  scratch.write("02.png", media::encode_png(media::Image(1000, 1)));       // 1:1000
  scratch.write("03.png", "");                                             // empty
  scratch.write("04.json", R"({"caption": "grey"})");                      // no question
  const Sources sources = open_sources(job_of(scratch.path(), kAsking), {});
  std::set<int> seen;
  for (const int answer : answers(sources.train->batch(0, 8)[1])) seen.insert(answer);
  EXPECT_THAT(seen, ElementsAre(1, 5, 6, 7));
  EXPECT_THAT(sources.train->bad(),
              ElementsAre(HasSubstr("00.jpg"), HasSubstr("02.png: 1000 x 1"), HasSubstr("03.png"),
                          HasSubstr("04.png: no \"questions\"")));
}

// Whatever a rank has read before, and by now knows to be bad.
TEST(Questions, ThatAreBalancedStandWhereEveryRankHasThem) {
  const harness::ScratchDirectory scratch;
  write_questions(scratch, 16);
  for (int i = 0; i < 16; i += 3)
    scratch.write(fmt::format("{:02}.png", i), media::encode_png(media::Image(64, 20)));
  const std::string whole = media::encode_jpeg(media::Image(64, 20), 90);
  std::filesystem::remove(scratch / "06.png");
  scratch.write("06.jpg", whole.substr(0, whole.size() / 2));
  scratch.write("07.png", "");
  const Sets sets = asking({"vlm.balance=true", "run.global_batch=8", "run.micro_batch=1"});
  const Sources one = open_sources(job_of(scratch.path(), sets), {});
  const Sources other = open_sources(job_of(scratch.path(), sets), {});
  for (std::int64_t place = 0; place < 16; ++place) one.train->batch(place, 1);
  for (std::int64_t place = 31; place >= 16; --place)
    EXPECT_TRUE(at::equal(one.train->batch(place, 1)[1], other.train->batch(place, 1)[1])) << place;
  // The micro-batches with most tiles come first.
  EXPECT_GE(one.train->batch(0, 1)[3].size(0), one.train->batch(7, 1)[3].size(0));
  config::Job drawn = job_of(scratch.path(), sets);
  drawn.vlm.balance = false;
  EXPECT_EQ(open_sources(drawn, {}).train->weight(8, 8), one.train->weight(8, 8));
}

}  // namespace
}  // namespace trireme::loaders::file_questions_test
