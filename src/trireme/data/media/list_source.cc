// Lists of clips: SSv2's JSON, and lines "path label".
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/media/lists.h"
#include "trireme/data/media/sample_source.h"

namespace trireme::media {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxList = std::size_t{1} << 30;  // bytes

// The first of these that exists in the directory of the list.
Path next_to_list(const Path& list, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names)
    if (const Path path = list.parent_path() / name; fs::exists(path, ignored)) return path;
  return {};
}

// Files of a directory by their names without ending.
std::map<std::string, Path> videos_by_id(const Path& folder) {
  std::map<std::string, Path> videos;
  std::error_code cause;
  fs::directory_iterator at(folder, cause), end;
  for (; !cause && at != end; at.increment(cause))
    if (is_video_name(at->path()) || at->path().extension() == ".webp")
      videos.emplace(at->path().stem().string(), at->path());
  if (cause) fail(ErrorKind::kData, "{}: {}", folder.string(), cause.message());
  return videos;
}

SourcePtr open_ssv2(const Path& list, const SamplesOptions& options) {
  const Path labels =
      !options.labels.empty()
          ? options.labels
          : next_to_list(list, {"labels.json", "something-something-v2-labels.json"});
  std::vector<std::string> classes;
  if (!labels.empty()) classes = parse_ssv2_labels(read_file(labels), labels.string());
  Path folder = !options.videos.empty()
                    ? options.videos
                    : next_to_list(list, {"videos", "20bn-something-something-v2"});
  if (folder.empty()) folder = list.has_parent_path() ? list.parent_path() : Path(".");
  const std::map<std::string, Path> videos = videos_by_id(folder);
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t k = 0; k < classes.size(); ++k)
    numbers[classes[k]] = static_cast<std::int64_t>(k);
  std::vector<ClipFile> clips;
  for (Ssv2Entry& entry : parse_ssv2_list(read_file(list, kMaxList), list.string())) {
    ClipFile clip{.path = {}, .name = entry.id, .text = std::move(entry.label)};
    if (const auto video = videos.find(entry.id); video != videos.end()) clip.path = video->second;
    if (!entry.class_name.empty() && !classes.empty()) {
      const auto number = numbers.find(entry.class_name);
      if (number == numbers.end())
        fail(ErrorKind::kData, "{}: {} is of class '{}', which is not in {}", list.string(),
             entry.id, entry.class_name, labels.string());
      clip.label = number->second;
    }
    clips.push_back(std::move(clip));
  }
  return open_clips(std::move(clips), std::move(classes));
}

SourcePtr open_lines(const Path& list) {
  std::vector<ClipFile> clips;
  std::vector<Path> episodes;
  std::error_code ignored;
  for (ListLine& line : parse_list_lines(read_file(list, kMaxList), list.string())) {
    const Path path =
        Path(line.path).is_absolute() ? Path(line.path) : list.parent_path() / line.path;
    if (fs::exists(path / "trajectory.h5", ignored)) {
      episodes.push_back(path);
      continue;
    }
    clips.push_back({.path = fs::exists(path, ignored) ? path : Path(),
                     .name = std::move(line.path),
                     .label = line.label,
                     .text = {}});
  }
  if (!episodes.empty() && !clips.empty())
    fail(ErrorKind::kData, "{}: lists both episodes and other files, such as {}", list.string(),
         clips[0].name);
  if (!episodes.empty()) return open_episodes(list.parent_path(), std::move(episodes));
  return open_clips(std::move(clips), {});
}

}  // namespace

SourcePtr open_list(const Path& list, const SamplesOptions& options) {
  if (options.kind && *options.kind != SampleKind::kClip &&
      *options.kind != SampleKind::kTrajectory)
    fail(ErrorKind::kUsage, "{}: lists are of clips or episodes", list.string());
  const std::string ending = list.extension().string();
  if (ending == ".json") return open_ssv2(list, options);
  if (ending == ".csv" || ending == ".txt") return open_lines(list);
  fail(ErrorKind::kData, "{}: neither a directory, a .tar, nor a list (.json, .csv, .txt)",
       list.string());
}

}  // namespace trireme::media
