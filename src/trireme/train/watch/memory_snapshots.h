// MemorySnapshots: what a run keeps in the memory of its hosts between checkpoints, so that little is lost with a rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/checkpoint/in_memory.h"
#include "trireme/train/callbacks.h"
#include "trireme/train/trainer.h"

namespace trireme::train {

// Belongs to one rank. A snapshot that fails, or does not replace an older one, is reported once without further
// effect. Every function except queries is collective.
class MemorySnapshots {
 public:
  // All of them outlive it. Throws Error{kUsage} where a rank has no memory to keep them in.
  MemorySnapshots(const TrainSetup& setup, const exec::Units& units,
                  const std::vector<model::UnitSpec>& specs, comm::World& world,
                  const Callbacks& callbacks);

  // As checkpoint::InMemory::find.
  checkpoint::InMemory::Found find(std::int64_t after) {
    return place_.find(after, units_, specs_);
  }
  // The run continues from the snapshot of this step (-1: from none): all others are deleted.
  void keep_only(std::int64_t step);

  // Begins one, unless the one before is under way.
  void take(const checkpoint::Header& header);
  void poll();
  void finish();

  const SnapshotCount& count() const { return count_; }

 private:
  void report_ended(const checkpoint::Saved& saved);

  const exec::Units& units_;
  const std::vector<model::UnitSpec>& specs_;
  const Callbacks& callbacks_;
  checkpoint::InMemory place_;
  checkpoint::Saver saver_;
  SnapshotCount count_;
  bool reported_failed_ = false, reported_old_ = false;
};

}  // namespace trireme::train
