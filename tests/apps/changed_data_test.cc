// Data that are changed under a run, as somebody's script does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include <chrono>
#include <thread>

#include "trireme/data/media/image.h"

namespace trireme::app {
namespace {

using ::testing::HasSubstr;

constexpr char kTinyGpt[] =
    "model: {family: gpt, layers: 1, hidden: 16, heads: 2, seq_len: 16}\n"
    "run: {steps: 2, global_batch: 4, micro_batch: 4, eval_every: 0}\n"
    "checkpoint: {every: 1, async: false}\n";

void prepare_text(const Desk& desk) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "value[" + std::to_string(i * i % 97) + "];\n";
  desk.write("text.txt", text);
  desk.write("job.yaml", kTinyGpt);
  ASSERT_EQ(desk.run({"data", "prepare", "text.txt", "--out", "set"}).exit_code, 0);
}

Result train_on_set(const Desk& desk, const std::string& steps) {
  return desk.run({"train", "job.yaml", "--out", "run", "--set", "data.path=set", "--set",
                   "run.steps=" + steps});
}

TEST(ChangedData, TokensReplacedAtEqualSizeAreRefusedAtTheNextStart) {
  const Desk desk;
  prepare_text(desk);
  ASSERT_EQ(train_on_set(desk, "2").exit_code, 0);
  const std::string before = read_file(desk / "set/train.bin");
  std::string changed = before;
  changed[changed.size() / 2] ^= 1;
  desk.write("set/train.bin", changed);
  const Result refused = train_on_set(desk, "4");
  EXPECT_EQ(refused.exit_code, 3) << refused.out;
  expect_one_line(refused.err);
  EXPECT_THAT(refused.err, HasSubstr("train.bin: does not have the digest"));

  // Written again as it was: read once, then known.
  desk.write("set/train.bin", before);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const Result read = train_on_set(desk, "4");
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("reading every byte (once)"));
  const Result known = train_on_set(desk, "6");
  EXPECT_EQ(known.exit_code, 0) << known.err;
  EXPECT_THAT(known.out, ::testing::Not(HasSubstr("reading every byte")));
}

TEST(ChangedData, AFileCutShortUnderARunIsNamed) {
  const Desk desk;
  prepare_text(desk);
  const std::string trireme = std::string(TRIREME_BIN_DIR) + "/trireme";
  const std::string script =
      trireme +
      " train job.yaml --out run --set data.path=set --set run.steps=1000000 --set "
      "checkpoint.every=1000000 & "
      "until [ -s run/metrics.jsonl ]; do sleep 0.05; done; : > set/train.bin; wait $!";
  const Result result = desk.run({"-c", script}, "/bin/sh");
  EXPECT_EQ(result.exit_code, 3) << result.err;
  expect_one_line(result.err);
  EXPECT_THAT(result.err, HasSubstr("set/train.bin: was cut short"));
}

void write_images(const Desk& desk, int shade) {
  for (int i = 0; i < 16; ++i) {
    media::Image image(16, 16);
    for (std::size_t at = 0; at < image.rgb.size(); ++at)
      image.rgb[at] =
          static_cast<std::uint8_t>((i % 2 == 0 ? at : 3 * at + 7) % 64 + 4 * i + shade);
    std::string jpeg = media::encode_jpeg(image, 90);
    jpeg.resize(4096, '\0');  // of equal size
    desk.write(fmt::format("pictures/{}/{:02}.jpg", i % 2 == 0 ? "even" : "odd", i), jpeg);
  }
}

TEST(ChangedData, PicturesReplacedAtEqualSizeAreRefusedAndCopiesAreTaken) {
  const Desk desk;
  write_images(desk, 0);
  desk.write("job.yaml",
             "model: {family: vit}\n"
             "data: {source: images, path: pictures, validation: 0.2}\n"
             "vision: {image: 16, patch: 8, layers: 1, hidden: 16, heads: 2}\n"
             "run: {steps: 2, global_batch: 4, micro_batch: 4, eval_every: 0}\n"
             "checkpoint: {every: 2, async: false}\n");
  const auto train = [&](const std::string& steps, bool verify = false) {
    std::vector<std::string> words = {"train", "job.yaml", "--out",
                                      "run",   "--set",    "run.steps=" + steps};
    if (verify) words.push_back("--verify-data");
    return desk.run(words);
  };
  const Result first = train("2");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  write_images(desk, 100);
  const Result refused = train("4");
  EXPECT_EQ(refused.exit_code, 3) << refused.out;
  expect_one_line(refused.err);
  EXPECT_THAT(refused.err, HasSubstr("but other contents"));
  write_images(desk, 0);
  const Result taken = train("4");
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_THAT(taken.out, HasSubstr("a sample of their contents is as it was"));
  // All contents, once known, are compared.
  EXPECT_EQ(train("6", true).exit_code, 0);
  std::string picture = read_file(desk / "pictures/even/04.jpg");
  picture[4000] = 'x';  // behind its end, in a block that the sample has
  desk.write("pictures/even/04.jpg", picture);
  const Result all = train("8", true);
  EXPECT_EQ(all.exit_code, 3) << all.out;
  EXPECT_THAT(all.err, HasSubstr("was verified"));
}

// A disk that loses a bit changes no times: here the times of dataset.json are made later.
TEST(ChangedData, EveryByteIsReadWhereItIsAskedFor) {
  const Desk desk;
  prepare_text(desk);
  std::string changed = read_file(desk / "set/train.bin");
  changed[changed.size() / 2] ^= 1;
  desk.write("set/train.bin", changed);
  desk.write("set/dataset.json", read_file(desk / "set/dataset.json"));
  EXPECT_EQ(train_on_set(desk, "2").exit_code, 0);
  const Result refused = desk.run({"train", "job.yaml", "--out", "run", "--set", "data.path=set",
                                   "--verify-data", "--set", "run.steps=4"});
  EXPECT_EQ(refused.exit_code, 3) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("train.bin: does not have the digest"));
}

}  // namespace
}  // namespace trireme::app

#endif  // TRIREME_HAS_WORKER
