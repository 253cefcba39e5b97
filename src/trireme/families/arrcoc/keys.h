// Keys of regions of images.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::config {

// Regions of an image get as many tokens as they are worth (docs/models_arrcoc.md).
enum class Allocation { kLearned, kUniform, kRandom };
enum class RegionDecoder { kLlama, kGpt };

struct Arrcoc {
  std::int64_t grid = 4;   // regions a side
  std::int64_t least = 8;  // tokens a side of a region
  std::int64_t most = 20;
  std::int64_t budget = 0;  // tokens of an image; 0: 2.25 times the least
  bool gate = true;         // gradients reach the scorers
  bool explore = true;
  Allocation allocation = Allocation::kLearned;  // arrcoc.scorers=uniform and random
  std::string channels = "all";                  // of the texture
  std::string scorers = "information,salience,coupling";
  std::int64_t hidden = 128;  // of scorers
  std::int64_t coupling = 0;  // width of what regions and questions are compared in; 0: hidden / 2
  std::int64_t balancer = 0;  // width; 0: hidden
  RegionDecoder decoder = RegionDecoder::kLlama;
  bool learn_budget = false;  // tension sets how much of it is used: arrcoc.scorers=..,budget
  double budget_weight = 0;   // of the share of it that is used, in the loss
  double entropy_weight = 0;  // of the allocation's entropy, which is gained
  bool operator==(const Arrcoc&) const = default;
};

struct ArrcocSections {
  Arrcoc arrcoc;
  bool operator==(const ArrcocSections&) const = default;
};

}  // namespace trireme::config
