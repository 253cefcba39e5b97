#include "trireme/data/media/samples.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/data/media/pictures.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/data/media/hdf5.h"
#include "trireme/data/media/lists.h"
#include "trireme/data/media/tar.h"

namespace trireme::media::samples_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Body>
std::string refusal_of(const Body& body, ErrorKind kind = ErrorKind::kData) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "taken";
}

std::vector<Image> few_frames(int count, int phase = 0) {
  std::vector<Image> frames;
  for (int i = 0; i < count; ++i) frames.push_back(gradient(32, 24, phase + i));
  return frames;
}

// Shards of three captioned pictures, of which the second's JPEG is cut short and the third has no caption.
Path captioned_shard(const harness::ScratchDirectory& scratch, const std::string& name,
                     bool broken) {
  TarWriter tar(scratch / name);
  for (int i = 0; i < 3; ++i) {
    const std::string key = "k" + std::to_string(i);
    std::string jpeg = encode_jpeg(gradient(32 + i, 24, i), 90);
    if (broken && i == 1) jpeg.resize(jpeg.size() / 2);
    tar.add(key + ".jpg", jpeg);
    if (i == 0) tar.add(key + ".txt", "caption 0");
    if (i == 1) tar.add(key + ".json", R"({"caption": "caption 1", "more": [1]})");
    if (i == 2) tar.add(key + ".txt", broken ? " \n" : "caption 2");
  }
  tar.finish();
  return scratch / name;
}

TEST(Samples, PicturesThatAreNamedLieInTheDataSet) {
  const harness::ScratchDirectory scratch;
  const std::string jpeg = encode_jpeg(gradient(32, 24), 90);
  for (const char* name : {"set/one.jpg", "set/more/two.jpg", "secret.jpg"})
    scratch.write(name, jpeg);
  for (const char* name : {"set/one.txt", "set/more/two.txt"}) scratch.write(name, "words");
  const Samples samples =
      open_samples({.sources = {scratch / "set"}, .kind = SampleKind::kImageText});
  ASSERT_THAT(samples.name(0), HasSubstr("two.jpg"));
  EXPECT_EQ(samples.picture(0, "../one.jpg").width, 32);
  EXPECT_EQ(samples.picture(1, "more/two.jpg").width, 32);
  const std::string outside = "outside of the data set";
  for (const std::string& name :
       {std::string("../secret.jpg"), std::string("more/../../secret.jpg"),
        (scratch / "secret.jpg").string(), std::string()}) {
    EXPECT_THAT(refusal_of([&] { samples.picture(1, name); }), HasSubstr(outside)) << name;
    EXPECT_THAT(refusal_of([&] { samples.picture_size(1, name); }), HasSubstr(outside)) << name;
  }
  EXPECT_THAT(refusal_of([&] { samples.picture(0, "../../secret.jpg"); }), HasSubstr(outside));
}

TEST(Samples, CaptionsAndPicturesOfShards) {
  const harness::ScratchDirectory scratch;
  captioned_shard(scratch, "s-0.tar", false);
  captioned_shard(scratch, "s-1.tar", false);
  const Samples samples = open_samples({.sources = {scratch / "s-{0..1}.tar"}});
  EXPECT_EQ(samples.kind(), SampleKind::kImageText);
  ASSERT_EQ(samples.size(), 6);
  EXPECT_EQ(samples.read(0).text, "caption 0");
  const Sample sample = samples.read(4);
  EXPECT_EQ(sample.text, "caption 1");
  EXPECT_THAT(sample.json, HasSubstr("more"));
  EXPECT_THAT(sample.name, HasSubstr("s-1.tar: sample k1"));
  EXPECT_EQ(sample.image.width, 33);
  EXPECT_EQ(samples.info(5).width, 34);
  EXPECT_EQ(open_samples({.sources = {scratch.path()}}).digest(), samples.digest());
  EXPECT_EQ(open_samples({.sources = {scratch / "s-*.tar"}}).digest(), samples.digest());
  EXPECT_NE(open_samples({.sources = {scratch / "s-0.tar"}}).digest(), samples.digest());
}

TEST(Samples, BadOnesAreRefusedOrCountedAndNamed) {
  const harness::ScratchDirectory scratch;
  const Path shard = captioned_shard(scratch, "s.tar", true);
  const Samples strict = open_samples({.sources = {shard}});
  EXPECT_THAT(refusal_of([&] { strict.take(1); }), HasSubstr("s.tar: sample k1: a JPEG"));
  EXPECT_THAT(refusal_of([&] { strict.take(2); }), HasSubstr("sample k2 has no caption"));
  const Samples lenient = open_samples({.sources = {shard}, .bad = BadSamples::kSkip});
  EXPECT_EQ(lenient.bad().count, 0);
  EXPECT_FALSE(lenient.take(1).has_value());
  EXPECT_FALSE(lenient.take(2).has_value());
  EXPECT_EQ(lenient.take(0)->index, 0);
  const BadReport bad = lenient.bad();
  EXPECT_EQ(bad.count, 2);
  EXPECT_THAT(bad.reasons, ElementsAre(HasSubstr("sample k1"), HasSubstr("sample k2")));
}

TEST(Samples, ClassesAreDirectories) {
  const harness::ScratchDirectory scratch;
  scratch.write("dog/b.png", encode_png(gradient(20, 10)));
  scratch.write("cat/deep/a.jpg", encode_jpeg(gradient(20, 10), 90));
  scratch.write("cat/notes.md", "no picture");
  scratch.write("cat/.hidden.png", "no picture");
  const Samples samples = open_samples({.sources = {scratch.path()}});
  EXPECT_EQ(samples.kind(), SampleKind::kImageLabel);
  EXPECT_THAT(samples.classes(), ElementsAre("cat", "dog"));
  ASSERT_EQ(samples.size(), 2);
  EXPECT_EQ(samples.read(0).label, 0);
  EXPECT_EQ(samples.read(1).label, 1);
}

TEST(Samples, ClassesOfShardsAreNumbers) {
  const harness::ScratchDirectory scratch;
  TarWriter tar(scratch / "c.tar");
  tar.add("a.png", encode_png(gradient(8, 8)));
  tar.add("a.cls", "7\n");
  tar.add("b.png", encode_png(gradient(8, 8)));
  tar.finish();
  const Samples samples = open_samples({.sources = {scratch / "c.tar"}});
  EXPECT_EQ(samples.kind(), SampleKind::kImageLabel);
  EXPECT_EQ(samples.read(0).label, 7);
  EXPECT_THAT(refusal_of([&] { samples.read(1); }), HasSubstr("sample b has no .cls"));
}

TEST(Samples, LongAndThinPicturesAreBad) {
  const harness::ScratchDirectory scratch;
  scratch.write("a.png", encode_png(gradient(1000, 1)));
  scratch.write("a.txt", "thin");
  scratch.write("b.png", encode_png(gradient(200, 1)));
  scratch.write("b.txt", "not too thin");
  const Samples samples = open_samples({.sources = {scratch.path()}});
  EXPECT_THAT(refusal_of([&] { samples.read(0); }), HasSubstr("a.png: 1000 x 1 pixels"));
  EXPECT_EQ(samples.read(1).text, "not too thin");
}

TEST(Samples, ClipsOfAnSsv2List) {
  const harness::ScratchDirectory scratch;
  scratch.write("videos/7.webp", encode_webp(few_frames(6), 12, true));
  scratch.write("labels.json", R"({"Moving something up": "1", "Holding something": "0"})");
  scratch.write("train.json",
                R"([{"id": "7", "label": "Moving a cup up", "template": "Moving [something] up"},
                    {"id": "8", "label": "Holding a cup", "template": "Holding [something]"}])");
  const Samples samples =
      open_samples({.sources = {scratch / "train.json"}, .bad = BadSamples::kSkip});
  EXPECT_EQ(samples.kind(), SampleKind::kClip);
  EXPECT_THAT(samples.classes(), ElementsAre("Holding something", "Moving something up"));
  const Sample sample = samples.read(0, [](const VideoInfo& info) {
    return std::vector<std::int64_t>{0, info.frames - 1};
  });
  EXPECT_EQ(sample.label, 1);
  EXPECT_EQ(sample.text, "Moving a cup up");
  EXPECT_THAT(sample.frames, ElementsAre(0, 5));
  EXPECT_EQ(sample.clip.frames, (std::vector{gradient(32, 24, 0), gradient(32, 24, 5)}));
  EXPECT_FALSE(samples.take(1).has_value());
  EXPECT_THAT(samples.bad().reasons, ElementsAre("8: no such video"));
  EXPECT_THAT(refusal_of([&] { open_samples({.sources = {scratch.path()}}); }, ErrorKind::kUsage),
              HasSubstr("train.json"));
}

TEST(Samples, ClipsOfLinesAndOfDirectories) {
  const harness::ScratchDirectory scratch;
  scratch.write("up/a b.webp", encode_webp(few_frames(3), 12, true));
  scratch.write("down/c.webp", encode_webp(few_frames(2, 5), 12, true));
  scratch.write("list.csv", "up/a b.webp 4\n\ndown/c.webp::11\n");
  const Samples listed = open_samples({.sources = {scratch / "list.csv"}});
  ASSERT_EQ(listed.size(), 2);
  EXPECT_EQ(listed.read(0).label, 4);
  EXPECT_EQ(listed.read(1).label, 11);
  const Samples walked = open_samples({.sources = {scratch.path()}, .kind = SampleKind::kClip});
  EXPECT_THAT(walked.classes(), ElementsAre("down", "up"));
  EXPECT_EQ(walked.read(0).clip.frames.size(), 2u);
  EXPECT_EQ(walked.info(1).frames, 3);
}

TEST(Samples, ClipsOfFramesInATar) {
  const harness::ScratchDirectory scratch;
  TarWriter tar(scratch / "f.tar");
  const std::vector<Image> frames = few_frames(11);
  for (std::size_t i = frames.size(); i-- > 0;)
    tar.add("a." + std::to_string(i) + ".png", encode_png(frames[i]));
  tar.add("a.cls", "3");
  tar.add("a.json", R"({"fps": 8})");
  tar.add("b.000.png", encode_png(gradient(8, 8)));
  tar.add("b.001.png", encode_png(gradient(9, 8)));
  tar.add("c.cls", "3");
  tar.finish();
  const Samples samples = open_samples({.sources = {scratch / "f.tar"}});
  EXPECT_EQ(samples.kind(), SampleKind::kClip);
  const Sample sample = samples.read(0);
  EXPECT_EQ(sample.clip.frames, frames);
  EXPECT_EQ(sample.clip.fps, 8);
  EXPECT_EQ(sample.label, 3);
  EXPECT_THAT(refusal_of([&] { samples.read(1); }), HasSubstr("the first frame has 8 x 8"));
  EXPECT_THAT(refusal_of([&] { samples.read(2); }), HasSubstr("a video with no frames"));
}

// An episode of `states` rows whose video has six frames.
Path episode(const harness::ScratchDirectory& scratch, const std::string& name, int states) {
  Hdf5Array hand{.shape = {states, 6}, .values = {}}, grip{.shape = {states}, .values = {}};
  for (int t = 0; t < states; ++t) {
    for (int k = 0; k < 6; ++k) hand.values.push_back(k < 3 ? 0.1 * t : 0);
    grip.values.push_back(0.5 * t);
  }
  scratch.write(name + "/recordings/MP4/22.mp4", encode_webp(few_frames(6), 15, true));
  scratch.write(name + "/metadata_x.json", R"({"left_mp4_path": "lab/day/recordings/MP4/22.mp4"})");
  write_hdf5(scratch / (name + "/trajectory.h5"),
             {{"observation/robot_state/cartesian_position", hand},
              {"observation/robot_state/gripper_position", grip},
              {"observation/camera_extrinsics/22_left", hand}});
  return scratch / name;
}

TEST(Samples, TrajectoriesOfDroid) {
  TRIREME_NEEDS("HDF5", why_no_hdf5());
  const harness::ScratchDirectory scratch;
  episode(scratch, "lab/b", 5);
  episode(scratch, "lab/a", 8);
  scratch.write("one.csv", "lab/b\n");
  const Samples samples = open_samples({.sources = {scratch.path()}});
  EXPECT_EQ(samples.kind(), SampleKind::kTrajectory);
  ASSERT_EQ(samples.size(), 2);
  EXPECT_EQ(samples.info(0).frames, 6);
  EXPECT_EQ(samples.info(1).frames, 5);
  const Sample sample = samples.read(1, [](const VideoInfo&) {
    return std::vector<std::int64_t>{0, 2, 4};
  });
  EXPECT_EQ(sample.clip.frames.size(), 3u);
  ASSERT_EQ(sample.trajectory.states.size(), 3u);
  ASSERT_EQ(sample.trajectory.actions.size(), 2u);
  EXPECT_NEAR(sample.trajectory.actions[1][0], 0.2, 1e-12);
  EXPECT_NEAR(sample.trajectory.actions[1][6], 1, 1e-12);
  EXPECT_EQ(sample.trajectory.extrinsics.size(), 3u);
  EXPECT_EQ(samples.read(1).clip.frames.size(), 5u);
  EXPECT_EQ(open_samples({.sources = {scratch / "one.csv"}}).size(), 1);
}

TEST(Samples, BrokenTrajectoriesAreRefusedByName) {
  TRIREME_NEEDS("HDF5", why_no_hdf5());
  const harness::ScratchDirectory scratch;
  const Path good = episode(scratch, "a", 4);
  scratch.write("b/trajectory.h5", read_file(good / "trajectory.h5").substr(0, 900));
  scratch.write("b/m.json", read_file(good / "metadata_x.json"));
  scratch.write("c/trajectory.h5", read_file(good / "trajectory.h5"));
  const Samples samples = open_samples({.sources = {scratch.path()}});
  EXPECT_THAT(refusal_of([&] { samples.read(1); }), HasSubstr("b/trajectory.h5: "));
  EXPECT_THAT(refusal_of([&] { samples.read(2); }), HasSubstr("no .json with \"left_mp4_path\""));
}

TEST(Samples, WhatCannotBeOpenedIsRefused) {
  const harness::ScratchDirectory scratch;
  const auto refused = [&](const Path& path, ErrorKind kind = ErrorKind::kData) {
    return refusal_of([&] { open_samples({.sources = {path}}); }, kind);
  };
  EXPECT_THAT(refused(scratch / "none"), HasSubstr("no such file"));
  EXPECT_THAT(refused(scratch.path()), HasSubstr("no pictures, videos, shards or trajectories"));
  EXPECT_THAT(refused(scratch.write("a.tar", "short")), HasSubstr("a.tar: a tar without its end"));
}

TEST(Samples, SplitsAreNotMixed) {
  const harness::ScratchDirectory scratch;
  captioned_shard(scratch, "train-0.tar", false);
  captioned_shard(scratch, "validation-0.tar", false);
  EXPECT_THAT(refusal_of([&] { open_samples({.sources = {scratch.path()}}); }, ErrorKind::kUsage),
              HasSubstr("train-*.tar"));
}

TEST(Samples, ManyThreadsReadTheSame) {
  const harness::ScratchDirectory scratch;
  const Samples samples = open_samples(
      {.sources = {captioned_shard(scratch, "s.tar", true)}, .bad = BadSamples::kSkip});
  std::vector<int> good(4);
  {
    std::vector<std::jthread> threads;
    for (int& count : good)
      threads.emplace_back([&] {
        for (std::int64_t i = 0; i < 300; ++i)
          if (const std::optional<Sample> sample = samples.take(i % 3))
            count +=
                sample->image == decode_image(bytes_of(encode_jpeg(gradient(32, 24, 0), 90)), "a");
      });
  }
  EXPECT_THAT(good, testing::Each(100));
  EXPECT_EQ(samples.bad().count, 2);
}

TEST(Samples, PhotographsByName) {
  TRIREME_NEEDS_REAL_FILE(photos, "photos");
  const harness::ScratchDirectory scratch;
  for (const auto& entry : std::filesystem::directory_iterator(photos)) {
    std::filesystem::copy(entry.path(), scratch.path());
    scratch.write(entry.path().stem().string() + ".txt", entry.path().stem().string());
  }
  const Samples samples = open_samples({.sources = {scratch.path()}});
  EXPECT_EQ(samples.size(), 5);
  EXPECT_EQ(samples.read(0).text, "astronaut");
  EXPECT_EQ(samples.read(0).image.width, 512);
}

TEST(Lists, WhatIsNoneIsRefused) {
  EXPECT_THAT(refusal_of([] { parse_ssv2_list("{}", "l.json"); }), HasSubstr("l.json: no list"));
  EXPECT_THAT(refusal_of([] { parse_ssv2_list(R"([{"label": "x"}])", "l"); }),
              HasSubstr("without \"id\""));
  EXPECT_THAT(refusal_of([] { parse_ssv2_labels(R"({"a": "0", "b": "0"})", "l"); }),
              HasSubstr("class 'b' needs a number of its own"));
  EXPECT_THAT(refusal_of([] { parse_list_lines("a::b", "l"); }), HasSubstr("no number after ::"));
  EXPECT_EQ(parse_ssv2_list(R"([{"id": 78687}])", "l").at(0).id, "78687");
}

}  // namespace
}  // namespace trireme::media::samples_test
