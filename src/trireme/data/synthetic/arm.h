// An arm of three joints that a camera looks at.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trireme/data/media/image.h"
#include "trireme/data/media/pose.h"
#include "trireme/data/synthetic/make.h"
#include "trireme/data/synthetic/writing.h"

namespace trireme::synthetic {

// Radians: turn of the base, rise of the upper arm over the floor, bend of the elbow against it.
using Joints = std::array<double, 3>;
using Vector = std::array<double, 3>;

inline constexpr double kBaseHeight = 0.10, kUpperArm = 0.34, kForearm = 0.30;  // metres

struct Episode {
  std::vector<Joints> joints;        // one a frame
  std::vector<media::Pose7> states;  // of the hand
  std::array<double, 6> camera{};    // position, and Euler angles of its axes right, down, forward
};

// The hand's place and direction: Euler angles (0, b, c) turn the x axis into the forearm's direction.
media::Pose7 forward_kinematics(const Joints& joints, double gripper);

// Episode i: the joints go smoothly between positions drawn for every eight frames.
Episode make_episode(const ArmOptions& options, Split split, std::int64_t i);

// Where a point is seen: pixels, and metres before the camera. The horizontal field of view is 53 degrees.
struct Seen {
  double x = 0;
  double y = 0;
  double depth = 0;
};
Seen project(const Vector& point, const std::array<double, 6>& camera, int width, int height);

media::Image draw_arm(const Episode& episode, int width, int height, std::size_t frame);

}  // namespace trireme::synthetic
