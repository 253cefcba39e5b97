// make_arm of synth.h.
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/media/hdf5.h"
#include "trireme/data/synthetic/arm.h"

namespace trireme::synthetic {
namespace {

constexpr char kSerial[] = "10000001";  // of the camera

template <typename Row>
void append_columns(media::Hdf5Array& array, const Row& row, std::size_t from, std::size_t to) {
  array.values.insert(array.values.end(), row.begin() + static_cast<std::ptrdiff_t>(from),
                      row.begin() + static_cast<std::ptrdiff_t>(to));
}

// [T, columns], or [T] of one column.
template <typename Rows>
media::Hdf5Array columns(const Rows& rows, std::size_t from, std::size_t to) {
  media::Hdf5Array array{.shape = {static_cast<std::int64_t>(rows.size())}, .values = {}};
  if (to - from > 1) array.shape.push_back(static_cast<std::int64_t>(to - from));
  for (const auto& row : rows) append_columns(array, row, from, to);
  return array;
}

// What is asked of the arm in each frame is where it is in the next; in the last, to stay.
std::vector<media::Pose7> asked(const std::vector<media::Pose7>& states) {
  std::vector<media::Pose7> next(states.begin() + 1, states.end());
  next.push_back(states.back());
  return next;
}

std::vector<media::Pose7> with_last(std::vector<media::Pose7> actions) {
  actions.push_back({});
  return actions;
}

std::map<std::string, media::Hdf5Array> trajectory(const Episode& episode) {
  const std::vector<media::Pose7> targets = asked(episode.states);
  const std::vector<std::array<double, 6>> camera(episode.states.size(), episode.camera);
  return {{"observation/robot_state/cartesian_position", columns(episode.states, 0, 6)},
          {"observation/robot_state/gripper_position", columns(episode.states, 6, 7)},
          {"observation/robot_state/joint_positions", columns(episode.joints, 0, 3)},
          {fmt::format("observation/camera_extrinsics/{}_left", kSerial), columns(camera, 0, 6)},
          {"action/cartesian_position", columns(targets, 0, 6)},
          {"action/gripper_position", columns(targets, 6, 7)},
          {"action/difference", columns(with_last(media::actions_of(episode.states)), 0, 7)}};
}

void write_episode(Writing& writing, const ArmOptions& options, Split split, std::int64_t i,
                   const std::string& id) {
  const Episode episode = make_episode(options, split, i);
  const Path folder = writing.path() / ("episode_" + id);
  make_directories(folder / "recordings" / "MP4");
  media::write_hdf5(folder / "trajectory.h5", trajectory(episode));
  std::vector<media::Image> frames;
  for (std::size_t frame = 0; frame < episode.states.size(); ++frame)
    frames.push_back(draw_arm(episode, options.width, options.height, frame));
  const std::string video = fmt::format("recordings/MP4/{}.{}", kSerial, options.format);
  write_clip(folder / video, frames, options.fps);
  const Json metadata{{"uuid", id},
                      {"left_mp4_path", video},
                      {"ext1_cam_serial", kSerial},
                      {"trajectory_length", options.frames},
                      {"fps", options.fps},
                      {"success", true}};
  write_file_synced(folder / ("metadata_" + id + ".json"), metadata.dump(1));
}

}  // namespace

void make_arm(const ArmOptions& options) {
  if (options.format != "mp4" && options.format != "webp")
    fail(ErrorKind::kUsage, "no recordings in format '{}'; there are mp4, webp", options.format);
  check_frames(options.width, options.height, options.frames, options.fps);
  check_clip_format(options.format);
  if (const std::string absent = media::why_no_hdf5(); !absent.empty())
    fail(ErrorKind::kUsage, "trajectories need libhdf5-dev: install it and build again ({})",
         absent);
  Writing writing(options.common, validation_of(options.common));
  for (const Split split : kSplits) {
    std::string list;
    for (std::int64_t i = 0; i < writing.count(split); ++i) {
      const std::string id = sample_name(split, i);
      write_episode(writing, options, split, i, id);
      list += "episode_" + id + "\n";
      writing.step();
    }
    writing.write(std::string(name(split)) + ".csv", list);
  }
  writing.publish();
}

}  // namespace trireme::synthetic
