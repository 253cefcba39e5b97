#include "trireme/data/media/pose.h"

#include <algorithm>
#include <cmath>

namespace trireme::media {
namespace {

// a b^T.
Rotation times_transposed(const Rotation& a, const Rotation& b) {
  Rotation product{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 3; ++k) product[3 * i + j] += a[3 * i + k] * b[3 * j + k];
  return product;
}

std::array<double, 3> angles_in(const Pose7& pose) { return {pose[3], pose[4], pose[5]}; }

}  // namespace

Rotation rotation_of(const std::array<double, 3>& angles) {
  const double sa = std::sin(angles[0]), ca = std::cos(angles[0]);
  const double sb = std::sin(angles[1]), cb = std::cos(angles[1]);
  const double sc = std::sin(angles[2]), cc = std::cos(angles[2]);
  return {cc * cb,
          cc * sb * sa - sc * ca,
          cc * sb * ca + sc * sa,
          sc * cb,
          sc * sb * sa + cc * ca,
          sc * sb * ca - cc * sa,
          -sb,
          cb * sa,
          cb * ca};
}

std::array<double, 3> angles_of(const Rotation& r) {
  const double b = std::asin(std::clamp(-r[6], -1.0, 1.0));
  if (std::hypot(r[7], r[8]) < 1e-9) return {0, b, std::atan2(-r[1], r[4])};
  return {std::atan2(r[7], r[8]), b, std::atan2(r[3], r[0])};
}

Pose7 action_between(const Pose7& from, const Pose7& to) {
  Pose7 action;
  for (const std::size_t i : {0, 1, 2, 6}) action[i] = to[i] - from[i];
  const auto angles =
      angles_of(times_transposed(rotation_of(angles_in(to)), rotation_of(angles_in(from))));
  std::copy(angles.begin(), angles.end(), action.begin() + 3);
  return action;
}

std::vector<Pose7> actions_of(const std::vector<Pose7>& states) {
  std::vector<Pose7> actions;
  for (std::size_t i = 1; i < states.size(); ++i)
    actions.push_back(action_between(states[i - 1], states[i]));
  return actions;
}

}  // namespace trireme::media
