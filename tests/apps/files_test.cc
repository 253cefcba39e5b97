// Training on a user's own files, as a user does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include <sstream>

#include "tests/apps/run_files.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/video.h"

namespace trireme::app::files_test {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kTiny = {
    "data.path=pictures", "vision.image=16",  "vision.patch=8",      "vision.layers=1",
    "vision.hidden=16",   "vision.heads=2",   "run.global_batch=8",  "run.micro_batch=4",
    "run.steps=6",        "run.eval_every=3", "data.validation=0.2", "parallel.zero=0"};

// A folder a class, and a picture that ends too early.
void write_pictures(const Desk& desk) {
  for (int i = 0; i < 24; ++i) {
    media::Image image(20 + i, 30);
    for (std::size_t at = 0; at < image.rgb.size(); ++at)
      image.rgb[at] = static_cast<std::uint8_t>(i % 2 == 0 ? at % 200 : 255 - at % 90);
    std::string jpeg = media::encode_jpeg(image, 90);
    if (i == 5) jpeg.resize(jpeg.size() / 2);
    desk.write(fmt::format("pictures/{}/{:02}.jpg", i % 2 == 0 ? "even" : "odd", i), jpeg);
  }
}

Result train(const Desk& desk, const std::string& ranks, const std::string& out) {
  desk.write("job.yaml", "model: {family: vit}\ndata: {source: images}\n");
  std::vector<std::string> arguments = {"train", "job.yaml", "--ranks", ranks, "--out", out};
  for (const std::string& set : kTiny) arguments.insert(arguments.end(), {"--set", set});
  return desk.run(arguments);
}

TEST(Files, PicturesOfAFolderTrainAlikeOnOneRankAndTwo) {
  const Desk desk;
  write_pictures(desk);
  const Result two = train(desk, "2", "two");
  ASSERT_EQ(two.exit_code, 0) << two.err << two.out;
  EXPECT_THAT(two.out, HasSubstr("held out, 2 classes"));
  const Result one = train(desk, "1", "one");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const auto a = lines_of(desk / "one/metrics.jsonl"), b = lines_of(desk / "two/metrics.jsonl");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].contains("grad_norm")) continue;
    EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), 1e-4);
  }
  // Told once, whichever rank came across it.
  int told = 0;
  for (const Json& event : lines_of(desk / "two/events.jsonl"))
    if (event["class"] == "bad sample") {
      ++told;
      EXPECT_THAT(event["cause"].get<std::string>(), HasSubstr("odd/05.jpg"));
    }
  EXPECT_EQ(told, 1);
  EXPECT_THAT(two.out + two.err, HasSubstr("odd/05.jpg"));
}

// Two ranks come across different files; each is told once, and nobody waits for a rank that does not come.
TEST(Files, WhatIsBadOfClipsIsLeftOutOnTwoRanks) {
  const Desk desk;
  std::string list;
  for (int i = 0; i < 8; ++i) {
    const std::vector<media::Image> frames(5, media::Image(20 + i, i == 2 ? 6000 : 16));
    std::string clip = media::encode_webp(frames, 8, true);
    if (i == 3) clip.resize(clip.size() / 2);
    if (i == 5) clip.clear();
    desk.write(fmt::format("clips/{}.webp", i), clip);
    list += fmt::format("clips/{}.webp 0\n", i);
  }
  desk.write("list.csv", list + "clips/nowhere.webp 0\n");
  desk.write(
      "job.yaml",
      "model: {family: jepa}\n"
      "vision: {image: 16, patch: 4, frames: 4, tubelet: 2, layers: 1, hidden: 24, heads: 1, "
      "positions: rotary}\n"
      "jepa: {layers: 1, hidden: 24, heads: 1}\n"
      "data: {source: clips, path: list.csv, validation: 0}\n"
      "run: {steps: 6, global_batch: 4, micro_batch: 2, eval_every: -1}\n");
  const Result run = desk.run({"train", "job.yaml", "--ranks", "2", "--out", "run"});
  ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
  std::multiset<std::string> told;
  for (const Json& event : lines_of(desk / "run/events.jsonl"))
    if (event["class"] == "bad sample") {
      const std::string cause = event["cause"];
      told.insert(cause.substr(cause.find("clips/"), cause.find(".webp") - cause.find("clips/")));
    }
  EXPECT_EQ(told, (std::multiset<std::string>{"clips/2", "clips/3", "clips/5", "clips/nowhere"}));

  const Result blind = desk.run({"train", "job.yaml", "--ranks", "2", "--out", "blind", "--set",
                                 "jepa.masks=1000x0.5,2x0.7"});
  EXPECT_EQ(blind.exit_code, 2) << blind.out;
  EXPECT_THAT(blind.err, HasSubstr("left nothing to see"));
}

// Lines of a text that are two numbers.
int rows_of_two(const std::string& text) {
  int rows = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int count = 0, number = 0;
    while (words >> number) ++count;
    rows += count == 2 && words.eof();
  }
  return rows;
}

TEST(Files, APictureIsAskedAboutAndItsRegionsAreShown) {
  const Desk desk;
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("asked/{:02}", i);
    desk.write(name + ".png", media::encode_png(media::Image(20 + i, 16)));
    desk.write(name + ".txt", "black");
    desk.write(name + ".json", R"({"questions": [{"question": "colour?", "answer": "no"}]})");
  }
  desk.write("job.yaml",
             "model: {family: arrcoc, layers: 1, hidden: 32, heads: 2, ffn: 48, seq_len: 24}\n"
             "vision: {image: 32, patch: 4, layers: 1, hidden: 16, heads: 2}\n"
             "arrcoc: {grid: 2, sides: [1, 3], budget: 12, hidden: 8}\n"
             "data: {source: pairs, path: asked}\n"
             "run: {steps: 2, global_batch: 4, micro_batch: 2}\n");
  const Result trained = desk.run({"train", "job.yaml", "--ranks", "2", "--out", "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err << trained.out;
  const std::vector<std::string> ask = {"generate", "--checkpoint", "run",
                                        "--prompt", "colour?",      "--tokens",
                                        "3",        "--image",      "asked/03.png"};
  const Result answer = desk.run(ask);
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_EQ(rows_of_two(answer.out), 2) << answer.out;
  EXPECT_THAT(answer.out, HasSubstr("of 12 tokens"));
  EXPECT_THAT(answer.out, HasSubstr("colour?"));
  std::vector<std::string> longer = ask;
  longer[6] = "50";
  const Result full = desk.run(longer);
  EXPECT_EQ(full.exit_code, 0) << full.err;
  EXPECT_THAT(full.err, HasSubstr("the answer ends after 6 tokens"));
  longer[4] = "which colour?";
  const Result crowded = desk.run(longer);
  EXPECT_EQ(crowded.exit_code, 2);
  EXPECT_THAT(crowded.err, HasSubstr("shorten the prompt"));
  const Result blind = desk.run({ask.begin(), ask.end() - 2});
  EXPECT_EQ(blind.exit_code, 2);
  EXPECT_THAT(blind.err, HasSubstr("--image"));
}

TEST(Files, APathThatIsMissingIsSaid) {
  const Desk desk;
  desk.write("job.yaml", "model: {family: vit}\ndata: {source: images}\n");
  const Result none = desk.run({"train", "job.yaml", "--out", "x"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("set data.path"));
  const Result wrong = desk.run({"train", "job.yaml", "--set", "data.path=nowhere", "--out", "y"});
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.err, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace trireme::app::files_test

#endif  // TRIREME_HAS_WORKER
