// The stages of an H-Net, as the lists of a job's `hnet` give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// One stage, from the outermost. Blocks are one letter each: t attention, T attention and SwiGLU, m Mamba-2, M Mamba-2
// and SwiGLU.
struct HnetStage {
  std::string encoder;  // of the innermost stage all its blocks
  std::string decoder;  // of the innermost stage none
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;      // 0: no block has a feed-forward layer
  std::int64_t window = -1;  // positions that attention looks back; below 0: all
  double ratio = 0;          // what the router aims at; of the innermost stage 0
  double lr = 1;

  bool inner() const { return ratio == 0; }
  bool has(char letter) const {
    return encoder.find(letter) != encoder.npos || decoder.find(letter) != decoder.npos;
  }
  // Additions to the residual stream.
  std::int64_t writes() const;
};

// Two stages or more. Throws Error{kUsage} naming the key that is no list of its kind, does not have an entry for each
// stage, or has sizes that contradict each other.
std::vector<HnetStage> hnet_stages(const Hnet& hnet);

}  // namespace trireme::config
