#include "trireme/planner/hardware/reliability.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

void need_rate(double rate, const char* what) {
  if (!(rate > 0))
    fail(ErrorKind::kUsage, "{} is {} bytes a second; needs one above 0", what, rate);
}

void check(const Failures& failures, const Checkpointing& checkpoint) {
  if (!(failures.mttf_s > 0))
    fail(ErrorKind::kUsage, "{} s between failures; needs more than 0", failures.mttf_s);
  if (!(failures.restart_s >= 0))
    fail(ErrorKind::kUsage, "a restart of {} s; needs 0 or more", failures.restart_s);
  if (!(checkpoint.stall_s >= 0) || !(checkpoint.write_s >= checkpoint.stall_s))
    fail(
        ErrorKind::kUsage,
        "a checkpoint that stalls for {} s and is written after {} s; needs a stall from 0 on, and "
        "a write at least as long",
        checkpoint.stall_s, checkpoint.write_s);
}

// What undoes steps: failures, and preemptions that come too suddenly. Either way a host is replaced.
Failures undoing(const Failures& failures, const Checkpointing& checkpoint, const Spot& spot) {
  if (!(spot.preemption_s > 0))
    fail(ErrorKind::kUsage, "{} s between preemptions; needs more than 0", spot.preemption_s);
  const double taken = saves_in_time(spot, checkpoint) ? 0 : 1 / spot.preemption_s;
  return {.mttf_s = 1 / (1 / failures.mttf_s + taken),
          .restart_s = failures.restart_s + spot.replace_s};
}

}  // namespace

double mttf_s(double failures_per_gpu_hour, double gpus) {
  return 3600 / (failures_per_gpu_hour * gpus);
}

Checkpointing write_at_once(double bytes, double rate) {
  need_rate(rate, "writing checkpoints");
  return {.stall_s = bytes / rate, .write_s = bytes / rate};
}

Checkpointing write_async(double bytes, double rate, double copy_rate) {
  need_rate(rate, "writing checkpoints");
  need_rate(copy_rate, "copying checkpoints");
  const double stall = bytes / copy_rate;
  return {.stall_s = stall, .write_s = std::max(stall, bytes / rate)};
}

// (exp((x + d) / M) - 1) / x is least where 1 - x / M = exp(-(x + d) / M); the left side starts above and ends below.
double best_interval_s(const Failures& failures, const Checkpointing& checkpoint) {
  check(failures, checkpoint);
  const double mttf = failures.mttf_s;
  if (std::isinf(mttf)) return kInfinite;
  constexpr int kHalvings = 100;  // past the last bit
  double low = 0;
  double high = mttf;
  for (int i = 0; i < kHalvings; ++i) {
    const double x = (low + high) / 2;
    const bool below = -std::expm1(-(x + checkpoint.stall_s) / mttf) > x / mttf;
    (below ? low : high) = x;
  }
  return std::max(low, checkpoint.write_s - checkpoint.stall_s);
}

Goodput goodput(const Failures& failures, const Checkpointing& checkpoint, double interval_s) {
  check(failures, checkpoint);
  const double span = interval_s + checkpoint.stall_s;
  const double behind = checkpoint.write_s - checkpoint.stall_s;
  if (!(interval_s > 0) || interval_s < behind)
    fail(ErrorKind::kUsage,
         "{} s between checkpoints, and writing one takes {} s during training; needs an interval "
         "above 0 that is not shorter",
         interval_s, behind);
  const double mttf = failures.mttf_s;
  if (std::isinf(mttf)) {
    const double useful = std::isinf(interval_s) ? 1 : interval_s / span;
    return {.interval_s = interval_s, .useful = useful, .stalled = 1 - useful};
  }
  const double stops =
      std::exp(behind / mttf) * std::expm1(span / mttf);  // an interval, while training
  const double restart = mttf * std::expm1(failures.restart_s / mttf);
  const double took = stops * (mttf + restart);
  Goodput shares{.interval_s = interval_s,
                 .useful = interval_s / took,
                 .stalled = checkpoint.stall_s / took,
                 .restarting = stops * restart / took};
  shares.repeated = 1 - shares.useful - shares.stalled - shares.restarting;
  return shares;
}

bool saves_in_time(const Spot& spot, const Checkpointing& checkpoint) {
  return spot.notice_s >= checkpoint.write_s;
}

Goodput goodput(const Failures& failures, const Checkpointing& checkpoint, const Spot& spot,
                double interval_s) {
  Goodput shares = goodput(undoing(failures, checkpoint, spot), checkpoint, interval_s);
  if (!saves_in_time(spot, checkpoint)) return shares;
  const double lost = checkpoint.write_s + failures.restart_s + spot.replace_s;
  if (lost == 0) return shares;
  const double left = 1 / (1 + lost / spot.preemption_s);
  for (double* share : {&shares.useful, &shares.stalled, &shares.repeated, &shares.restarting})
    *share *= left;
  shares.stalled += (1 - left) * checkpoint.write_s / lost;
  shares.restarting += (1 - left) * (1 - checkpoint.write_s / lost);
  return shares;
}

double best_interval_s(const Failures& failures, const Checkpointing& checkpoint,
                       const Spot& spot) {
  return best_interval_s(undoing(failures, checkpoint, spot), checkpoint);
}

}  // namespace trireme::planner
