// A user's files as the samples of a run: their order, those that are bad, and what is made of the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/packing.h"
#include "trireme/data/media/split.h"

namespace trireme::loaders {

using Inputs = std::vector<at::Tensor>;

// Each input of all samples, stacked.
Inputs stacked(const std::vector<Inputs>& samples);

// How a family reads samples. All of these may be called by several threads at once.
struct FileReader {
  // Reads one sample, each input without the dim of samples. `draws` depend on seed, epoch and number, so that every
  // layout draws the same; null: held out. Error{kData}: the sample is bad, and another replaces it.
  std::function<Inputs(const media::Samples& samples, std::int64_t number, Draws* draws)> read;
  // Joins several samples, if that is not stacking each input.
  std::function<Inputs(const std::vector<Inputs>& samples)> collate{};
  // Divisor of a sample's losses, summed over its global batch; 1 if not given.
  std::function<double(const Inputs& sample)> weigh{};
  // If given, samples share rows. Its functions return a sample's maximum use of a row in any epoch, without decoding
  // it (Error{kData}: it is bad); the capacity of a row; and several samples, perhaps none, as one row. A bad sample is
  // left out of its row.
  struct Packing {
    std::function<Outline(const media::Samples& samples, std::int64_t number)> outline;
    Outline room;
    std::function<Inputs(const std::vector<Inputs>& samples)> join;
  };
  std::optional<Packing> packing{};
  // Where given, what a sample costs, without decoding it, for vlm.balance.
  std::function<double(const media::Samples& samples, std::int64_t number)> work{};
  // Takes the loss from a sample that fills up the last held-out batch, and its weight; where nothing is given it counts.
  std::function<void(Inputs& sample)> blank{};
  // Where above 1, a held-out sample is as many rows, one a view of it, of which the first has its weight.
  std::int64_t views = 1;
  std::function<Inputs(const media::Samples& samples, std::int64_t number, std::int64_t view)>
      view{};
  // Whether samples have classes, which must then be those of all data sets.
  bool labelled = false;
  std::string vocabulary{};  // digest of their tokenizer, if they have one
};

// data.path of a resolved job whose data.source reads files. Training: each sample once an epoch, in an order of its
// own, or with data.weights drawn by weight, and read ahead by threads. Held out: in the order of their numbers, filled
// up to whole global batches by the first ones. A bad sample is replaced by the next good one of its part; Error{kData}
// if none is good.
Sources open_files(const config::Job& job, const FileReader& reader, Evaluated evaluated);

}  // namespace trireme::loaders
