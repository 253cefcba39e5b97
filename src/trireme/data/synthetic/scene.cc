#include "trireme/data/synthetic/scene.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/synthetic/draws.h"

namespace trireme::synthetic {
namespace {

constexpr std::uint64_t kSceneStream = 11;

const char* size_name(const SceneObject& object) { return object.large ? "large" : "small"; }
const char* colour_name(int colour) { return kColours[colour].name; }
const char* shape_name(Shape shape) { return kShapeNames[static_cast<int>(shape)]; }

// "small red circle".
std::string noun(const SceneObject& object) {
  return fmt::format("{} {} {}", size_name(object), colour_name(object.colour),
                     shape_name(object.shape));
}

// Positions as they are written, so that what is read is what was drawn.
double tenth(double value) { return std::round(value * 10) / 10; }

bool fits(const Scene& scene, const SceneObject& object) {
  for (const SceneObject& other : scene.objects) {
    const double dx = other.centre.x - object.centre.x, dy = other.centre.y - object.centre.y;
    const double apart = other.radius + object.radius + 2;
    if (dx * dx + dy * dy < apart * apart) return false;
    if (std::abs(dx) < 0.04 * scene.width) return false;
    if (noun(other) == noun(object)) return false;
  }
  return true;
}

SceneObject draw_object(const Scene& scene, Draws& draws) {
  const double side = std::min(scene.width, scene.height);
  SceneObject object{.shape = static_cast<Shape>(draws.below(4)),
                     .colour = draws.below(static_cast<int>(std::size(kColours))),
                     .large = draws.below(2) == 1};
  object.radius = tenth(side * (object.large ? 0.17 : 0.10));
  const double margin = object.radius + 1;
  object.centre = {tenth(draws.between(margin, scene.width - margin)),
                   tenth(draws.between(margin, scene.height - margin))};
  return object;
}

Scene draw_scene(const VlmOptions& options, Draws& draws) {
  const int shorter = draws.from(options.min_size, options.max_size);
  const int longer = static_cast<int>(std::lround(shorter * draws.between(1, options.aspect)));
  const bool wide = draws.below(2) == 1;
  Scene scene{.width = wide ? longer : shorter, .height = wide ? shorter : longer, .objects = {}};
  const int wanted = draws.from(1, options.objects);
  for (int tries = 0; tries < 200 && static_cast<int>(scene.objects.size()) < wanted; ++tries)
    if (const SceneObject object = draw_object(scene, draws); fits(scene, object))
      scene.objects.push_back(object);
  std::sort(scene.objects.begin(), scene.objects.end(),
            [](const auto& a, const auto& b) { return a.centre.x < b.centre.x; });
  return scene;
}

std::uint64_t content_of(const Scene& scene) {
  std::string text = fmt::format("{}x{}", scene.width, scene.height);
  for (const SceneObject& object : scene.objects)
    text += fmt::format(" {} {} {}", noun(object), object.centre.x, object.centre.y);
  return hash64(text);
}

// Asks about one scene, each question once.
class Asking {
 public:
  Asking(const Scene& scene, int most)
      : objects_(scene.objects), most_(most), draws_{kSceneStream, content_of(scene)} {}

  std::vector<Question> ask() {
    for (int round = 0; round < 4 && !full(); ++round) {
      count();
      colour();
      relation();
      exist();
      shape();
    }
    return std::move(asked_);
  }

 private:
  bool full() const { return static_cast<int>(asked_.size()) >= most_; }
  const SceneObject& any() { return objects_[draws_.below(static_cast<int>(objects_.size()))]; }
  template <typename Is>
  int number_of(const Is& is) const {
    return static_cast<int>(std::count_if(objects_.begin(), objects_.end(), is));
  }
  void add(const char* kind, std::string question, std::string answer) {
    for (const Question& other : asked_)
      if (other.question == question) return;
    if (!full()) asked_.push_back({kind, std::move(question), std::move(answer)});
  }
  static std::string yes(bool is) { return is ? "yes" : "no"; }

  void count() {
    const int what = draws_.below(3);
    const int drawn = draws_.below(static_cast<int>(std::size(kColours)));
    const int colour = draws_.below(2) ? any().colour : drawn;
    const auto shape = static_cast<Shape>(draws_.below(4));
    if (what == 0)
      return add("count", "how many objects are there?", std::to_string(objects_.size()));
    if (what == 1)
      return add("count", fmt::format("how many {} objects are there?", colour_name(colour)),
                 std::to_string(number_of([&](auto& o) { return o.colour == colour; })));
    add("count", fmt::format("how many {} objects are there?", shape_name(shape)),
        std::to_string(number_of([&](auto& o) { return o.shape == shape; })));
  }
  // "the large circle" is one where no other is both.
  void colour() {
    const SceneObject& one = any();
    if (number_of([&](auto& o) { return o.shape == one.shape && o.large == one.large; }) == 1)
      add("colour", fmt::format("what colour is the {} {}?", size_name(one), shape_name(one.shape)),
          colour_name(one.colour));
  }
  void shape() {
    const SceneObject& one = any();
    if (number_of([&](auto& o) { return o.colour == one.colour && o.large == one.large; }) == 1)
      add("shape",
          fmt::format("what shape is the {} {} object?", size_name(one), colour_name(one.colour)),
          shape_name(one.shape));
  }
  void relation() {
    const SceneObject& one = any();
    const SceneObject& other = any();
    const bool left = draws_.below(2) == 1;
    if (&one == &other) return;
    add("relation",
        fmt::format("is the {} {} of the {}?", noun(one), left ? "left" : "right", noun(other)),
        yes(left == (one.centre.x < other.centre.x)));
  }
  // As often of what is there as of what is drawn.
  void exist() {
    const int colour = draws_.below(static_cast<int>(std::size(kColours)));
    const auto shape = static_cast<Shape>(draws_.below(4));
    const SceneObject& there = any();
    const bool seen = draws_.below(2) == 1;
    const int c = seen ? there.colour : colour;
    const Shape s = seen ? there.shape : shape;
    add("exist", fmt::format("is there a {} {}?", colour_name(c), shape_name(s)),
        yes(number_of([&](auto& o) { return o.colour == c && o.shape == s; }) > 0));
  }

  const std::vector<SceneObject>& objects_;
  int most_;
  Draws draws_;
  std::vector<Question> asked_;
};

void check_options(const VlmOptions& o) {
  if (o.min_size < 16 || o.max_size < o.min_size || o.max_size > 4096)
    fail(ErrorKind::kUsage, "sizes of {} to {} pixels; they are 16 to 4096", o.min_size,
         o.max_size);
  if (!(o.aspect >= 1 && o.aspect <= 16))
    fail(ErrorKind::kUsage, "--aspect {}; it is 1 to 16", o.aspect);
  if (o.objects < 1 || o.objects > 8)
    fail(ErrorKind::kUsage, "--objects {}; 1 to 8 of them fit", o.objects);
  if (o.questions < 0 || o.questions > 20)
    fail(ErrorKind::kUsage, "--questions {}; it is 0 to 20", o.questions);
  if (o.format != "jpg" && o.format != "png")
    fail(ErrorKind::kUsage, "no pictures in format '{}'; there are jpg, png", o.format);
  if (o.shard < 1) fail(ErrorKind::kUsage, "--shard {}; at least one sample", o.shard);
}

}  // namespace

Scene make_scene(const VlmOptions& options, Split split, std::int64_t i) {
  // The content of a scene decides its split: one in eight is held out.
  for (std::uint64_t tries = 0;; ++tries) {
    Draws draws{kSceneStream, options.common.seed, static_cast<std::uint64_t>(split),
                static_cast<std::uint64_t>(i), tries};
    Scene scene = draw_scene(options, draws);
    if ((content_of(scene) % 8 == 0) == (split == Split::kValidation)) return scene;
  }
}

media::Image draw(const Scene& scene) {
  media::Image image(scene.width, scene.height);
  fill(image, {70, 72, 78}, {110, 112, 118});
  for (const SceneObject& object : scene.objects)
    draw_shape(image, object.shape, object.centre, object.radius, kColours[object.colour].colour);
  return image;
}

std::string caption(const Scene& scene) {
  std::string text;
  const std::size_t count = scene.objects.size();
  for (std::size_t i = 0; i < count; ++i)
    text += (i == 0 ? "a " : i + 1 == count ? " and a " : ", a ") + noun(scene.objects[i]);
  return text;
}

std::vector<Question> questions(const Scene& scene, int most) { return Asking(scene, most).ask(); }

std::string scene_json(const Scene& scene, const std::vector<Question>& asked) {
  Json objects = Json::array(), about = Json::array();
  for (const SceneObject& o : scene.objects)
    objects.push_back({{"shape", shape_name(o.shape)},
                       {"colour", colour_name(o.colour)},
                       {"size", size_name(o)},
                       {"x", o.centre.x},
                       {"y", o.centre.y},
                       {"radius", o.radius}});
  for (const Question& q : asked)
    about.push_back({{"kind", q.kind}, {"question", q.question}, {"answer", q.answer}});
  return Json{{"width", scene.width},
              {"height", scene.height},
              {"caption", caption(scene)},
              {"objects", objects},
              {"questions", about}}
      .dump();
}

void make_vlm(const VlmOptions& options) {
  check_options(options);
  Writing writing(options.common, validation_of(options.common));
  for (const Split split : kSplits) {
    Shards shards(writing.path(), split, options.shard);
    for (std::int64_t i = 0; i < writing.count(split); ++i) {
      const Scene scene = make_scene(options, split, i);
      const media::Image image = draw(scene);
      const std::string key = sample_name(split, i);
      media::TarWriter& tar = shards.at(i);
      tar.add(key + "." + options.format,
              options.format == "jpg" ? media::encode_jpeg(image, 95) : media::encode_png(image));
      tar.add(key + ".txt", caption(scene));
      tar.add(key + ".json", scene_json(scene, questions(scene, options.questions)));
      writing.step();
    }
    shards.finish();
  }
  writing.publish();
}

}  // namespace trireme::synthetic
