#include "trireme/data/synthetic/clip.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/json.h"
#include "trireme/data/synthetic/draws.h"

namespace trireme::synthetic {
namespace {

constexpr std::uint64_t kClipStream = 12;

// One clip being drawn up. Lengths are shares of the frame's sides; `time` runs from 0 to 1.
class Drawing {
 public:
  Drawing(const VideoOptions& options, Draws& draws) : o_(options), draws_(draws) {}

  Clip make(int motion) {
    clip_.motion = motion;
    const int dark = draws_.from(20, 60);
    clip_.top = grey(dark);
    clip_.bottom = grey(dark + draws_.from(10, 50));
    move(motion);
    if (clip_.order.empty())
      for (std::size_t i = 0; i < clip_.sprites.size(); ++i) clip_.order.push_back(i);
    return std::move(clip_);
  }

 private:
  static Colour grey(int value) {
    const auto v = static_cast<std::uint8_t>(value);
    return {v, v, static_cast<std::uint8_t>(value + 8)};
  }

  void move(int motion) {
    switch (motion) {
      case 0: return straight(-1, 0);
      case 1: return straight(1, 0);
      case 2: return straight(0, -1);
      case 3: return straight(0, 1);
      case 4: return drop();
      case 5: return toss();
      case 6: return pass(true);
      case 7: return pass(false);
      case 8: return pair(true);
      case 9: return pair(false);
      case 10: return grow(1, draws_.between(1.8, 2.4));
      case 11: return grow(draws_.between(1.8, 2.4), 1);
      default: return grow(1, 1);
    }
  }

  // An object that no other looks like, on `path` from 0 to 1, of `size` times a usual radius.
  template <typename Way, typename Size>
  void add(const Way& path, const Size& size) {
    Sprite sprite{.striped = draws_.below(2) == 1};
    do {
      sprite.shape = static_cast<Shape>(draws_.below(4));
      sprite.colour = draws_.below(static_cast<int>(std::size(kColours)));
    } while (!clip_.sprites.empty() && clip_.sprites[0].colour == sprite.colour);
    const double radius = std::min(o_.width, o_.height) * draws_.between(0.09, 0.13);
    for (int frame = 0; frame < o_.frames; ++frame) {
      const double time = static_cast<double>(frame) / (o_.frames - 1);
      const Point at = path(time);
      sprite.track.push_back({at.x * o_.width, at.y * o_.height});
      sprite.radii.push_back(radius * size(time));
    }
    clip_.sprites.push_back(std::move(sprite));
  }
  static double usual(double) { return 1; }

  void straight(int right, int down) {
    const double way = draws_.between(0.35, 0.6);
    const double start = draws_.between(0.15, 0.85 - way), side = draws_.between(0.2, 0.8);
    const bool back = right + down < 0;
    add(
        [&](double time) {
          const double along = start + way * (back ? 1 - time : time);
          return right != 0 ? Point{along, side} : Point{side, along};
        },
        usual);
  }

  // Falls from rest and lies where it lands.
  void drop() {
    const double x = draws_.between(0.2, 0.8), y = draws_.between(0.12, 0.25);
    const double landing = draws_.between(0.55, 0.8);
    add(
        [&](double time) {
          const double fallen = std::min(1.0, time / landing);
          return Point{x, y + (0.86 - y) * fallen * fallen};
        },
        usual);
  }

  void toss() {
    const double x = draws_.between(0.2, 0.8), height = draws_.between(0.45, 0.65);
    add([&](double time) { return Point{x, 0.82 - height * 4 * time * (1 - time)}; }, usual);
  }

  // To a larger object that does not move.
  void pass(bool behind) {
    const double x = draws_.between(0.4, 0.6), y = draws_.between(0.3, 0.7);
    const bool from_left = draws_.below(2) == 1;
    const double start = from_left ? 0.12 : 0.88;
    add(
        [&](double time) {
          return Point{start + (x - start) * std::min(1.0, time / 0.85), y};
        },
        usual);
    add([&](double) { return Point{x, y}; }, [](double) { return 1.9; });
    clip_.order = behind ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{1, 0};
  }

  void pair(bool closer) {
    const double y = draws_.between(0.25, 0.75), far = draws_.between(0.3, 0.36);
    const auto apart = [=](double time) {
      return 0.12 + (far - 0.12) * (closer ? 1 - time : time);
    };
    const double side = draws_.below(2) == 1 ? 1 : -1;
    add([&](double time) { return Point{0.5 - side * apart(time), y}; }, usual);
    add([&](double time) { return Point{0.5 + side * apart(time), y}; }, usual);
  }

  void grow(double from, double to) {
    const Point at{draws_.between(0.35, 0.65), draws_.between(0.35, 0.65)};
    add([&](double) { return at; }, [&](double time) { return from + (to - from) * time; });
  }

  const VideoOptions& o_;
  Draws& draws_;
  Clip clip_;
};

std::string put_in(std::string text, const std::vector<std::string>& objects) {
  constexpr std::string_view kPlace = "[something]";
  for (const std::string& object : objects)
    if (const std::size_t at = text.find(kPlace); at != text.npos)
      text.replace(at, kPlace.size(), object);
  return text;
}

double hundredth(double value) { return std::round(value * 100) / 100; }

Json points(const std::vector<Point>& all) {
  Json list = Json::array();
  for (const Point& point : all) list.push_back({hundredth(point.x), hundredth(point.y)});
  return list;
}

}  // namespace

Clip make_clip(const VideoOptions& options, Split split, std::int64_t i) {
  Draws draws{kClipStream, options.common.seed, static_cast<std::uint64_t>(split),
              static_cast<std::uint64_t>(i)};
  return Drawing(options, draws).make(static_cast<int>(i % kMotions));
}

media::Image draw_frame(const Clip& clip, int width, int height, std::size_t frame) {
  media::Image image(width, height);
  fill(image, clip.top, clip.bottom);
  for (const std::size_t number : clip.order) {
    const Sprite& sprite = clip.sprites[number];
    draw_shape(image, sprite.shape, sprite.track[frame], sprite.radii[frame],
               kColours[sprite.colour].colour, sprite.striped);
  }
  return image;
}

std::vector<std::string> placeholders(const Clip& clip) {
  std::vector<std::string> objects;
  for (const Sprite& sprite : clip.sprites)
    objects.push_back(fmt::format("a {}{} {}", sprite.striped ? "striped " : "",
                                  kColours[sprite.colour].name,
                                  kShapeNames[static_cast<int>(sprite.shape)]));
  return objects;
}

std::string label_text(const Clip& clip) {
  return put_in(kTemplates[clip.motion], placeholders(clip));
}

std::string class_name(int motion) {
  return put_in(kTemplates[motion], {"something", "something"});
}

std::string clip_json(const Clip& clip, const VideoOptions& options) {
  Json objects = Json::array();
  for (std::size_t i = 0; i < clip.sprites.size(); ++i) {
    const Sprite& sprite = clip.sprites[i];
    std::vector<Point> velocities;
    for (std::size_t frame = 0; frame + 1 < sprite.track.size(); ++frame)
      velocities.push_back({sprite.track[frame + 1].x - sprite.track[frame].x,
                            sprite.track[frame + 1].y - sprite.track[frame].y});
    Json radii = Json::array();
    for (const double radius : sprite.radii) radii.push_back(hundredth(radius));
    objects.push_back({{"object", placeholders(clip)[i]},
                       {"positions", points(sprite.track)},
                       {"velocities", points(velocities)},
                       {"radii", radii}});
  }
  return Json{{"label", label_text(clip)}, {"class", clip.motion}, {"width", options.width},
              {"height", options.height},  {"fps", options.fps},   {"frames", options.frames},
              {"objects", objects}}
      .dump();
}

}  // namespace trireme::synthetic
