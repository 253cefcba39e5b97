#include "trireme/data/media/video.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/data/media/plugin.h"
#include "trireme/data/media/video_reader.h"

namespace trireme::media {
namespace {

struct Ffmpeg {
  const FfmpegPlugin* plugin = nullptr;
  std::string absent{};
};

// Loaded once, by the first caller.
const Ffmpeg& ffmpeg() {
  static const Ffmpeg loaded = [] {
    const Plugin plugin = load_plugin("trireme_ffmpeg");
    if (plugin.function == nullptr) return Ffmpeg{.absent = plugin.absent};
    return Ffmpeg{.plugin = reinterpret_cast<const FfmpegPlugin* (*)()>(plugin.function)()};
  }();
  return loaded;
}

const FfmpegPlugin& need_ffmpeg(const std::string& what) {
  if (ffmpeg().plugin == nullptr)
    fail(ErrorKind::kUsage,
         "{}: videos other than animated WebP need FFmpeg: install libavformat-dev libavcodec-dev "
         "libswscale-dev and build again ({})",
         what, ffmpeg().absent);
  return *ffmpeg().plugin;
}

// A picture as a clip of one frame.
class StillReader final : public VideoReader {
 public:
  StillReader(ByteSpan bytes, const std::string& what)
      : bytes_(bytes), what_(what), size_(image_size(bytes, what)) {}
  VideoInfo info() const override {
    return {.width = size_.width, .height = size_.height, .frames = 1};
  }
  std::vector<Image> read(std::span<const std::int64_t> numbers) override {
    if (numbers.empty()) return {};
    return {decode_image(bytes_, what_)};
  }

 private:
  ByteSpan bytes_;
  std::string what_;
  ImageSize size_;
};

std::unique_ptr<VideoReader> open_video(ByteSpan bytes, const std::string& what) {
  if (bytes.empty()) fail(ErrorKind::kData, "{}: is empty, which is not a video", what);
  if (is_still(bytes)) return std::make_unique<StillReader>(bytes, what);
  return is_webp(bytes) ? open_webp(bytes, what) : need_ffmpeg(what).open(bytes, what);
}

void check_info(const VideoInfo& info, const std::string& what) {
  if (info.frames <= 0) fail(ErrorKind::kData, "{}: a video with no frames", what);
  check_size(info.width, info.height, what);
}

// Ascending, each once.
std::vector<std::int64_t> distinct_numbers(std::vector<std::int64_t> numbers, const VideoInfo& info,
                                           const std::string& what) {
  constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (!numbers.empty() && (numbers.front() < 0 || numbers.back() >= info.frames))
    fail(ErrorKind::kData, "{}: frame {} of a video of {}", what,
         numbers.front() < 0 ? numbers.front() : numbers.back(), info.frames);
  const std::int64_t frame = std::int64_t{3} * info.width * info.height;
  if (static_cast<std::int64_t>(numbers.size()) > kMaxBytes / frame)
    fail(ErrorKind::kData, "{}: {} frames of {} x {} pixels are more than 4 GiB; choose fewer",
         what, numbers.size(), info.width, info.height);
  return numbers;
}

std::vector<std::int64_t> all_numbers(const VideoInfo& info, const std::string& what) {
  constexpr std::int64_t kMany = 1 << 24;
  if (info.frames > kMany)
    fail(ErrorKind::kData, "{}: says that it has {} frames", what, info.frames);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(info.frames));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  return numbers;
}

}  // namespace

std::string why_no_ffmpeg() { return ffmpeg().absent; }

VideoInfo video_info(ByteSpan bytes, const std::string& what) {
  const VideoInfo info = open_video(bytes, what)->info();
  check_info(info, what);
  return info;
}

Video decode_video(ByteSpan bytes, const std::string& what, const ChooseFrames& choose) {
  const std::unique_ptr<VideoReader> reader = open_video(bytes, what);
  const VideoInfo info = reader->info();
  check_info(info, what);
  const std::vector<std::int64_t> wanted = choose ? choose(info) : all_numbers(info, what);
  const std::vector<std::int64_t> numbers = distinct_numbers(wanted, info, what);
  std::vector<Image> read = reader->read(numbers);
  Video video{.width = info.width, .height = info.height, .fps = info.fps};
  if (numbers == wanted) {
    video.frames = std::move(read);
    return video;
  }
  for (const std::int64_t number : wanted) {
    const auto at = std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin();
    video.frames.push_back(read[at]);
  }
  return video;
}

Video decode_video(const Path& path, const ChooseFrames& choose) {
  const MappedFile file(path);
  return decode_video(file.bytes(), path.string(), choose);
}

void encode_video(const Path& path, std::span<const Image> frames, double fps) {
  const std::string what = path.string();
  if (frames.empty() || !(fps > 0))
    fail(ErrorKind::kUsage, "{}: {} frames at {} a second make no video", what, frames.size(), fps);
  for (const Image& frame : frames)
    if (frame.width != frames[0].width || frame.height != frames[0].height || frame.width % 2 ||
        frame.height % 2)
      fail(ErrorKind::kUsage,
           "{}: a frame of {} x {} pixels; all frames have one size and even sides", what,
           frame.width, frame.height);
  need_ffmpeg(what).encode(what, frames, fps);
}

}  // namespace trireme::media
