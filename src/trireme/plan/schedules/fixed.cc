#include "trireme/plan/schedules/fixed.h"

#include <algorithm>

namespace trireme::schedules {
namespace {

// `ahead` forwards first; then an input gradient for each, a weight gradient of `delay` micro-batches earlier, a forward.
Row zero_bubble_row(int micro_batches, int ahead, int delay) {
  Row row;
  int forward = 0;
  while (forward < std::min(ahead, micro_batches))
    row.push_back({.work = Work::kForward, .mb = forward++});
  for (int mb = 0; mb < micro_batches; ++mb) {
    row.push_back({.work = Work::kBackwardInput, .mb = mb});
    if (mb >= delay) row.push_back({.work = Work::kBackwardWeight, .mb = mb - delay});
    if (forward < micro_batches) row.push_back({.work = Work::kForward, .mb = forward++});
  }
  for (int mb = std::max(0, micro_batches - delay); mb < micro_batches; ++mb)
    row.push_back({.work = Work::kBackwardWeight, .mb = mb});
  return row;
}

}  // namespace

Row gpipe_row(int, int micro_batches, int) {
  Row row;
  for (const Work work : {Work::kForward, Work::kBackward})
    for (int mb = 0; mb < micro_batches; ++mb) row.push_back({.work = work, .mb = mb});
  return row;
}

Row one_f_one_b_row(int ranks, int micro_batches, int rank) {
  Row row;
  int forward = 0;
  while (forward < std::min(ranks - rank, micro_batches))
    row.push_back({.work = Work::kForward, .mb = forward++});
  for (int mb = 0; mb < micro_batches; ++mb) {
    row.push_back({.work = Work::kBackward, .mb = mb});
    if (forward < micro_batches) row.push_back({.work = Work::kForward, .mb = forward++});
  }
  return row;
}

Row interleaved_row(int ranks, int chunks, int micro_batches, int rank) {
  const int total = chunks * micro_batches;
  const auto nth = [&](Work work, int n) {
    const int chunk = n / ranks % chunks;
    const int group = n / (ranks * chunks);
    return Action{.work = work,
                  .chunk = work == Work::kForward ? chunk : chunks - 1 - chunk,
                  .mb = group * ranks + n % ranks};
  };
  const int ahead = std::min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, total);
  Row row;
  for (int n = 0; n < ahead; ++n) row.push_back(nth(Work::kForward, n));
  for (int n = 0; n < total; ++n) {
    if (ahead + n < total) row.push_back(nth(Work::kForward, ahead + n));
    row.push_back(nth(Work::kBackward, n));
  }
  return row;
}

Row zb_h1_row(int ranks, int micro_batches, int rank) {
  return zero_bubble_row(micro_batches, ranks - rank, rank);
}

Row zb_h2_row(int ranks, int micro_batches, int rank) {
  return zero_bubble_row(micro_batches, 2 * (ranks - rank) - 1, 2 * rank);
}

}  // namespace trireme::schedules
