// Data sets of pictures, clips and trajectories as users have them: one list of samples, read at random and decoded when asked for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/pose.h"
#include "trireme/data/media/video.h"

namespace trireme::media {

enum class SampleKind {
  kImageLabel,  // a picture and the number of its class
  kImageText,   // a picture and its caption
  kClip,        // frames of a video, with a class where there is one
  kTrajectory,  // frames and what a robot did
};
const char* name(SampleKind kind);

struct Trajectory {
  std::vector<Pose7> states;   // of the frames chosen
  std::vector<Pose7> actions;  // from each of them to the next: one fewer
  std::vector<std::array<double, 6>>
      extrinsics;  // of the camera, of those frames; empty where the file has none
};

struct Sample {
  std::int64_t index = 0;   // in the list
  std::string name;         // of file, or of shard and sample
  Image image;              // kImageLabel, kImageText
  std::int64_t label = -1;  // number of the class; -1: it has none
  std::string text;         // the caption, or what a clip shows; empty where nothing says
  std::string json;         // the text of a .json member or neighbour; empty if there is none
  Video clip;               // kClip, kTrajectory: the frames chosen
  std::vector<std::int64_t> frames;  // their numbers
  Trajectory trajectory;             // kTrajectory
};

// A sample without its pixels.
struct SampleInfo {
  int width = 0;
  int height = 0;
  std::int64_t frames = 1;
  double fps = 0;  // 0: nothing says
  std::int64_t label = -1;
  std::string text;
  std::string json;
};

// Treatment of a sample that cannot be used: corrupt or truncated, without frames or caption, longer than kMaxAspect
// times its width or the reverse.
enum class BadSamples {
  kRefuse,  // ends the reading with its Error
  kSkip,    // is counted and named, and another taken in its place
};
inline constexpr int kMaxAspect = 200;

struct SamplesOptions {
  // All sources are of one kind. Kinds: a shard (.tar; also "name-{000000..000127}.tar" and "name-*.tar"); a directory
  // of shards; a directory CLASS/*.jpg; a directory of pictures, each with NAME.txt or NAME.json; a directory of
  // videos. Also a directory above DROID episodes (trajectory.h5), a list of SSv2 (.json), or a list of lines "path
  // label" (.csv, .txt; also "path::label", or episode directories).
  std::vector<Path> sources;
  std::optional<SampleKind>
      kind{};  // where what is there leaves it open, such as .webp that are clips
  Path
      labels{};  // of an SSv2 list; empty: labels.json or something-something-v2-labels.json in its
                 // directory
  Path videos{};  // of an SSv2 list; empty: videos/ or 20bn-something-something-v2/ in its
                  // directory, or that directory itself
  BadSamples bad = BadSamples::kRefuse;
};

struct BadReport {
  std::int64_t count = 0;            // samples
  std::vector<std::string> reasons;  // of the first kMaxReasons, each beginning with the file
  static constexpr std::size_t kMaxReasons = 100;
};

class SampleSource;

// Any number of threads may read at once; good samples are decoded without any lock (HDF5's library excepted).
class Samples {
 public:
  explicit Samples(SamplesOptions options);
  ~Samples();
  Samples(Samples&&) noexcept;

  SampleKind kind() const;
  std::int64_t size() const;
  // Names of the classes by number; empty where only numbers are known.
  const std::vector<std::string>& classes() const;
  std::string name(std::int64_t i) const;
  // Digest of names, sizes, labels and their order, 16 hex digits: equal if two ranks see the same data set. Contents
  // are not read.
  std::string digest() const;
  // The files that all samples are read from, sorted.
  std::vector<Path> files() const;

  // Without decoding; of a trajectory and a video the file is opened. Throws Error{kData} naming the file.
  SampleInfo info(std::int64_t i) const;
  // Sample i, whatever the policy; of a clip or trajectory the frames of `choose`. Throws Error{kData} naming the file.
  Sample read(std::int64_t i, const ChooseFrames& choose = {}) const;
  // Another picture that sample i names. In a folder it is a file, relative to the directory of the sample's own; in a
  // shard it is a member with the sample's name, a dot and this name. Throws Error{kData} naming it.
  Image picture(std::int64_t i, const std::string& name) const;
  ImageSize picture_size(std::int64_t i, const std::string& name) const;
  // By the policy: nothing for one that is skipped.
  std::optional<Sample> take(std::int64_t i, const ChooseFrames& choose = {}) const;

  // Those skipped until now.
  BadReport bad() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws Error{kData} for sources that are missing, broken as a whole (a truncated tar, a malformed list), empty or of
// different kinds. Throws Error{kUsage} without sources.
Samples open_samples(SamplesOptions options);

}  // namespace trireme::media
