#include "trireme/data/synthetic/arm.h"

#include <algorithm>
#include <cmath>

#include "trireme/data/synthetic/canvas.h"
#include "trireme/data/synthetic/draws.h"

namespace trireme::synthetic {
namespace {

constexpr std::uint64_t kArmStream = 13;
constexpr int kFramesAWay = 8;

Vector minus(const Vector& a, const Vector& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector unit(const Vector& a) {
  const double length = std::sqrt(dot(a, a));
  return {a[0] / length, a[1] / length, a[2] / length};
}

// From `from`, `length` in the direction of that turn and rise.
Vector reach(const Vector& from, double length, double turn, double rise) {
  return {from[0] + length * std::cos(rise) * std::cos(turn),
          from[1] + length * std::cos(rise) * std::sin(turn), from[2] + length * std::sin(rise)};
}

constexpr Vector kShoulder{0, 0, kBaseHeight};
Vector elbow_of(const Joints& joints) { return reach(kShoulder, kUpperArm, joints[0], joints[1]); }
Vector hand_of(const Joints& joints) {
  return reach(elbow_of(joints), kForearm, joints[0], joints[1] + joints[2]);
}

struct Target {
  Joints joints{};
  double gripper = 0;
};

// Where the hand stays over the floor.
Target draw_target(Draws& draws) {
  Target target;
  do {
    target.joints = {draws.between(-0.9, 0.9), draws.between(0.5, 1.35), draws.between(-1.9, -0.5)};
  } while (hand_of(target.joints)[2] < 0.05);
  target.gripper = draws.below(2);
  return target;
}

Target between(const Target& a, const Target& b, double time) {
  const double s = time * time * (3 - 2 * time);  // at rest at both ends
  Target target;
  for (std::size_t k = 0; k < 3; ++k)
    target.joints[k] = a.joints[k] + s * (b.joints[k] - a.joints[k]);
  target.gripper = a.gripper + s * (b.gripper - a.gripper);
  return target;
}

// Looks at the middle of where the arm works.
std::array<double, 6> draw_camera(Draws& draws) {
  const Vector at{draws.between(0.95, 1.1), draws.between(0.6, 0.8), draws.between(0.55, 0.7)};
  const Vector forward = unit(minus({0.25, 0, 0.2}, at));
  const Vector right = unit(cross(forward, {0, 0, 1}));
  const Vector down = cross(forward, right);
  const auto angles = media::angles_of({right[0], down[0], forward[0], right[1], down[1],
                                        forward[1], right[2], down[2], forward[2]});
  return {at[0], at[1], at[2], angles[0], angles[1], angles[2]};
}

class Picture {
 public:
  Picture(const Episode& episode, int width, int height)
      : camera_(episode.camera), image_(width, height) {
    fill(image_, {120, 140, 160}, {170, 160, 145});
  }

  // `width` in metres.
  void line(const Vector& from, const Vector& to, double width, const Colour& colour) {
    const Seen a = seen(from), b = seen(to);
    const double pixels = width * focal() * 2 / (a.depth + b.depth);
    draw_line(image_, {a.x, a.y}, {b.x, b.y}, std::max(1.5, pixels), colour);
  }
  void ball(const Vector& at, double radius, const Colour& colour) {
    const Seen where = seen(at);
    draw_shape(image_, Shape::kCircle, {where.x, where.y},
               std::max(1.0, radius * focal() / where.depth), colour);
  }
  media::Image take() { return std::move(image_); }

 private:
  Seen seen(const Vector& point) const {
    return project(point, camera_, image_.width, image_.height);
  }
  double focal() const { return image_.width; }

  const std::array<double, 6>& camera_;
  media::Image image_;
};

void draw_floor(Picture& picture) {
  constexpr Colour kLines{140, 132, 120};
  for (int k = -2; k <= 4; ++k) {
    picture.line({0.2 * k, -0.6, 0}, {0.2 * k, 0.6, 0}, 0.004, kLines);
    if (k <= 3) picture.line({-0.4, 0.2 * k, 0}, {0.8, 0.2 * k, 0}, 0.004, kLines);
  }
}

// Two fingers, as far apart as the gripper is open.
void draw_fingers(Picture& picture, const Joints& joints, double gripper) {
  const Vector hand = hand_of(joints);
  const double turn = joints[0], rise = joints[1] + joints[2];
  const Vector side{-std::sin(turn), std::cos(turn), 0};
  const double half = 0.012 + 0.03 * (1 - gripper);
  for (const double sign : {-1.0, 1.0}) {
    const Vector root{hand[0] + sign * half * side[0], hand[1] + sign * half * side[1], hand[2]};
    picture.line(hand, root, 0.02, {60, 60, 60});
    picture.line(root, reach(root, 0.06, turn, rise), 0.018, {40, 40, 40});
  }
}

}  // namespace

media::Pose7 forward_kinematics(const Joints& joints, double gripper) {
  const Vector hand = hand_of(joints);
  return {hand[0], hand[1], hand[2], 0, -(joints[1] + joints[2]), joints[0], gripper};
}

Episode make_episode(const ArmOptions& options, Split split, std::int64_t i) {
  Draws draws{kArmStream, options.common.seed, static_cast<std::uint64_t>(split),
              static_cast<std::uint64_t>(i)};
  Episode episode;
  episode.camera = draw_camera(draws);
  Target from = draw_target(draws), to = draw_target(draws);
  for (int frame = 0; frame < options.frames; ++frame) {
    if (frame > 0 && frame % kFramesAWay == 0) {
      from = to;
      to = draw_target(draws);
    }
    const Target now = between(from, to, static_cast<double>(frame % kFramesAWay) / kFramesAWay);
    episode.joints.push_back(now.joints);
    episode.states.push_back(forward_kinematics(now.joints, now.gripper));
  }
  return episode;
}

Seen project(const Vector& point, const std::array<double, 6>& camera, int width, int height) {
  const media::Rotation axes = media::rotation_of({camera[3], camera[4], camera[5]});
  const Vector from = minus(point, {camera[0], camera[1], camera[2]});
  const auto along = [&](std::size_t axis) {
    return dot(from, {axes[axis], axes[3 + axis], axes[6 + axis]});
  };
  const double depth = along(2), focal = width;
  return {width / 2.0 + focal * along(0) / depth, height / 2.0 + focal * along(1) / depth, depth};
}

media::Image draw_arm(const Episode& episode, int width, int height, std::size_t frame) {
  const Joints& joints = episode.joints[frame];
  const Vector elbow = elbow_of(joints), hand = hand_of(joints);
  Picture picture(episode, width, height);
  draw_floor(picture);
  picture.line({0, 0, 0}, kShoulder, 0.12, {70, 70, 80});
  picture.line(kShoulder, elbow, 0.07, {225, 120, 40});
  picture.ball(kShoulder, 0.05, {50, 50, 55});
  picture.line(elbow, hand, 0.05, {240, 190, 60});
  picture.ball(elbow, 0.042, {50, 50, 55});
  draw_fingers(picture, joints, episode.states[frame][6]);
  return picture.take();
}

}  // namespace trireme::synthetic
