// A user's data set as training sees it: what is trained on, and what is held out.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/data/media/samples.h"

namespace trireme::media {

struct Part {
  std::shared_ptr<const Samples> samples;
  std::vector<std::int64_t> numbers;  // of its samples in that list, ascending
};

struct Split {
  Part train;
  Part held_out;       // may be empty
  std::string digest;  // of both lists
};

// Kind for a value of data.source: images, pairs, clips or trajectories.
SampleKind kind_of(std::string_view source);

// The parts that open_split divides a directory by, training first; of anything else the path itself.
std::vector<Path> parts_of(const Path& path);

// A directory with parts of both names is divided by them: train/ and val/ (or validation/), train-*.tar, train.json or
// train.csv, and the same for val or validation. Elsewhere a sample is held out if the hash of its number falls into
// the fraction. At least one sample is held out, and at least one is trained on. A `validation` of 1 and more is a
// number of samples instead (base/held_out.h): those with the lowest hashes, of the held-out part if there is one. With
// 0 nothing is held out. Throws as open_samples, Error{kData} for another kind, for parts of different classes and for
// too few samples.
Split open_split(std::string_view source, const Path& path, double validation);

// Several data sets, each divided by itself.
struct Splits {
  std::vector<Split> sets;
  std::string digest;                // of all; of one data set its own
  std::vector<std::string> classes;  // their names, where all data sets have the same; else empty
  bool same_classes = true;
};
Splits open_splits(std::string_view source, const std::vector<Path>& paths, double validation);

}  // namespace trireme::media
