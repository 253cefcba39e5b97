#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/harness/needs.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/media/hdf5.h"
#include "trireme/data/media/tar.h"
#include "trireme/data/media/video.h"
#include "trireme/data/synthetic/arm.h"
#include "trireme/data/synthetic/clip.h"
#include "trireme/data/synthetic/make.h"
#include "trireme/data/synthetic/scene.h"
#include "trireme/data/synthetic/text.h"

namespace trireme::synthetic::synth_test {
namespace {

// Every file below, by name.
std::map<std::string, std::string> files_below(const Path& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(root).string()] = read_file(entry.path());
  return files;
}

Common common(const Path& out, std::int64_t count, std::uint64_t seed = 1) {
  return {.out = out, .count = count, .validation = 2, .seed = seed};
}

template <typename Make>
void expect_same_bytes(const Make& make) {
  const harness::ScratchDirectory scratch;
  make(common(scratch / "a", 3));
  make(common(scratch / "b", 3));
  make(common(scratch / "c", 3, 2));
  const auto files = files_below(scratch / "a");
  EXPECT_FALSE(files.empty());
  EXPECT_EQ(files, files_below(scratch / "b"));
  EXPECT_NE(files, files_below(scratch / "c"));
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    EXPECT_EQ(entry.path().filename().string().size(), 1u) << "left behind: " << entry.path();
}

TEST(Synth, EqualSeedsGiveEqualBytes) {
  expect_same_bytes([](const Common& c) { make_vlm({.common = c}); });
  expect_same_bytes([](const Common& c) { make_video({.common = c, .format = "webp"}); });
  expect_same_bytes([](const Common& c) { make_video({.common = c, .format = "frames"}); });
}

TEST(Synth, EqualSeedsGiveEqualVideosAndTrajectories) {
  TRIREME_NEEDS("FFmpeg", media::why_no_ffmpeg());
  TRIREME_NEEDS("HDF5", media::why_no_hdf5());
  expect_same_bytes([](const Common& c) { make_video({.common = c}); });
  expect_same_bytes([](const Common& c) { make_arm({.common = c, .frames = 12}); });
}

TEST(Synth, AUsedDirectoryIsRefused) {
  const harness::ScratchDirectory scratch;
  scratch.write("a/kept", "mine");
  EXPECT_THROW(make_vlm({.common = common(scratch / "a", 1)}), Error);
  EXPECT_EQ(read_file(scratch / "a/kept"), "mine");
  std::filesystem::create_directories(scratch / "empty");
  make_vlm({.common = common(scratch / "empty", 1)});
  EXPECT_TRUE(std::filesystem::exists(scratch / "empty/train-000000.tar"));
}

TEST(Synth, ALargerCountBeginsWithTheSmaller) {
  const harness::ScratchDirectory scratch;
  make_vlm({.common = common(scratch / "few", 2)});
  make_vlm({.common = common(scratch / "many", 5)});
  const media::Shard few(scratch / "few/train-000000.tar"), many(scratch / "many/train-000000.tar");
  for (std::size_t i = 0; i < 2; ++i)
    for (const char* part : {"jpg", "txt", "json"}) {
      const auto a = few.part(i, part), b = many.part(i, part);
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << part;
    }
  make_text({.common = {.out = scratch / "t2", .count = 2, .validation = 0}, .length = 64});
  make_text({.common = {.out = scratch / "t5", .count = 5, .validation = 0}, .length = 64});
  EXPECT_TRUE(read_file(scratch / "t5/words.txt").starts_with(read_file(scratch / "t2/words.txt")));
}

TEST(Synth, TextsAreWhatTheirTasksSay) {
  const auto words = vocabulary(1);
  EXPECT_EQ(words.size(), 32u);
  const std::string text = text_sample("words", 1, 0, 200);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find(' ', at);
    ASSERT_NE(end, text.npos);
    EXPECT_NE(std::find(words.begin(), words.end(), text.substr(at, end - at)), words.end());
    at = end + 1;
  }
  const std::string affine = text_sample("affine", 1, 3, 40);
  const auto byte = [&](std::size_t i) {
    return static_cast<int>(static_cast<unsigned char>(affine[i]));
  };
  bool one = false;
  for (const int a : {3, 5, 7, 11, 13, 17, 19, 23}) {
    bool all = true;
    for (std::size_t i = 1; i < affine.size(); ++i) all &= byte(i) == (a * byte(i - 1) + 1) % 251;
    one |= all;
  }
  EXPECT_TRUE(one);
  const std::string repeat = text_sample("repeat", 1, 0, 10);
  const std::size_t colon = repeat.find(':');
  EXPECT_EQ(repeat, repeat.substr(0, colon) + ":" + repeat.substr(0, colon) + "\n");
  EXPECT_THROW(text_sample("prose", 1, 0, 10), Error);
}

// The answer by the objects, found by reading the question again.
std::string answer_of(const Scene& scene, const std::string& question) {
  const auto noun = [](const SceneObject& o) {
    return std::string(o.large ? "large " : "small ") + kColours[o.colour].name + " " +
           kShapeNames[static_cast<int>(o.shape)];
  };
  const auto count = [&](auto is) {
    return std::count_if(scene.objects.begin(), scene.objects.end(), is);
  };
  const auto has = [&](const std::string& word) { return question.find(word) != question.npos; };
  if (has("how many objects")) return std::to_string(scene.objects.size());
  if (has("how many"))
    return std::to_string(count([&](auto& o) {
      return has(std::string(" ") + kColours[o.colour].name + " objects") ||
             has(std::string(" ") + kShapeNames[static_cast<int>(o.shape)] + " objects");
    }));
  if (has("is there a"))
    return count([&](auto& o) {
      return has(std::string("a ") + kColours[o.colour].name + " " +
                 kShapeNames[static_cast<int>(o.shape)]);
    })
               ? "yes"
               : "no";
  for (const SceneObject& o : scene.objects) {
    const std::string size = o.large ? "large " : "small ";
    if (has("what colour is the " + size + kShapeNames[static_cast<int>(o.shape)] + "?"))
      return kColours[o.colour].name;
    if (has("what shape is the " + size + kColours[o.colour].name + " object?"))
      return kShapeNames[static_cast<int>(o.shape)];
    for (const SceneObject& other : scene.objects)
      for (const bool left : {true, false})
        if (question ==
            "is the " + noun(o) + (left ? " left" : " right") + " of the " + noun(other) + "?")
          return left == (o.centre.x < other.centre.x) ? "yes" : "no";
  }
  return "no such question";
}

TEST(Scenes, PicturesShowWhatTheLabelsSay) {
  const VlmOptions options{.min_size = 48, .max_size = 96, .aspect = 2};
  std::map<std::string, int> kinds, answers;
  for (std::int64_t i = 0; i < 200; ++i) {
    const Scene scene = make_scene(options, Split::kTrain, i);
    const media::Image image = draw(scene);
    EXPECT_LE(std::max(scene.width, scene.height), 2 * std::min(scene.width, scene.height));
    for (const SceneObject& o : scene.objects) {
      const Colour& colour = kColours[o.colour].colour;
      const auto* pixel = image.pixel(static_cast<int>(o.centre.x), static_cast<int>(o.centre.y));
      EXPECT_TRUE(std::equal(colour.begin(), colour.end(), pixel)) << i;
    }
    for (const Question& q : questions(scene, 8)) {
      EXPECT_EQ(q.answer, answer_of(scene, q.question)) << q.question;
      ++kinds[q.kind];
      ++answers[q.answer];
    }
  }
  for (const char* kind : {"count", "exist", "colour", "shape", "relation"})
    EXPECT_GT(kinds[kind], 100) << kind;
  EXPECT_GT(answers["yes"], answers["no"] / 3);
  EXPECT_GT(answers["no"], answers["yes"] / 3);
}

TEST(Scenes, NoneIsInBothSplits) {
  const VlmOptions options;
  std::map<std::string, int> train;
  for (std::int64_t i = 0; i < 500; ++i)
    ++train[scene_json(make_scene(options, Split::kTrain, i), {})];
  for (std::int64_t i = 0; i < 100; ++i)
    EXPECT_FALSE(train.contains(scene_json(make_scene(options, Split::kValidation, i), {})));
  EXPECT_GT(train.size(), 495u);
}

TEST(Clips, TracksDoWhatTheLabelsSay) {
  const VideoOptions options;
  for (std::int64_t i = 0; i < 10 * kMotions; ++i) {
    const Clip clip = make_clip(options, Split::kTrain, i);
    const Sprite& first = clip.sprites[0];
    const Point from = first.track.front(), to = first.track.back();
    const double right = to.x - from.x, down = to.y - from.y;
    const auto gap = [&](std::size_t frame) {
      return std::abs(clip.sprites[0].track[frame].x - clip.sprites[1].track[frame].x);
    };
    const std::size_t last = first.track.size() - 1;
    switch (clip.motion) {
      case 0: EXPECT_LT(right, -20); break;
      case 1: EXPECT_GT(right, 20); break;
      case 2: EXPECT_LT(down, -20); break;
      case 3: EXPECT_GT(down, 20); break;
      case 4: {  // faster and faster
        EXPECT_GT(down, 20);
        EXPECT_GT(first.track[5].y - first.track[4].y, first.track[2].y - first.track[1].y);
        break;
      }
      case 5: EXPECT_LT(first.track[last / 2].y, std::min(from.y, to.y) - 20); break;
      case 6:
      case 7: EXPECT_EQ(clip.order.back(), clip.motion == 6 ? 1u : 0u); break;
      case 8: EXPECT_GT(gap(0), gap(last) + 10); break;
      case 9: EXPECT_LT(gap(0), gap(last) - 10); break;
      case 10: EXPECT_GT(first.radii.back(), 1.5 * first.radii.front()); break;
      case 11: EXPECT_LT(first.radii.back(), first.radii.front() / 1.5); break;
      default:
        EXPECT_EQ(right, 0);
        EXPECT_EQ(draw_frame(clip, 64, 64, 0), draw_frame(clip, 64, 64, last));
    }
  }
}

TEST(Clips, WhatPassesBehindIsHidden) {
  const VideoOptions options;
  // Whether the last frame looks as if the first object were not there.
  const auto hidden = [&](std::int64_t i) {
    Clip clip = make_clip(options, Split::kTrain, i);
    const std::size_t last = clip.sprites[0].track.size() - 1;
    const media::Image both = draw_frame(clip, 64, 64, last);
    std::erase(clip.order, 0u);
    return both == draw_frame(clip, 64, 64, last);
  };
  int behind = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    behind += hidden(6 + i * kMotions);
    EXPECT_FALSE(hidden(7 + i * kMotions));
  }
  EXPECT_GT(behind, 5);  // a cross hides less than a square
}

TEST(Clips, ListsAreThoseOfSsv2) {
  const harness::ScratchDirectory scratch;
  make_video({.common = common(scratch / "v", kMotions), .format = "webp"});
  const Json labels = parse_json(read_file(scratch / "v/labels.json"), "labels");
  const Json list = parse_json(read_file(scratch / "v/train.json"), "train");
  EXPECT_EQ(labels.size(), static_cast<std::size_t>(kMotions));
  ASSERT_EQ(list.size(), static_cast<std::size_t>(kMotions));
  for (const Json& entry : list) {
    std::string name = entry["template"];
    for (std::size_t at; (at = name.find_first_of("[]")) != name.npos;) name.erase(at, 1);
    EXPECT_TRUE(labels.contains(name)) << name;
    EXPECT_EQ(entry["label"].get<std::string>().find('['), std::string::npos);
  }
  const media::Video video = media::decode_video(scratch / "v/videos/000003.webp");
  EXPECT_EQ(video.frames.size(), 16u);
  EXPECT_EQ(video.frames[7],
            draw_frame(make_clip({.format = "webp"}, Split::kTrain, 3), 64, 64, 7));
}

TEST(Arm, StatesFollowFromJoints) {
  const media::Pose7 straight = forward_kinematics({0, 0, 0}, 1);
  EXPECT_NEAR(straight[0], kUpperArm + kForearm, 1e-12);
  EXPECT_NEAR(straight[2], kBaseHeight, 1e-12);
  const Joints joints{0.5, 1.0, -1.2};
  const media::Pose7 hand = forward_kinematics(joints, 0);
  // The hand's x axis points along the forearm.
  const media::Rotation r = media::rotation_of({hand[3], hand[4], hand[5]});
  EXPECT_NEAR(r[0], std::cos(-0.2) * std::cos(0.5), 1e-12);
  EXPECT_NEAR(r[3], std::cos(-0.2) * std::sin(0.5), 1e-12);
  EXPECT_NEAR(r[6], std::sin(-0.2), 1e-12);
}

TEST(Arm, ActionsLeadFromStateToState) {
  const Episode episode = make_episode({}, Split::kTrain, 0);
  const auto actions = media::actions_of(episode.states);
  ASSERT_EQ(actions.size() + 1, episode.states.size());
  for (std::size_t t = 0; t < actions.size(); ++t) {
    const auto &a = actions[t], &from = episode.states[t], &to = episode.states[t + 1];
    const auto turned = media::rotation_of({a[3], a[4], a[5]});
    const auto before = media::rotation_of({from[3], from[4], from[5]});
    const auto after = media::rotation_of({to[3], to[4], to[5]});
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        double product = 0;
        for (std::size_t k = 0; k < 3; ++k) product += turned[3 * i + k] * before[3 * k + j];
        EXPECT_NEAR(product, after[3 * i + j], 1e-12);
      }
    EXPECT_NEAR(from[0] + a[0], to[0], 1e-12);
  }
}

TEST(Arm, TheHandIsSeenWhereItIs) {
  const ArmOptions options;
  for (std::int64_t i = 0; i < 20; ++i) {
    const Episode episode = make_episode(options, Split::kTrain, i);
    const media::Pose7& hand = episode.states[9];
    const Seen seen = project({hand[0], hand[1], hand[2]}, episode.camera, 128, 96);
    EXPECT_GT(seen.depth, 0.2);
    EXPECT_GT(seen.x, 0);
    EXPECT_LT(seen.x, 128);
    EXPECT_GT(seen.y, 0);
    EXPECT_LT(seen.y, 96);
    EXPECT_NE(draw_arm(episode, 128, 96, 0), draw_arm(episode, 128, 96, 9));
  }
}

}  // namespace
}  // namespace trireme::synthetic::synth_test
