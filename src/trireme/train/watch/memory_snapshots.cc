#include "trireme/train/watch/memory_snapshots.h"

#include <utility>

namespace trireme::train {

namespace {

constexpr std::int64_t kNextHost = 1;  // keeps a second copy of a host's part

checkpoint::Saver::Setup with_callbacks(checkpoint::Saver::Setup setup,
                                        const Callbacks& callbacks) {
  setup.before = [&] { notify(callbacks, &Callback::before_checkpoint); };
  return setup;
}

}  // namespace

MemorySnapshots::MemorySnapshots(const TrainSetup& setup, const exec::Units& units,
                                 const std::vector<model::UnitSpec>& specs, comm::World& world,
                                 const Callbacks& callbacks)
    : units_(units),
      specs_(specs),
      callbacks_(callbacks),
      place_(setup.memory, kNextHost, world, *setup.memory_files),
      saver_(with_callbacks(place_.setup(), callbacks), units, specs, world) {}

void MemorySnapshots::keep_only(std::int64_t step) {
  place_.keep_only(step);
  saver_.forget_after(-1);
  if (step >= 0) saver_.trust(step);
}

void MemorySnapshots::take(const checkpoint::Header& header) {
  if (saver_.under_way())
    ++count_.skipped;
  else
    saver_.begin(header, checkpoint::SaveMode::kAsync);
}

void MemorySnapshots::poll() {
  if (const auto saved = saver_.poll()) report_ended(*saved);
}

void MemorySnapshots::finish() {
  if (saver_.under_way()) report_ended(saver_.finish());
}

void MemorySnapshots::report_ended(const checkpoint::Saved& saved) {
  count_.standing_s += saved.standing_s;
  const bool there = !saved.path.empty();
  ++(there ? count_.taken : count_.failed);
  if (saved.problem.empty() || std::exchange(there ? reported_old_ : reported_failed_, true))
    return;
  notify(callbacks_, [&](Callback& callback) {
    callback.on_fault({.kind = there ? "old snapshots not deleted" : "snapshot not written",
                       .step = saved.step,
                       .op = "snapshot",
                       .cause = saved.problem,
                       .action = "continue, and report no more of them",
                       .lost_s = there ? 0 : saved.standing_s});
  });
}

}  // namespace trireme::train
