// The same part of several data sets as one list of samples.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/data/media/split.h"

namespace trireme::loaders {

class Parts {
 public:
  explicit Parts(std::vector<media::Part> parts);

  std::int64_t size() const { return ends_.back(); }
  // Samples of each data set.
  std::vector<std::int64_t> sizes() const;

  struct Place {
    const media::Samples* samples;
    std::int64_t number;  // within them
    std::int64_t set;     // which data set they are, from 0
  };
  Place at(std::int64_t index) const;
  // Samples of the data set that `index` lies in, and the tried-th of these from it on; their first one follows their last.
  std::int64_t size_around(std::int64_t index) const;
  std::int64_t next(std::int64_t index, std::int64_t tried) const;

 private:
  std::size_t set_of(std::int64_t index) const;
  std::int64_t begin(std::size_t set) const { return set == 0 ? 0 : ends_[set - 1]; }

  std::vector<media::Part> parts_;
  std::vector<std::int64_t> ends_;
};

}  // namespace trireme::loaders
