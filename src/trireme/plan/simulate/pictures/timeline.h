// Timeline: when the lines of one rank ran and what memory they found. Forecast and measurement look the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate::pictures {

struct Timeline {
  int rank = 0;
  std::string label{};  // "stage 2", "rank 5 measured"
  std::vector<LineTime>
      times{};  // of every line of the rank's list, seconds from the start of the step
  std::vector<std::int64_t> live{};  // bytes while each line runs; empty: not known
};

// Timelines of the first rank of every list.
std::vector<Timeline> timelines(const plan::PlanSet& plan, const Forecast& forecast);

// The end of the last line.
double duration(const std::vector<Timeline>& timelines);

enum class BoxKind { kForward, kBackward, kInput, kWeight, kRecompute, kStep, kOther };
inline constexpr int kBoxKinds = 7;
std::string_view name(BoxKind kind);

// Neighbouring lines of the compute lane that do one kind of work on one micro-batch of one chunk.
struct Box {
  BoxKind kind = BoxKind::kOther;
  int chunk = 0;
  int mb = -1;
  double start = 0;
  double end = 0;
};

// Those that take time, in order. A pause of up to `seam` seconds between lines does not part them.
std::vector<Box> boxes(const plan::PlanSet& plan, const Timeline& timeline, double seam);

// Memory over time: from each point to the next. A line of another lane counts with the next computing line.
struct MemoryPointInTime {
  double at = 0;
  std::int64_t bytes = 0;
};
std::vector<MemoryPointInTime> memory_curve(const plan::PlanSet& plan, const Timeline& timeline);

}  // namespace trireme::simulate::pictures
