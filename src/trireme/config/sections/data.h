// Section data of a job, as plain data.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::config {

// Kind of samples.
enum class DataSource {
  kText,
  kChat,
  kPreferences,
  kStripes,
  kSquares,
  kArm,
  kScenes,
  kImages,
  kPairs,
  kClips,
  kTrajectories,
  kWords,
  kAffine,
  kQuadrants,
};

struct Data {
  DataSource source = DataSource::kText;
  std::int64_t samples = 4096;      // samples of an epoch of a synthetic source
  std::string path;                 // empty: the quick start's text
  std::string tokenizer = "bytes";  // "bytes", "characters", "bpe:N" or a tokenizer.json
  std::int64_t seed = 1;
  double validation = 0.1;  // held out (base/held_out.h)
  bool documents = false;   // attention ends where a document begins
  std::string chat{};       // of conversations: a template and its options (config/chat.h)
  std::string weights{};    // of several data sets in path; empty: path is one
  bool antialias = true;    // pixels are averaged where pictures shrink
  bool operator==(const Data&) const = default;
};

}  // namespace trireme::config
