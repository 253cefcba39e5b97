// Keys of H-Net.
#pragma once

#include <string>

namespace trireme::config {

// H-Net (Hwang et al. 2025): lists have one entry a stage, from the outermost.
struct Hnet {
  std::string layout = "T2,[T3],T2";
  std::string hidden = "128,192";
  std::string heads = "4,4";
  std::string ffn = "256,576";
  std::string ratio = "4";  // bytes, or chunks, of a chunk; of every stage but the innermost
  double ratio_weight = 0.03;
  std::string lr;      // factors of optim.lr; empty: all 1
  std::string window;  // positions that attention looks back, of every stage; empty: all
  bool operator==(const Hnet&) const = default;
};

struct HnetSections {
  Hnet hnet;
  bool operator==(const HnetSections&) const = default;
};

}  // namespace trireme::config
