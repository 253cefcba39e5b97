#include "trireme/data/media/video.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/data/media/pictures.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"

#define TRIREME_NEEDS_FFMPEG() TRIREME_NEEDS("FFmpeg", why_no_ffmpeg())

namespace trireme::media::video_test {
namespace {

using testing::HasSubstr;

std::vector<Image> clip(int frames, int width = 64, int height = 48) {
  std::vector<Image> all;
  for (int i = 0; i < frames; ++i) all.push_back(gradient(width, height, i));
  return all;
}

std::string video_refusal(const std::string& bytes) {
  try {
    decode_video(bytes_of(bytes), "v.mp4");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "taken";
}

ChooseFrames these(std::vector<std::int64_t> numbers) {
  return [numbers](const VideoInfo&) { return numbers; };
}

TEST(Video, AnimatedWebpComesBackLossless) {
  const std::vector<Image> frames = clip(5);
  const std::string bytes = encode_webp(frames, 10, true);
  const VideoInfo info = video_info(bytes_of(bytes), "v.webp");
  EXPECT_EQ(info.frames, 5);
  EXPECT_EQ(info.fps, 10);
  const Video video = decode_video(bytes_of(bytes), "v.webp");
  EXPECT_EQ(video.frames, frames);
  EXPECT_EQ(encode_webp(frames, 10, true), bytes);
}

TEST(Video, FramesAreTakenByNumber) {
  const std::vector<Image> frames = clip(5);
  const std::string bytes = encode_webp(frames, 10, true);
  const Video video = decode_video(bytes_of(bytes), "v", these({4, 1, 1}));
  ASSERT_EQ(video.frames.size(), 3u);
  EXPECT_EQ(video.frames[0], frames[4]);
  EXPECT_EQ(video.frames[1], frames[1]);
  EXPECT_EQ(video.frames[2], frames[1]);
  EXPECT_THROW(decode_video(bytes_of(bytes), "v", these({5})), Error);
}

TEST(Video, TruncatedWebpIsRefused) {
  const std::string bytes = encode_webp(clip(5), 10, true);
  EXPECT_THAT(video_refusal(bytes.substr(0, bytes.size() / 2)), HasSubstr("v.mp4: a WebP"));
  EXPECT_THAT(video_refusal(""), HasSubstr("is empty"));
}

TEST(Video, Mp4ComesBackNearly) {
  TRIREME_NEEDS_FFMPEG();
  const harness::ScratchDirectory scratch;
  const std::vector<Image> frames = clip(30);
  encode_video(scratch / "a.mp4", frames, 12.5);
  encode_video(scratch / "b.mp4", frames, 12.5);
  EXPECT_EQ(read_file(scratch / "a.mp4"), read_file(scratch / "b.mp4"));
  const Video video = decode_video(scratch / "a.mp4");
  EXPECT_EQ(video.fps, 12.5);
  ASSERT_EQ(video.frames.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i)
    EXPECT_LT(mean_difference(video.frames[i], frames[i]), 3) << i;
}

TEST(Video, FramesByNumberAreThoseOfTheWhole) {
  TRIREME_NEEDS_FFMPEG();
  const harness::ScratchDirectory scratch;
  encode_video(scratch / "a.mp4", clip(60), 30);
  const Video whole = decode_video(scratch / "a.mp4");
  for (const std::vector<std::int64_t>& numbers :
       {std::vector<std::int64_t>{0}, {59}, {11, 12, 13}, {5, 30, 47}, {47, 2}}) {
    const Video part = decode_video(scratch / "a.mp4", these(numbers));
    ASSERT_EQ(part.frames.size(), numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(part.frames[i], whole.frames[numbers[i]]) << numbers[i];
  }
}

TEST(Video, DecodedByThreadsItIsTheSame) {
  TRIREME_NEEDS_FFMPEG();
  const harness::ScratchDirectory scratch;
  encode_video(scratch / "a.mp4", clip(20), 30);
  const Video alone = decode_video(scratch / "a.mp4");
  std::vector<Video> videos(4);
  {
    std::vector<std::jthread> threads;
    for (Video& video : videos)
      threads.emplace_back([&] { video = decode_video(scratch / "a.mp4"); });
  }
  for (const Video& video : videos) EXPECT_EQ(video.frames, alone.frames);
}

TEST(Video, BrokenMp4IsRefusedByName) {
  TRIREME_NEEDS_FFMPEG();
  const harness::ScratchDirectory scratch;
  encode_video(scratch / "a.mp4", clip(20), 30);
  const std::string bytes = read_file(scratch / "a.mp4");
  EXPECT_THAT(video_refusal(bytes.substr(0, bytes.size() / 2)), HasSubstr("v.mp4: "));
  EXPECT_THAT(video_refusal(std::string(5000, 'x')), HasSubstr("v.mp4: "));
  EXPECT_THROW(encode_video(scratch / "odd.mp4", clip(2, 63, 48), 30), Error);
}

// An MP4 whose table of samples is empty.
TEST(Video, WithoutFramesItIsRefused) {
  TRIREME_NEEDS_FFMPEG();
  const harness::ScratchDirectory scratch;
  encode_video(scratch / "a.mp4", clip(1), 30);
  std::string bytes = read_file(scratch / "a.mp4");
  for (const char* table : {"stsz", "stts", "stsc", "stco"}) {
    const std::size_t at = bytes.find(table);
    ASSERT_NE(at, bytes.npos);
    const std::size_t count = at + (std::string_view(table) == "stsz" ? 12 : 8);
    for (std::size_t i = 0; i < 4; ++i) bytes[count + i] = 0;
  }
  EXPECT_THAT(video_refusal(bytes), HasSubstr("v.mp4: a video with no frames"));
}

TEST(Video, ClipsOfRobotsAreRead) {
  TRIREME_NEEDS_REAL_FILE(robots, "clips/so100_video.webp");
  const MappedFile file(robots);
  const VideoInfo info = video_info(file.bytes(), "so100");
  EXPECT_EQ(info.frames, 28);
  EXPECT_EQ(info.width, 640);
  EXPECT_EQ(info.height, 334);
  const Video video = decode_video(robots, these({0, 27}));
  EXPECT_GT(mean_difference(video.frames[0], video.frames[1]), 1);
}

}  // namespace
}  // namespace trireme::media::video_test
