// Readers of one video file: libwebp's, and FFmpeg's in the plug-in plugins/ffmpeg.
#pragma once

#include "trireme/data/media/codecs.h"
#include "trireme/data/media/video.h"

namespace trireme::media {

class VideoReader {
 public:
  virtual ~VideoReader() = default;
  virtual VideoInfo info() const = 0;
  // The frames of these numbers, which ascend and are all below info().frames.
  virtual std::vector<Image> read(std::span<const std::int64_t> numbers) = 0;
};

// `bytes` stay as long as the reader.
std::unique_ptr<VideoReader> open_webp(ByteSpan bytes, const std::string& what);

// Functions of the plug-in; its function `trireme_ffmpeg` returns one that stays.
struct FfmpegPlugin {
  std::unique_ptr<VideoReader> (*open)(ByteSpan bytes, const std::string& what);
  void (*encode)(const std::string& path, std::span<const Image> frames, double fps);
};

}  // namespace trireme::media
