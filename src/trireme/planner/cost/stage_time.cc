#include "trireme/planner/cost/stage_time.h"

#include <algorithm>

#include "trireme/planner/cost/kernels.h"

namespace trireme::planner {

StageTime& StageTime::operator+=(const StageTime& other) {
  for (double StageTime::*const one :
       {&StageTime::forward, &StageTime::input, &StageTime::weight, &StageTime::gathers,
        &StageTime::regathers, &StageTime::renewed, &StageTime::reduces, &StageTime::first})
    this->*one += other.*one;
  return *this;
}

StageTurn turn_of(const StageTime& stage, int zero, const Practice& practice) {
  StageTurn turn{.forward = stage.forward, .backward = stage.backward()};
  if (zero < 2 || !practice.overlaps_shards) return turn;
  const bool gathers = zero == 3;
  turn.forward = std::max(turn.forward, gathers ? stage.gathers : 0);
  turn.backward = std::max(turn.backward, (gathers ? stage.regathers : 0) + stage.reduces);
  return turn;
}

double waits_at_end(const StageTime& all, int zero, const Practice& practice) {
  const auto beyond = [](bool overlaps, double exchanged, double computing) {
    return overlaps ? std::max(exchanged - computing, 0.0) : exchanged;
  };
  double seconds = 0;
  if (zero <= 1) seconds += beyond(practice.overlaps_reduction, all.reduces, all.backward());
  if (zero == 1 || zero == 2)
    seconds += beyond(practice.overlaps_gathers, all.renewed, all.forward);
  return seconds;
}

double with_shards(const Gpu& gpu, const Practice& practice, double computing, double exchanging,
                   double busy) {
  if (!practice.overlaps_shards || exchanging <= 0 || computing <= 0)
    return computing + (practice.overlaps_shards ? 0 : exchanging);
  const double covered = std::min(exchanging / computing, 1.0);
  const double taken = (1 - gpu.efficiency.shared) * busy / exchanging;
  return computing * (1 + covered * (1 / (1 - taken) - 1));
}

double update_seconds(const Gpu& gpu, const Updated& updated, double master, double gradient) {
  const double moved = updated.elements * (2 * master + 2 * gradient) + 2 * updated.states +
                       updated.averaged * 3 * master;
  return streamed_seconds(gpu, moved) + multiplied_seconds(gpu, updated.flops);
}

double streamed_seconds(const Gpu& gpu, double bytes) {
  return gpu.core ? bytes / gpu.core->update_rate : seconds(gpu, stream(bytes));
}

double multiplied_seconds(const Gpu& gpu, double flops) {
  return flops / (gpu.fp32_flops > 0 ? gpu.fp32_flops : gpu.half_flops);
}

}  // namespace trireme::planner
