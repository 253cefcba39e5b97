// Source: where the samples of a run come from, whatever they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"

namespace trireme::loaders {

// Samples by their place in the order of consumption, which is a function of the job alone: any rank may ask for any.
class Source {
 public:
  virtual ~Source() = default;

  // Samples of an epoch.
  virtual std::int64_t samples() const = 0;
  // Inputs of the program for samples `first` .. `first + count - 1`, in its order. Throws Error{kData} naming what
  // cannot be read.
  virtual std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const = 0;
  // Divisor of the sum of their losses: the number of tokens with loss, or of samples.
  virtual double weight(std::int64_t first, std::int64_t count) const = 0;
  // File and cause of each requested sample that could not be used and was replaced.
  virtual std::vector<std::string> bad() const { return {}; }
};

struct Sources {
  std::unique_ptr<Source> train;
  std::unique_ptr<Source>
      held_out;        // in one order, of which the last batch may be filled up without weight
  std::string digest;  // of the content
  std::string vocabulary{};    // digest of the tokenizer; empty where samples are no text
  double bytes_per_token = 0;  // of held-out text; 0: unknown, or no text
};

// Which part of a data set Sources::held_out has: what is held out, or what is trained on, in one order and unaugmented.
enum class Evaluated { kHeldOut, kTraining };

// Sources of a resolved job. `dataset` is the directory that the front program has found, empty for synthetic samples;
// training parts of these cannot be evaluated (Error{kUsage}).
Sources open_sources(const config::Job& job, const Path& dataset,
                     Evaluated evaluated = Evaluated::kHeldOut);

}  // namespace trireme::loaders
