// Trajectories of robots in DROID's layout.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/media/hdf5.h"
#include "trireme/data/media/sample_source.h"

namespace trireme::media {
namespace {

namespace fs = std::filesystem;

// What the metadata of an episode names.
struct Recording {
  Path video;
  std::string serial;  // of the camera
  std::string json;    // the metadata
};

std::vector<Path> json_files(const Path& episode) {
  std::vector<Path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(episode))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Recording find_recording(const Path& episode) {
  for (const Path& path : json_files(episode)) {
    std::string text = read_file(path);
    const Json metadata = parse_json(text, path.string());
    if (!metadata.is_object() || !metadata.contains("left_mp4_path")) continue;
    if (!metadata["left_mp4_path"].is_string())
      fail(ErrorKind::kData, "{}: \"left_mp4_path\" is not text", path.string());
    // The rest of the path is that of the machine that recorded it.
    const Path name = Path(metadata["left_mp4_path"].get<std::string>()).filename();
    return {.video = episode / "recordings" / "MP4" / name,
            .serial = name.stem().string(),
            .json = std::move(text)};
  }
  fail(ErrorKind::kData, "{}: no .json with \"left_mp4_path\"", episode.string());
}

// All rows of an episode.
struct Rows {
  std::vector<Pose7> states;
  std::vector<std::array<double, 6>> extrinsics;
};

// [T, columns], or [T] and [T, 1] of one column.
const Hdf5Array& need_rows(const std::optional<Hdf5Array>& array, std::int64_t columns,
                           const std::string& what) {
  if (!array) fail(ErrorKind::kData, "{}: is not there", what);
  const auto& shape = array->shape;
  const bool flat = columns == 1 && shape.size() == 1;
  if (!flat && (shape.size() != 2 || shape[1] != columns))
    fail(ErrorKind::kData, "{}: has another shape than [T, {}]", what, columns);
  for (const double value : array->values)
    if (!(value - value == 0)) fail(ErrorKind::kData, "{}: has a number that is not finite", what);
  return *array;
}

Rows read_rows(const Path& episode, const std::string& serial) {
  const std::string position = "observation/robot_state/cartesian_position";
  const std::string gripper = "observation/robot_state/gripper_position";
  const std::string camera = "observation/camera_extrinsics/" + serial + "_left";
  const Path file = episode / "trajectory.h5";
  const auto arrays = read_hdf5(file, {position, gripper, camera});
  const std::string where = file.string() + ": ";
  const Hdf5Array& hand = need_rows(arrays[0], 6, where + position);
  const Hdf5Array& grip = need_rows(arrays[1], 1, where + gripper);
  const auto count = static_cast<std::size_t>(hand.shape[0]);
  if (grip.values.size() != count)
    fail(ErrorKind::kData, "{}{} rows of {} but {} of {}", where, count, position,
         grip.values.size(), gripper);
  Rows rows;
  rows.states.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    std::copy_n(hand.values.begin() + static_cast<std::ptrdiff_t>(6 * t), 6,
                rows.states[t].begin());
    rows.states[t][6] = grip.values[t];
  }
  if (!arrays[2]) return rows;
  const Hdf5Array& pose = need_rows(arrays[2], 6, where + camera);
  if (pose.values.size() != 6 * count)
    fail(ErrorKind::kData, "{}{} has {} rows, not {}", where, camera, pose.shape[0], count);
  rows.extrinsics.resize(count);
  for (std::size_t t = 0; t < count; ++t)
    std::copy_n(pose.values.begin() + static_cast<std::ptrdiff_t>(6 * t), 6,
                rows.extrinsics[t].begin());
  return rows;
}

class EpisodeSource : public SampleSource {
 public:
  EpisodeSource(Path root, std::vector<Path> episodes)
      : root_(std::move(root)), episodes_(std::move(episodes)) {}

  SampleKind kind() const override { return SampleKind::kTrajectory; }
  std::size_t size() const override { return episodes_.size(); }
  std::string name(std::size_t i) const override { return episodes_[i].string(); }
  std::string identity(std::size_t i) const override {
    std::error_code ignored;
    return fmt::format("{}\n{}", episodes_[i].lexically_relative(root_).generic_string(),
                       fs::file_size(episodes_[i] / "trajectory.h5", ignored));
  }

  void add_files(std::vector<Path>& files) const override {
    for (const Path& episode : episodes_) {
      files.push_back(episode / "trajectory.h5");
      for (Path& metadata : json_files(episode)) files.push_back(std::move(metadata));
      std::error_code none;
      for (fs::directory_iterator at(episode / "recordings" / "MP4", none), end; !none && at != end;
           at.increment(none))
        files.push_back(at->path());
    }
  }

  SampleInfo info(std::size_t i) const override {
    Recording recording = find_recording(episodes_[i]);
    const Rows rows = read_rows(episodes_[i], recording.serial);
    const MappedFile file(recording.video);
    const VideoInfo video = video_info(file.bytes(), recording.video.string());
    check_aspect({video.width, video.height}, recording.video.string());
    return {.width = video.width,
            .height = video.height,
            .frames = std::min(video.frames, static_cast<std::int64_t>(rows.states.size())),
            .fps = video.fps,
            .label = -1,
            .text = {},
            .json = std::move(recording.json)};
  }

  Sample read(std::size_t i, const ChooseFrames& choose) const override {
    Recording recording = find_recording(episodes_[i]);
    const Rows rows = read_rows(episodes_[i], recording.serial);
    if (rows.states.empty())
      fail(ErrorKind::kData, "{}: a trajectory without states", episodes_[i].string());
    const MappedFile file(recording.video);
    Sample sample;
    sample.json = std::move(recording.json);
    // Videos end some frames before or after the states.
    read_clip(file.bytes(), recording.video.string(), choose, sample,
              static_cast<std::int64_t>(rows.states.size()));
    for (const std::int64_t frame : sample.frames) {
      const auto t = static_cast<std::size_t>(frame);
      sample.trajectory.states.push_back(rows.states[t]);
      if (!rows.extrinsics.empty()) sample.trajectory.extrinsics.push_back(rows.extrinsics[t]);
    }
    sample.trajectory.actions = actions_of(sample.trajectory.states);
    return sample;
  }

 private:
  Path root_;
  std::vector<Path> episodes_;
};

}  // namespace

std::vector<Path> find_episodes(const Path& root) {
  std::vector<Path> episodes;
  std::error_code cause;
  fs::recursive_directory_iterator at(root, cause), end;
  for (; !cause && at != end; at.increment(cause))
    if (at->path().filename() == "trajectory.h5") episodes.push_back(at->path().parent_path());
  if (cause) fail(ErrorKind::kData, "{}: {}", root.string(), cause.message());
  std::sort(episodes.begin(), episodes.end());
  return episodes;
}

SourcePtr open_episodes(const Path& root, std::vector<Path> episodes) {
  return std::make_unique<EpisodeSource>(root, std::move(episodes));
}

}  // namespace trireme::media
