// Synthetic data sets with exact labels. Sample i depends on the seed and i alone, so equal options give equal bytes
// and a larger count begins with the samples of a smaller one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/base/fs.h"

namespace trireme::synthetic {

// Every kind writes into `out`, which must not exist or be empty, and appears complete or not at all. All throw
// Error{kUsage} for options that cannot be, and where `out` cannot be written.
struct Common {
  Path out;
  std::int64_t count = 1000;     // samples to train with
  std::int64_t validation = -1;  // held-out samples; -1: a tenth of count
  std::uint64_t seed = 1;
  std::function<void(std::int64_t done, std::int64_t of)> progress{};
};

struct TextOptions {
  Common common;
  std::string task = "words";  // words, affine, repeat: text.h
  std::int64_t length = 512;   // bytes of a sample, about
};
// One file, TASK.txt (affine: TASK.bin), which `trireme data prepare` takes; nothing is held out.
void make_text(const TextOptions& options);

struct VlmOptions {
  Common common;
  int min_size = 64;  // of the shorter side, pixels
  int max_size = 64;
  double aspect = 1;           // the longer side is up to so many times as long
  int objects = 4;             // in a scene, at most
  int questions = 6;           // about a scene, at most
  std::string format = "jpg";  // or png
  std::int64_t shard = 1000;   // samples a tar
};
// train-000000.tar, ..., validation-000000.tar, ...: KEY.jpg (or .png), KEY.txt, KEY.json: scene.h.
void make_vlm(const VlmOptions& options);

struct VideoOptions {
  Common common;
  int width = 64;   // even
  int height = 64;  // even
  int frames = 16;
  double fps = 12;
  std::string format = "mp4";  // webp, frames (tars of PNG)
  std::int64_t shard = 200;    // clips a tar
};
// videos/ID.mp4 with train.json, validation.json, labels.json as SSv2 has them and metadata/ID.json; of `frames`
// train-000000.tar, ... with KEY.000.png, ..., KEY.cls, KEY.txt, KEY.json: clip.h.
void make_video(const VideoOptions& options);

struct ArmOptions {
  Common common;
  int width = 128;  // even
  int height = 96;  // even
  int frames = 48;
  double fps = 12;
  std::string format = "mp4";  // or webp
};
// episode_000000/ in DROID's layout: trajectory.h5, metadata_000000.json, recordings/MP4/SERIAL.mp4; train.csv and
// validation.csv list the episodes: arm.h.
void make_arm(const ArmOptions& options);

}  // namespace trireme::synthetic
