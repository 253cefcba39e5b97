// Causal attention alone, shared by the GPUs of a host: ring-flash-attention's benchmark (zhuzilin/ring-flash-attention).
#pragma once

#include <vector>

#include "bench/scoreboard/names.h"
#include "bench/scoreboard/score.h"
#include "trireme/planner/hardware/hardware.h"

namespace trireme::scoreboard {

enum class Sharing {
  kRing,     // tokens in order
  kZigzag,   // each rank has an early and a late part of every document
  kStripes,  // each has every n-th token
  kGathered  // tokens in order; keys and values are gathered first, as Llama 3 does
};
struct Attending {
  Sharing sharing = Sharing::kRing;
  bool varlen = false;  // documents of several lengths, four mixes in turn; else one
  bool backward = false;
  int ranks = 8;
};

// Seconds of an iteration by one layer of Llama 3.1 8B with 8192 tokens a rank, of which one GPU alone takes `alone` seconds for
// as many tokens that see nothing else.
double attending_seconds(const Cluster& cluster, const Attending& run, double alone);

// In times what one GPU does for its own tokens: what the rank with most does, of computing only.
double attending_work(const Attending& run);

std::vector<Case> attention_ring_cases(const Csv& csv);

}  // namespace trireme::scoreboard
