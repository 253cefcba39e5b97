// make_video of synth.h.
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/media/video.h"
#include "trireme/data/synthetic/clip.h"

namespace trireme::synthetic {
namespace {

std::vector<media::Image> frames_of(const Clip& clip, const VideoOptions& options) {
  std::vector<media::Image> frames;
  for (int frame = 0; frame < options.frames; ++frame)
    frames.push_back(
        draw_frame(clip, options.width, options.height, static_cast<std::size_t>(frame)));
  return frames;
}

Json list_entry(const Clip& clip, const std::string& id) {
  return {{"id", id},
          {"label", label_text(clip)},
          {"template", kTemplates[clip.motion]},
          {"placeholders", placeholders(clip)}};
}

void write_videos(Writing& writing, const VideoOptions& options) {
  make_directories(writing.path() / "videos");
  make_directories(writing.path() / "metadata");
  for (const Split split : kSplits) {
    Json list = Json::array();
    for (std::int64_t i = 0; i < writing.count(split); ++i) {
      const Clip clip = make_clip(options, split, i);
      const std::string id = sample_name(split, i);
      write_clip(writing.path() / "videos" / (id + "." + options.format), frames_of(clip, options),
                 options.fps);
      writing.write("metadata/" + id + ".json", clip_json(clip, options));
      list.push_back(list_entry(clip, id));
      writing.step();
    }
    writing.write(std::string(name(split)) + ".json", list.dump(1));
  }
}

void write_frames(Writing& writing, const VideoOptions& options) {
  for (const Split split : kSplits) {
    Shards shards(writing.path(), split, options.shard);
    for (std::int64_t i = 0; i < writing.count(split); ++i) {
      const Clip clip = make_clip(options, split, i);
      const std::string key = sample_name(split, i);
      media::TarWriter& tar = shards.at(i);
      int frame = 0;
      for (const media::Image& image : frames_of(clip, options))
        tar.add(fmt::format("{}.{:03}.png", key, frame++), media::encode_png(image));
      tar.add(key + ".cls", std::to_string(clip.motion));
      tar.add(key + ".txt", label_text(clip));
      tar.add(key + ".json", clip_json(clip, options));
      writing.step();
    }
    shards.finish();
  }
}

}  // namespace

void check_frames(int width, int height, int frames, double fps) {
  if (width < 16 || height < 16 || width > 4096 || height > 4096 || width % 2 || height % 2)
    fail(ErrorKind::kUsage, "frames of {} x {} pixels; sides are even and 16 to 4096", width,
         height);
  if (frames < 2 || frames > 4096) fail(ErrorKind::kUsage, "--frames {}; it is 2 to 4096", frames);
  if (!(fps >= 1 && fps <= 240)) fail(ErrorKind::kUsage, "--fps {}; it is 1 to 240", fps);
}

void check_clip_format(const std::string& format) {
  const std::string absent = format == "mp4" ? media::why_no_ffmpeg() : "";
  if (!absent.empty())
    fail(ErrorKind::kUsage,
         "MP4 needs FFmpeg: install libavformat-dev libavcodec-dev libswscale-dev and build again, "
         "or take --format webp ({})",
         absent);
}

void write_clip(const Path& path, const std::vector<media::Image>& frames, double fps) {
  if (path.extension() == ".webp")
    write_file_synced(path, media::encode_webp(frames, fps, true));
  else
    media::encode_video(path, frames, fps);
}

void make_video(const VideoOptions& options) {
  if (options.format != "mp4" && options.format != "webp" && options.format != "frames")
    fail(ErrorKind::kUsage, "no clips in format '{}'; there are mp4, webp, frames", options.format);
  if (options.shard < 1) fail(ErrorKind::kUsage, "--shard {}; at least one clip", options.shard);
  check_frames(options.width, options.height, options.frames, options.fps);
  check_clip_format(options.format);
  Writing writing(options.common, validation_of(options.common));
  if (options.format == "frames")
    write_frames(writing, options);
  else
    write_videos(writing, options);
  Json labels = Json::object();
  for (int motion = 0; motion < kMotions; ++motion)
    labels[class_name(motion)] = std::to_string(motion);
  writing.write("labels.json", labels.dump(1));
  writing.publish();
}

}  // namespace trireme::synthetic
