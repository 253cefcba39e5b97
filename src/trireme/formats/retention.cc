#include "trireme/formats/retention.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/formats/checkpoint_draft.h"

namespace trireme::formats {

std::set<std::int64_t> kept_steps(const std::vector<CheckpointEntry>& newest_first,
                                  const RetentionRule& rule) {
  std::set<std::int64_t> kept;
  std::vector<const CheckpointEntry*> evaluated;
  for (const CheckpointEntry& entry : newest_first) {
    const bool recent = rule.last == 0 || std::ssize(kept) < rule.last;
    if (recent) kept.insert(entry.step);
    if (entry.eval_loss && std::isfinite(*entry.eval_loss)) evaluated.push_back(&entry);
  }
  for (const CheckpointEntry& entry : newest_first)
    if (rule.every > 0 && entry.step % rule.every == 0) kept.insert(entry.step);
  std::stable_sort(evaluated.begin(), evaluated.end(),
                   [](auto* a, auto* b) { return *a->eval_loss < *b->eval_loss; });
  for (std::size_t i = 0; i < evaluated.size() && static_cast<std::int64_t>(i) < rule.best; ++i)
    kept.insert(evaluated[i]->step);
  return kept;
}

// Of the usable ones; what proves unusable is taken out.
std::set<std::int64_t> Retention::two_verified(std::vector<CheckpointEntry>& newest_first) {
  std::set<std::int64_t> found;
  for (auto entry = newest_first.begin(); entry != newest_first.end() && found.size() < 2;) {
    try {
      if (!verified_.contains(entry->step)) verify_checkpoint(entry->path, files_);
    } catch (const Error&) {
      entry = newest_first.erase(entry);
      continue;
    }
    verified_.insert(entry->step);
    found.insert((entry++)->step);
  }
  return found;
}

void Retention::apply() {
  if (rule_.last == 0) return;
  std::vector<CheckpointEntry> usable = list_checkpoints(root_, CheckpointCheck::kManifest, files_);
  std::erase_if(usable, [](const CheckpointEntry& entry) { return !entry.problem.empty(); });
  const std::set<std::int64_t> safe = two_verified(usable);
  if (safe.size() < 2) return;
  const std::set<std::int64_t> kept = kept_steps(usable, rule_);
  for (const CheckpointEntry& entry : usable) {
    if (kept.contains(entry.step) || safe.contains(entry.step)) continue;
    verified_.erase(entry.step);
    os::rename_and_remove(files_, entry.path, Path(entry.path) += kDeletedSuffix);
  }
}

}  // namespace trireme::formats
