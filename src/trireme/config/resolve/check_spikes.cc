#include "trireme/config/resolve/check_spikes.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

constexpr std::int64_t kLeastWindow = 8, kMostWindow = 10000;

void check_unused(const Run& run) {
  if (run.spike_window != Run{}.spike_window)
    fail(ErrorKind::kUsage,
         "run.spikes=[0, {0}]: the window has no effect without a z-score; set run.spikes=[10, "
         "{0}], for example, or leave it out",
         run.spike_window);
}

}  // namespace

void check_spikes(const Job& job) {
  const Run& run = job.run;
  if (run.spike_zscore == 0) return check_unused(run);
  const std::string spikes = fmt::format("run.spikes=[{}, {}]", run.spike_zscore, run.spike_window);
  if (run.spike_window < kLeastWindow || run.spike_window > kMostWindow)
    fail(ErrorKind::kUsage, "{}: the window is out of range; needs {} to {}", spikes, kLeastWindow,
         kMostWindow);
  const Checkpoint& checkpoint = job.checkpoint;
  if (checkpoint.every == 0)
    fail(ErrorKind::kUsage,
         "{} with checkpoint.every=0: there would be no checkpoint to rewind to; set "
         "checkpoint.every, or leave spikes out",
         spikes);
  if (checkpoint.keep_last == 0 || checkpoint.keep_every > 0) return;
  // Right after one is written the oldest is closest.
  const std::int64_t apart = std::max<std::int64_t>(checkpoint.keep_last, 2) - 1;
  const std::int64_t reach = apart * checkpoint.every + 1;
  if (reach < run.spike_window)
    fail(ErrorKind::kUsage,
         "{} with checkpoint.keep_last={} x checkpoint.every={}: the oldest checkpoint may be only "
         "{} steps before a spike; set checkpoint.keep_last={} or more, or a smaller window",
         spikes, checkpoint.keep_last, checkpoint.every, reach,
         (run.spike_window - 2) / checkpoint.every + 2);
}

}  // namespace trireme::config
