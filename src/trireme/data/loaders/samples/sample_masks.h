// The masks of a job's samples, each a function of data.seed and the sample's place in the order of consumption.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/loaders/samples/masks.h"

namespace trireme::loaders {

class SampleMasks {
 public:
  // For a resolved job of family jepa or hvjepa; `key` distinguishes streams of masks.
  SampleMasks(const config::Job& job, std::uint64_t key);

  // Short and long range. They are cut with the others of the sample's group: jepa.cut_batch
  // samples that follow one another, whichever ranks and micro-batches read them.
  std::vector<Mask> of(std::int64_t sample);

 private:
  std::uint64_t key_of(std::int64_t sample, std::uint64_t rule) const;
  void cut_group(std::int64_t group);

  TokenGrid grid_;
  std::array<BlockRule, 2> rules_;
  std::int64_t group_size_;  // 0: masks are not cut
  std::uint64_t key_;
  std::int64_t group_ = -1;                   // whose masks these are
  std::vector<std::vector<Mask>> cut_masks_;  // by rule, then by place in the group
};

}  // namespace trireme::loaders
