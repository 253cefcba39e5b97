// What cannot be used of a user's files is left out and named, whatever they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/harness/needs.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/media/hdf5.h"
#include "trireme/data/media/video.h"
#include "trireme/data/synthetic/make.h"

namespace trireme::loaders::bad_files_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using Sets = std::vector<std::string>;

Sources sources_of(const Path& path, const Sets& sets) {
  config::Job job;
  for (const char* set : {"run.global_batch=2", "run.micro_batch=2", "data.validation=0",
                          "vision.image=16", "vision.patch=8"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  job.data.path = path.string();
  return open_sources(config::resolve(job, 1, {.vocab = 256, .classes = 2}), {});
}

// Every place of two epochs has a sample, and these files, and no others, are left out.
void expect_left_out(const Path& path, const Sets& sets, const std::vector<std::string>& names) {
  const Sources sources = sources_of(path, sets);
  for (std::int64_t place = 0; place < 2 * sources.train->samples(); ++place)
    EXPECT_EQ(sources.train->batch(place, 1)[0].size(0), 1);
  const std::vector<std::string> bad = sources.train->bad();
  EXPECT_EQ(bad.size(), names.size()) << testing::PrintToString(bad);
  for (const std::string& name : names) EXPECT_THAT(bad, Contains(HasSubstr(name)));
}

std::string png(int width, int height) { return media::encode_png(media::Image(width, height)); }
std::string jpeg() { return media::encode_jpeg(media::Image(40, 40), 90); }

std::string half(const std::string& file) { return file.substr(0, file.size() / 2); }

TEST(BadFiles, OfPicturesWithClasses) {
  const harness::ScratchDirectory scratch;
  scratch.write("a/good.png", png(20, 20));
  scratch.write("b/good.jpg", jpeg());
  scratch.write("a/corrupt.jpg", half(jpeg()));
  scratch.write("a/cut.png", half(png(20, 20)));
  scratch.write("b/empty.jpg", "");
  scratch.write("b/words.png", "no picture at all");
  scratch.write("a/wide.png", png(1000, 1));
  scratch.write("b/high.png", png(1, 1000));
  expect_left_out(
      scratch.path(), {"model.family=vit", "data.source=images"},
      {"corrupt.jpg", "cut.png", "empty.jpg", "words.png", "wide.png: 1000 x 1", "high.png"});
}

TEST(BadFiles, OfPicturesWithCaptions) {
  const harness::ScratchDirectory scratch;
  for (const char* name : {"good", "silent", "blank", "wide", "corrupt", "asks"}) {
    scratch.write(fmt::format("{}.jpg", name), jpeg());
    if (name != std::string("silent")) scratch.write(fmt::format("{}.txt", name), "a square");
  }
  fs::remove(scratch / "asks.txt");
  scratch.write("asks.json", R"({"questions": [{"question": "?", "answer": "a square"}]})");
  scratch.write("blank.txt", " \n");
  fs::remove(scratch / "wide.jpg");
  scratch.write("wide.png", png(1000, 1));
  scratch.write("corrupt.jpg", half(jpeg()));
  expect_left_out(scratch.path(), {"model.family=clip", "data.source=pairs", "model.seq_len=12"},
                  {"silent.jpg has no caption", "blank.jpg has no caption",
                   "asks.jpg has no caption", "wide.png: 1000 x 1", "corrupt.jpg"});
}

const Sets kClips = {"model.family=probe", "probe.heads=1",           "data.source=clips",
                     "vision.frames=4",    "vision.hidden=24",        "vision.heads=1",
                     "vision.classes=2",   "vision.positions=rotary", "vision.tubelet=2"};

TEST(BadFiles, OfClips) {
  const harness::ScratchDirectory scratch;
  const auto webp = [](int width, int height) {
    return media::encode_webp(std::vector<media::Image>(5, media::Image(width, height)), 8, true);
  };
  scratch.write("good.webp", webp(20, 16));
  scratch.write("empty.webp", "");
  scratch.write("cut.webp", half(webp(20, 16)));
  scratch.write("wide.webp", webp(1000, 1));
  scratch.write("list.csv", "good.webp 0\nempty.webp 1\ncut.webp 0\nwide.webp 1\nnowhere.webp 0\n");
  expect_left_out(scratch / "list.csv", kClips,
                  {"empty.webp", "cut.webp", "wide.webp: 1000 x 1", "nowhere.webp: no such video"});
}

TEST(BadFiles, OfTrajectories) {
  TRIREME_NEEDS("HDF5", media::why_no_hdf5());
  const harness::ScratchDirectory scratch;
  synthetic::make_arm({.common = {.out = scratch / "arm", .count = 4, .validation = 1},
                       .width = 32,
                       .height = 24,
                       .frames = 20,
                       .fps = 8,
                       .format = "webp"});
  std::vector<Path> arrays, videos;
  std::istringstream list(read_file(scratch / "arm/train.csv"));
  for (std::string episode; std::getline(list, episode);) {
    arrays.push_back(scratch / "arm" / episode / "trajectory.h5");
    for (const auto& entry :
         fs::directory_iterator(scratch / "arm" / episode / "recordings" / "MP4"))
      videos.push_back(entry.path());
  }
  ASSERT_EQ(arrays.size(), 4U);
  ASSERT_EQ(videos.size(), 4U);
  fs::resize_file(arrays[0], fs::file_size(arrays[0]) / 2);
  fs::resize_file(videos[1], fs::file_size(videos[1]) / 2);
  fs::resize_file(videos[2], 0);
  testing::internal::CaptureStderr();  // HDF5 would print, by whichever thread reads
  expect_left_out(
      scratch / "arm/train.csv",
      {"model.family=jepa_ac", "data.source=trajectories", "vision.frames=4", "vision.hidden=24",
       "vision.heads=1", "vision.positions=rotary", "action.hidden=24", "action.heads=1"},
      {arrays[0].string(), videos[1].string(), videos[2].string()});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(BadFiles, NoGoodOneIsAnErrorThatNamesTheFirst) {
  const harness::ScratchDirectory scratch;
  scratch.write("a/0.webp", "");
  scratch.write("list.csv", "a/0.webp 0\n");
  try {
    sources_of(scratch / "list.csv", kClips).train->batch(0, 1);
    ADD_FAILURE() << "nothing is good";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), HasSubstr("a/0.webp"));
  }
}

}  // namespace
}  // namespace trireme::loaders::bad_files_test
