#include "trireme/launch/watch/silence.h"

#include <algorithm>

namespace trireme::watch {

void Silences::look(double now) {
  const double gap = now - looked_at_;
  looked_at_ = now;
  if (gap <= patience_.pause) return;
  for (auto& [number, rank] : ranks_) {
    rank.since += gap;
    if (rank.stopped) *rank.stopped += gap;
  }
}

double Silences::limit_in_steps() const {
  return std::max(patience_.steps, patience_.factor * longest_);
}

double Silences::limit(const Rank& rank) const {
  if (!rank.stepping) return std::max(patience_.rest, patience_.steps);
  return limit_in_steps();
}

Silences::Heard Silences::heard(int number, std::uint64_t moves, Phase phase, std::int64_t step,
                                double now, bool stopped) {
  const auto [found, fresh] = ranks_.try_emplace(number);
  Rank& rank = found->second;
  if (fresh) rank.since = now;
  if (fresh || moves != rank.moves) {
    if (!fresh && rank.within) longest_ = std::max(longest_, now - rank.since);
    rank.moves = moves;
    rank.since = now;
  }
  rank.within = within_steps(phase);
  if (phase == Phase::kTraining && rank.first_step < 0) rank.first_step = step;
  rank.stepping = rank.within && rank.first_step >= 0 && step != rank.first_step;
  if (!stopped) rank.stopped.reset();
  if (stopped && !rank.stopped) rank.stopped = now;
  const double still = stopped ? now - *rank.stopped : 0;
  if (still > limit_in_steps()) return {.seconds = still, .in_step = true};
  const double silent = now - rank.since;
  if (silent <= limit(rank)) return {};
  return {.seconds = silent, .in_step = rank.stepping && phase != Phase::kCallbacks};
}

}  // namespace trireme::watch
