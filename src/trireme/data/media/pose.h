// Where a robot's hand is, and how it got there.
#pragma once

#include <array>
#include <vector>

namespace trireme::media {

// x y z in metres, Euler angles in radians about the fixed axes x, y and z in turn, gripper from 0 (open) to 1. An
// action: the difference between two states.
using Pose7 = std::array<double, 7>;
using Rotation = std::array<double, 9>;  // rows

// Rz(c) Ry(b) Rx(a) of angles (a, b, c).
Rotation rotation_of(const std::array<double, 3>& angles);
// Its angles again, b in [-pi/2, pi/2]; at the ends a is 0.
std::array<double, 3> angles_of(const Rotation& rotation);

// Position and gripper are differences, angles those of R(to) R(from)^T: the action of V-JEPA 2-AC.
Pose7 action_between(const Pose7& from, const Pose7& to);
// One fewer than states.
std::vector<Pose7> actions_of(const std::vector<Pose7>& states);

}  // namespace trireme::media
