// Scenes of coloured shapes, what can be asked about them, and the answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/data/media/image.h"
#include "trireme/data/synthetic/canvas.h"
#include "trireme/data/synthetic/make.h"
#include "trireme/data/synthetic/writing.h"

namespace trireme::synthetic {

struct SceneObject {
  Shape shape = Shape::kCircle;
  int colour = 0;  // of kColours
  bool large = false;
  Point centre;
  double radius = 0;  // pixels
};

// Objects do not touch, differ in shape, colour or size, and are sorted by x, with distances of at least 4% of the
// width.
struct Scene {
  int width = 0;
  int height = 0;
  std::vector<SceneObject> objects;
};

struct Question {
  std::string kind;  // count, exist, colour, shape, relation
  std::string question;
  std::string answer;  // a number, yes, no, a colour or a shape
};

// Sample i; no scene is in both splits.
Scene make_scene(const VlmOptions& options, Split split, std::int64_t i);
media::Image draw(const Scene& scene);
// "a small red circle, a large blue square and a small green cross", from left to right.
std::string caption(const Scene& scene);
// Questions of as many kinds as the scene allows, in words drawn by its content.
std::vector<Question> questions(const Scene& scene, int most);
// Everything above as JSON, positions in pixels.
std::string scene_json(const Scene& scene, const std::vector<Question>& asked);

}  // namespace trireme::synthetic
