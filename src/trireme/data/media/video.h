// Clips: frames of a video file by number, and files made of frames.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/data/media/image.h"

namespace trireme::media {

struct VideoInfo {
  int width = 0;
  int height = 0;
  double fps = 0;           // the mean where frames last unequally long; 0: the file does not say
  std::int64_t frames = 0;  // > 0
};

struct Video {
  int width = 0;
  int height = 0;
  double fps = 0;
  std::vector<Image> frames{};
};

// Which frames are wanted of a file that holds this: numbers below info.frames in any order, also repeated ones. May
// throw. None given: all of them.
using ChooseFrames = std::function<std::vector<std::int64_t>(const VideoInfo& info)>;

// Facts from the file's header, without decoding frames. Throws as decode_video.
VideoInfo video_info(std::span<const std::byte> bytes, const std::string& what);

// A JPEG or PNG is a clip of one frame. Animated WebP is read by itself; every other container and codec by FFmpeg, in
// a plug-in that is loaded at the first such file. Frames are taken in the order of presentation and are those of
// `choose`, in its order. Throws Error{kData} beginning with `what` for a corrupt or truncated file, one without
// frames, frames beyond kMaxPixels, and more than 4 GiB of frames. Throws Error{kUsage} naming the package if FFmpeg is
// needed and was not built in. Any number of threads may call this at once.
Video decode_video(std::span<const std::byte> bytes, const std::string& what,
                   const ChooseFrames& choose = {});
Video decode_video(const Path& path, const ChooseFrames& choose = {});

// Why videos other than animated WebP cannot be read or written here; empty where they can.
std::string why_no_ffmpeg();

// Writes a new file, MPEG-4 in the container that its name asks for (.mp4). All frames have one size, whose sides are even. Equal frames give
// equal bytes under one version of FFmpeg. Throws Error{kUsage}, or Error{kData} where it cannot be written.
void encode_video(const Path& path, std::span<const Image> frames, double fps);

// The bytes of an animated WebP, lossless or of that quality (0 to 100). Throws Error{kUsage}.
std::string encode_webp(std::span<const Image> frames, double fps, bool lossless,
                        float quality = 90);

}  // namespace trireme::media
