// Retention: which checkpoints of a run stay, and how the others go.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::formats {

struct RetentionRule {
  std::int64_t last = 0;   // so many of the newest; 0: all
  std::int64_t every = 0;  // and those of every so many steps; 0: none
  std::int64_t best = 0;   // and so many with the lowest evaluation loss, of equal ones the newer
};

// The steps that the rule keeps, of usable checkpoints, newest first.
std::set<std::int64_t> kept_steps(const std::vector<CheckpointEntry>& newest_first,
                                  const RetentionRule& rule);

// One run's checkpoints below ROOT, on rank 0.
class Retention {
 public:
  Retention(os::FileSystem& files, Path root, RetentionRule rule)
      : files_(files), root_(std::move(root)), rule_(rule) {}

  // This run has written or verified every byte of it.
  void trust(std::int64_t step) { verified_.insert(step); }
  // From now on the run has still to write these steps.
  void forget_after(std::int64_t step) {
    verified_.erase(verified_.upper_bound(step), verified_.end());
  }

  // Deletes checkpoints that the rule does not keep, but never one of the two newest of which every byte is as it was
  // written. With fewer than two of these it deletes nothing. Unusable checkpoints do not count and stay for a person
  // to inspect. Throws Error{kData}.
  void apply();

 private:
  std::set<std::int64_t> two_verified(std::vector<CheckpointEntry>& newest_first);

  os::FileSystem& files_;
  Path root_;
  RetentionRule rule_;
  std::set<std::int64_t> verified_;
};

}  // namespace trireme::formats
