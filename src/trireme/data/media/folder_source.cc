// Samples that are files of a directory.
#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/data/media/sample_source.h"

namespace trireme::media {
namespace {

namespace fs = std::filesystem;

struct PictureFile {
  std::string name;  // below the folder
  std::int64_t label = -1;
};

// Regular files below, by name; hidden ones and links to directories left out.
std::vector<std::string> names_below(const Path& folder) {
  std::vector<std::string> names;
  std::error_code cause;
  fs::recursive_directory_iterator at(folder, cause), end;
  for (; !cause && at != end; at.increment(cause)) {
    const bool hidden = at->path().filename().string().starts_with('.');
    if (hidden && at->is_directory()) at.disable_recursion_pending();
    if (!hidden && at->is_regular_file())
      names.push_back(at->path().lexically_relative(folder).generic_string());
  }
  if (cause) fail(ErrorKind::kData, "{}: {}", folder.string(), cause.message());
  std::sort(names.begin(), names.end());
  return names;
}

// The first directory of a name; empty for a file directly in the folder.
std::string class_of(const std::string& name) {
  const std::size_t slash = name.find('/');
  return slash == name.npos ? std::string() : name.substr(0, slash);
}

// Classes in the order of their names.
std::vector<std::string> classes_of(const std::vector<std::string>& names) {
  std::vector<std::string> classes;
  for (const std::string& name : names)
    if (std::string each = class_of(name); !each.empty()) classes.push_back(std::move(each));
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

std::int64_t number_of(const std::vector<std::string>& classes, const std::string& name) {
  const std::string own = class_of(name);
  if (own.empty()) return -1;
  return std::lower_bound(classes.begin(), classes.end(), own) - classes.begin();
}

std::string read_beside(const Path& path, const char* ending) {
  Path beside = path;
  beside.replace_extension(ending);
  std::error_code ignored;
  return fs::exists(beside, ignored) ? read_file(beside) : std::string();
}

class PictureSource : public SampleSource {
 public:
  PictureSource(Path folder, const std::vector<std::string>& names, SampleKind kind)
      : folder_(std::move(folder)), kind_(kind) {
    if (kind == SampleKind::kImageLabel) classes_ = classes_of(names);
    for (const std::string& name : names) {
      files_.push_back({name, number_of(classes_, name)});
      if (kind == SampleKind::kImageLabel && files_.back().label < 0)
        fail(ErrorKind::kData,
             "{}: a picture in no class; its class is the directory that it is in",
             (folder_ / name).string());
    }
  }

  SampleKind kind() const override { return kind_; }
  std::size_t size() const override { return files_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::string name(std::size_t i) const override { return path(i).string(); }
  std::string identity(std::size_t i) const override {
    std::error_code ignored;
    return fmt::format("{}\n{}", files_[i].name, fs::file_size(path(i), ignored));
  }
  void add_files(std::vector<Path>& files) const override {
    for (std::size_t i = 0; i < size(); ++i) {
      files.push_back(path(i));
      if (kind_ != SampleKind::kImageText) continue;
      for (const char* ending : {".json", ".txt"})
        files.push_back(path(i).replace_extension(ending));
    }
  }
  SampleInfo info(std::size_t i) const override {
    SampleInfo info;
    take_words(i, info);
    const MappedFile file(path(i));
    const ImageSize size = checked_size(file.bytes(), name(i));
    info.width = size.width;
    info.height = size.height;
    return info;
  }
  Sample read(std::size_t i, const ChooseFrames&) const override {
    Sample sample;
    take_words(i, sample);
    const MappedFile file(path(i));
    sample.image = checked_image(file.bytes(), name(i));
    return sample;
  }
  void with_picture(std::size_t i, const std::string& picture,
                    const UsePicture& use) const override {
    const Path below = (Path(files_[i].name).parent_path() / picture).lexically_normal();
    if (below.empty() || below.is_absolute() || *below.begin() == "..")
      fail(
          ErrorKind::kData,
          "{}: \"images\" in its .json names {}, which is outside of the data set; put the picture "
          "below {} and name it from the directory of the .json",
          name(i), picture, folder_.string());
    const Path other = folder_ / below;
    if (!fs::is_regular_file(other))
      fail(ErrorKind::kData, "{}: \"images\" in its .json names {}, which is not a file", name(i),
           other.string());
    use(MappedFile(other).bytes(), fmt::format("{}: {}", name(i), other.string()));
  }

 private:
  Path path(std::size_t i) const { return folder_ / files_[i].name; }

  template <typename To>
  void take_words(std::size_t i, To& to) const {
    to.label = files_[i].label;
    if (kind_ != SampleKind::kImageText) return;
    to.json = read_beside(path(i), ".json");
    to.text = caption_of(read_beside(path(i), ".txt"), to.json, name(i));
  }

  Path folder_;
  SampleKind kind_;
  std::vector<PictureFile> files_;
  std::vector<std::string> classes_;
};

class ClipSource : public SampleSource {
 public:
  ClipSource(std::vector<ClipFile> clips, std::vector<std::string> classes)
      : clips_(std::move(clips)), classes_(std::move(classes)) {}

  SampleKind kind() const override { return SampleKind::kClip; }
  std::size_t size() const override { return clips_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::string name(std::size_t i) const override {
    return clips_[i].path.empty() ? clips_[i].name : clips_[i].path.string();
  }
  std::string identity(std::size_t i) const override {
    const ClipFile& clip = clips_[i];
    std::error_code ignored;
    return fmt::format("{}\n{}\n{}\n{}", clip.name, fs::file_size(clip.path, ignored), clip.label,
                       clip.text);
  }
  void add_files(std::vector<Path>& files) const override {
    for (const ClipFile& clip : clips_)
      if (!clip.path.empty()) files.push_back(clip.path);
  }
  SampleInfo info(std::size_t i) const override {
    const MappedFile file(need(i));
    const VideoInfo video = video_info(file.bytes(), name(i));
    check_aspect({video.width, video.height}, name(i));
    return {.width = video.width,
            .height = video.height,
            .frames = video.frames,
            .fps = video.fps,
            .label = clips_[i].label,
            .text = clips_[i].text,
            .json = {}};
  }
  Sample read(std::size_t i, const ChooseFrames& choose) const override {
    Sample sample;
    sample.label = clips_[i].label;
    sample.text = clips_[i].text;
    const MappedFile file(need(i));
    read_clip(file.bytes(), name(i), choose, sample);
    return sample;
  }

 private:
  const Path& need(std::size_t i) const {
    if (clips_[i].path.empty()) fail(ErrorKind::kData, "{}: no such video", clips_[i].name);
    return clips_[i].path;
  }

  std::vector<ClipFile> clips_;
  std::vector<std::string> classes_;
};

bool has_words_beside(const Path& picture) {
  std::error_code ignored;
  return fs::exists(Path(picture).replace_extension(".txt"), ignored) ||
         fs::exists(Path(picture).replace_extension(".json"), ignored);
}

SourcePtr open_clip_folder(const Path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> classes = classes_of(names);
  std::vector<ClipFile> clips;
  for (const std::string& name : names)
    clips.push_back({.path = folder / name,
                     .name = name,
                     .label = number_of(classes, name),
                     .text = class_of(name)});
  return open_clips(std::move(clips), std::move(classes));
}

}  // namespace

SourcePtr open_clips(std::vector<ClipFile> clips, std::vector<std::string> classes) {
  return std::make_unique<ClipSource>(std::move(clips), std::move(classes));
}

SourcePtr open_folder(const Path& folder, std::optional<SampleKind> kind) {
  std::vector<std::string> pictures, videos;
  for (const std::string& name : names_below(folder)) {
    const bool clip = kind == SampleKind::kClip && Path(name).extension() == ".webp";
    if (clip || is_video_name(name))
      videos.push_back(name);
    else if (is_picture_name(name))
      pictures.push_back(name);
  }
  if (kind == SampleKind::kClip)  // pictures in a directory of videos are not samples
    return open_clip_folder(folder, videos.empty() ? pictures : videos);
  if (!kind && pictures.empty() && !videos.empty()) return open_clip_folder(folder, videos);
  if (pictures.empty())
    fail(ErrorKind::kData, "{}: no pictures, videos, shards or trajectories in it",
         folder.string());
  if (!kind) {
    const bool words = class_of(pictures[0]).empty() || has_words_beside(folder / pictures[0]);
    kind = words ? SampleKind::kImageText : SampleKind::kImageLabel;
  }
  if (kind == SampleKind::kTrajectory)
    fail(ErrorKind::kData, "{}: no trajectory.h5 below it", folder.string());
  return std::make_unique<PictureSource>(folder, pictures, *kind);
}

}  // namespace trireme::media
