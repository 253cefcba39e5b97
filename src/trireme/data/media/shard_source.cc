// Samples of WebDataset shards.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/media/sample_source.h"
#include "trireme/data/media/tar.h"

namespace trireme::media {
namespace {

std::string_view text_of_part(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_picture_part(std::string_view extension) {
  return is_picture_name("x." + std::string(extension));
}

// "017.png": a frame of a clip.
bool is_frame_part(std::string_view extension) {
  const std::size_t dot = extension.find('.');
  if (dot == extension.npos || dot == 0) return false;
  return extension.substr(0, dot).find_first_not_of("0123456789") == extension.npos &&
         is_picture_part(extension.substr(dot + 1));
}

class ShardSource : public SampleSource {
 public:
  ShardSource(const std::vector<Path>& paths, std::optional<SampleKind> kind) {
    shards_.reserve(paths.size());
    for (const Path& path : paths) {
      shards_.emplace_back(path);
      ends_.push_back(size() + shards_.back().samples().size());
    }
    if (size() > 0) kind_ = kind ? *kind : kind_of(at(0));
    if (kind_ == SampleKind::kTrajectory)
      fail(ErrorKind::kUsage, "{}: trajectories are not read from shards", paths[0].string());
  }

  SampleKind kind() const override { return kind_; }
  std::size_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string name(std::size_t i) const override { return at(i).where(); }
  std::string identity(std::size_t i) const override {
    const Place place = at(i);
    std::string text = place.shard.path().filename().string() + "\n" + place.sample().key;
    for (const ShardSample::Part& part : place.sample().parts)
      text += fmt::format("\n{} {} {}", part.extension, part.offset, part.size);
    return text;
  }

  void add_files(std::vector<Path>& files) const override {
    for (const Shard& shard : shards_) files.push_back(shard.path());
  }

  SampleInfo info(std::size_t i) const override {
    const Place place = at(i);
    SampleInfo info;
    take_words(place, info);
    if (kind_ != SampleKind::kClip) {
      const ImageSize size = checked_size(picture(place), place.where());
      info.width = size.width;
      info.height = size.height;
      return info;
    }
    const VideoInfo video = clip_info(place);
    info.width = video.width;
    info.height = video.height;
    info.frames = video.frames;
    info.fps = video.fps;
    return info;
  }

  Sample read(std::size_t i, const ChooseFrames& choose) const override {
    const Place place = at(i);
    Sample sample;
    take_words(place, sample);
    if (kind_ != SampleKind::kClip)
      sample.image = checked_image(picture(place), place.where());
    else if (const auto* video = clip_part(place))
      read_clip(place.shard.part(place.index, video->extension), place.where(), choose, sample);
    else
      read_frames(place, choose, sample);
    return sample;
  }
  void with_picture(std::size_t i, const std::string& picture,
                    const UsePicture& use) const override {
    const Place place = at(i);
    if (!place.shard.has(place.index, picture))
      fail(ErrorKind::kData, "{}: no member {}", place.where(), picture);
    use(place.shard.part(place.index, picture), place.where() + "." + picture);
  }

 private:
  struct Place {
    const Shard& shard;
    std::size_t index;
    const ShardSample& sample() const { return shard.samples()[index]; }
    std::string where() const { return shard.where(index); }
    std::string_view text(std::string_view extension) const {
      return shard.has(index, extension) ? text_of_part(shard.part(index, extension))
                                         : std::string_view();
    }
  };

  Place at(std::size_t i) const {
    const auto shard =
        static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
    return {shards_[shard], i - (shard == 0 ? 0 : ends_[shard - 1])};
  }

  static bool is_video_part(std::string_view extension) {
    return is_video_name("x." + std::string(extension)) || extension == "webp";
  }
  template <typename Is>
  static const ShardSample::Part* find(const Place& place, const Is& is) {
    for (const ShardSample::Part& part : place.sample().parts)
      if (is(part.extension)) return &part;
    return nullptr;
  }

  static SampleKind kind_of(const Place& place) {
    if (find(place, is_frame_part)) return SampleKind::kClip;
    if (find(place, is_picture_part))
      return place.shard.has(place.index, "cls") ? SampleKind::kImageLabel : SampleKind::kImageText;
    if (find(place, is_video_part)) return SampleKind::kClip;
    fail(ErrorKind::kData, "{} has no picture and no video", place.where());
  }

  // Label, text and JSON; what the kind must have.
  template <typename To>
  void take_words(const Place& place, To& to) const {
    to.json = place.text("json");
    if (kind_ == SampleKind::kImageText)
      to.text = caption_of(place.text("txt"), to.json, place.where());
    else
      to.text = place.text("txt");
    if (kind_ == SampleKind::kImageLabel || place.shard.has(place.index, "cls"))
      to.label = class_number(text_of_part(place.shard.part(place.index, "cls")), place.where());
  }

  static ByteSpan picture(const Place& place) {
    const ShardSample::Part* part = find(place, is_picture_part);
    if (part == nullptr) fail(ErrorKind::kData, "{} has no picture", place.where());
    return place.shard.part(place.index, part->extension);
  }

  // A video, or a picture, which is a clip of one frame; null where the clip is stored as frames.
  static const ShardSample::Part* clip_part(const Place& place) {
    const ShardSample::Part* video = find(place, is_video_part);
    if (video != nullptr || find(place, is_frame_part) != nullptr) return video;
    return find(place, is_picture_part);
  }

  // Frames in the order of their numbers.
  static std::vector<std::string> frame_parts(const Place& place) {
    std::vector<std::pair<std::int64_t, std::string>> frames;
    for (const ShardSample::Part& part : place.sample().parts)
      if (is_frame_part(part.extension))
        frames.emplace_back(
            class_number(part.extension.substr(0, part.extension.find('.')), place.where()),
            part.extension);
    std::sort(frames.begin(), frames.end());
    std::vector<std::string> names;
    for (auto& [number, extension] : frames) names.push_back(std::move(extension));
    if (names.empty()) fail(ErrorKind::kData, "{}: a video with no frames", place.where());
    return names;
  }

  static VideoInfo frames_info(const Place& place, const std::vector<std::string>& names) {
    const ImageSize size = checked_size(place.shard.part(place.index, names[0]), place.where());
    VideoInfo info{.width = size.width,
                   .height = size.height,
                   .frames = static_cast<std::int64_t>(names.size())};
    if (const std::string_view text = place.text("json"); !text.empty()) {
      const Json document = parse_json(text, place.where());
      if (document.is_object() && document.contains("fps") && document["fps"].is_number())
        info.fps = document["fps"].get<double>();
    }
    return info;
  }

  static VideoInfo clip_info(const Place& place) {
    const auto* video = clip_part(place);
    if (video == nullptr) return frames_info(place, frame_parts(place));
    const VideoInfo info =
        video_info(place.shard.part(place.index, video->extension), place.where());
    check_aspect({info.width, info.height}, place.where());
    return info;
  }

  static void read_frames(const Place& place, const ChooseFrames& choose, Sample& sample) {
    const std::vector<std::string> names = frame_parts(place);
    const VideoInfo info = frames_info(place, names);
    sample.clip = {.width = info.width, .height = info.height, .fps = info.fps};
    if (choose)
      sample.frames = choose(info);
    else
      for (std::int64_t frame = 0; frame < info.frames; ++frame) sample.frames.push_back(frame);
    for (const std::int64_t frame : sample.frames) {
      if (frame < 0 || frame >= info.frames)
        fail(ErrorKind::kData, "{}: frame {} of {}", place.where(), frame, info.frames);
      const std::string& extension = names[frame];
      const std::string what = place.where() + "." + extension;
      sample.clip.frames.push_back(checked_image(place.shard.part(place.index, extension), what));
      const Image& image = sample.clip.frames.back();
      if (image.width != info.width || image.height != info.height)
        fail(ErrorKind::kData, "{}: {} x {} pixels, but the first frame has {} x {}", what,
             image.width, image.height, info.width, info.height);
    }
  }

  std::vector<Shard> shards_;
  std::vector<std::size_t> ends_;
  SampleKind kind_ = SampleKind::kImageText;
};

}  // namespace

SourcePtr open_shards(const std::vector<Path>& shards, std::optional<SampleKind> kind) {
  return std::make_unique<ShardSource>(shards, kind);
}

}  // namespace trireme::media
