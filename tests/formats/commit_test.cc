// Saving, deleting and what is found afterwards, when power goes or a call fails in the middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/harness/failing_files.h"
#include "tests/harness/memory_files.h"
#include "tests/harness/power_loss.h"
#include "tests/harness/small_checkpoint.h"
#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/retention.h"

namespace trireme::formats::commit_test {
namespace {

using harness::FailingFiles;
using harness::FileFault;
using harness::MemoryFiles;
using harness::SmallCheckpoint;

const Path kRoot = "/checkpoints";
constexpr auto kEveryByte = CheckpointCheck::kEveryByte;

// Step `step`, and the deletions after it.
void save(os::FileSystem& files, std::int64_t step, Retention& retention) {
  SmallCheckpoint().save(files, kRoot, step);
  retention.trust(step);
  retention.apply();
}

// A disk on which nothing is pending, with steps 1 and 2.
void begin(MemoryFiles& files, Retention& retention) {
  files.make_directory(kRoot);
  files.fsync_directory("/");
  save(files, 1, retention);
  save(files, 2, retention);
  files.mark(2);
}

// Calls that report success and do nothing that lasts.
class Forgetful : public FailingFiles {
 public:
  Forgetful(os::FileSystem& inner, bool files, bool directories)
      : FailingFiles(inner), files_(files), directories_(directories) {}
  int fsync(int file) override { return files_ ? 0 : FailingFiles::fsync(file); }
  int fsync_directory(const Path& path) override {
    return directories_ ? 0 : FailingFiles::fsync_directory(path);
  }

 private:
  bool files_, directories_;
};

// What a resume finds: a step, 0 for nothing, -1 for one with other values than were saved.
std::int64_t found_on(harness::Disk disk) {
  MemoryFiles after(std::move(disk));
  const std::vector<Path> committed = CheckpointDraft::commit_complete(after, kRoot);
  try {
    for (const Path& path : committed)
      if (!SmallCheckpoint().intact(after, path)) return -1;
  } catch (const Error&) {
    return -1;
  }
  try {
    const auto newest = newest_checkpoint(kRoot, kEveryByte, after);
    if (!newest) return 0;
    return SmallCheckpoint().intact(after, newest->path) ? newest->manifest.step : -1;
  } catch (const Error&) {
    return 0;
  }
}

struct Tally {
  int states = 0;
  int lost = 0;     // neither the newest acknowledged checkpoint nor a newer one
  int altered = 0;  // other values than were saved
  std::set<std::int64_t> found;
};

// Saves steps 3 to 5, deleting 1 to 3, and looks at every disk there may be when power goes in between.
Tally lose_power(bool forget_files, bool forget_directories, int samples) {
  MemoryFiles memory;
  Forgetful files(memory, forget_files, forget_directories);
  Retention retention(files, kRoot, {.last = 2});
  begin(memory, retention);
  for (const int step : {3, 4, 5}) {
    SmallCheckpoint().save(files, kRoot, step);
    memory.mark(step);
    retention.trust(step);
    retention.apply();
  }
  Tally tally;
  std::mt19937_64 random(20261122);
  const std::vector<harness::DiskOp> log = memory.log();
  std::map<std::string, std::int64_t> resumes;  // of each disk: many are alike
  std::int64_t acknowledged = 0;
  for (std::size_t calls = 0; calls <= log.size(); ++calls) {
    if (calls > 0 && log[calls - 1].kind == harness::DiskOp::Kind::kMark)
      acknowledged = log[calls - 1].what;
    if (acknowledged == 0) continue;
    harness::PowerLoss(log, calls)
        .for_states(samples > 50 ? 12 : 4, samples, random, [&](const harness::Disk& disk) {
          ++tally.states;
          const auto [known, is_new] = resumes.try_emplace(harness::text_of(disk), 0);
          if (is_new) known->second = found_on(disk);
          tally.lost += known->second >= 0 && known->second < acknowledged;
          tally.altered += known->second < 0;
          tally.found.insert(known->second);
        });
  }
  return tally;
}

TEST(Commit, SurvivesPowerLossAtEveryCall) {
  const Tally tally = lose_power(false, false, 300);
  EXPECT_GE(tally.states, 5000);
  EXPECT_EQ(tally.lost, 0);
  EXPECT_EQ(tally.altered, 0);
  EXPECT_EQ(tally.found, (std::set<std::int64_t>{2, 3, 4, 5}));
}

// The model finds it: nothing else would tell that the syncs are there for a reason.
TEST(Commit, WithoutSyncsPowerLossLosesCheckpoints) {
  EXPECT_GT(lose_power(true, false, 5).lost, 0);
  EXPECT_GT(lose_power(false, true, 5).lost, 0);
}

std::vector<std::string> names_in(os::FileSystem& files, const Path& directory) {
  std::vector<std::string> names;
  EXPECT_EQ(files.list(directory, names), 0);
  return names;
}

std::int64_t usable(os::FileSystem& files) {
  std::int64_t count = 0;
  for (const CheckpointEntry& entry : list_checkpoints(kRoot, kEveryByte, files))
    count += entry.problem.empty() && SmallCheckpoint().intact(files, entry.path);
  return count;
}

// Every call of a save and the deletions after it fails once, in every way.
class EveryCall : public testing::TestWithParam<std::pair<FileFault, int>> {};

TEST_P(EveryCall, FailingKeepsWhatWasAndTheNextSaveWorks) {
  const auto [fault, error] = GetParam();
  int nth = 0, failures = 0;
  for (bool fired = true; fired; ++nth) {
    MemoryFiles memory;
    FailingFiles files(memory);
    Retention retention(files, kRoot, {.last = 2});
    begin(memory, retention);
    files.fail(nth, fault, error);
    bool saved = false, failed = false;
    try {
      SmallCheckpoint().save(files, kRoot, 3);
      saved = true;
      retention.trust(3);
      retention.apply();
    } catch (const Error& failure) {
      failed = true;
      EXPECT_EQ(failure.kind(), ErrorKind::kData);
    }
    fired = files.calls() > nth;
    failures += failed;
    files.fail(FailingFiles::kNever, fault);
    EXPECT_GE(usable(files), 2) << nth;
    // Who dies after the rename has saved, and does not know it.
    const std::int64_t newest = newest_checkpoint(kRoot, kEveryByte, files)->manifest.step;
    EXPECT_TRUE(newest == (saved ? 3 : 2) || (newest == 3 && fault == FileFault::kKill)) << nth;
    if (!saved && fault != FileFault::kKill) {
      EXPECT_EQ(names_in(files, kRoot), (std::vector<std::string>{"step-1", "step-2"})) << nth;
    }
    save(files, 4, retention);
    EXPECT_EQ(newest_checkpoint(kRoot, kEveryByte, files)->manifest.step, 4) << nth;
    EXPECT_EQ(usable(files), 2) << nth;
    EXPECT_EQ(names_in(files, kRoot).size(), 2u) << nth;
  }
  EXPECT_GE(nth, 18);
  // A signal in an fsync counts as a failure of it; what was written wrong is found by reading back: two files, their
  // digests, and the manifest, announced and whole.
  EXPECT_EQ(failures, fault == FileFault::kError  ? nth - 1
                      : fault == FileFault::kKill ? nth - 1
                                                  : 6);
}

// A rank of a run whose ranks end while it writes step 3: all of it, or all but what `lost` names.
void leave_draft(os::FileSystem& files, const std::string& lost = "") {
  CheckpointDraft draft(files, kRoot, 3);
  SmallCheckpoint().write(draft, files, kRoot, 3);
  draft.leave();
  if (!lost.empty()) os::remove_tree(files, CheckpointDraft::directory(kRoot, 3) / lost);
}

TEST(Draft, TheNextStartCommitsWhatIsComplete) {
  MemoryFiles files;
  Retention retention(files, kRoot, {});
  begin(files, retention);
  leave_draft(files);
  EXPECT_EQ(newest_checkpoint(kRoot, kEveryByte, files)->manifest.step, 2);
  EXPECT_EQ(CheckpointDraft::commit_complete(files, kRoot), (std::vector<Path>{kRoot / "step-3"}));
  EXPECT_TRUE(SmallCheckpoint().intact(files, kRoot / "step-3"));
  EXPECT_EQ(names_in(files, kRoot), (std::vector<std::string>{"step-1", "step-2", "step-3"}));
  // The same files as of one that its run has committed.
  EXPECT_EQ(names_in(files, kRoot / "step-3"), names_in(files, kRoot / "step-2"));
  EXPECT_THAT(CheckpointDraft::commit_complete(files, kRoot), testing::IsEmpty());
  EXPECT_THAT(CheckpointDraft::commit_complete(files, "/elsewhere"), testing::IsEmpty());
}

TEST(Draft, WithoutAnyPartItStaysUncommitted) {
  for (const char* lost :
       {"rank-0.safetensors", "rank-1.safetensors.digest.json", "manifest.announced.json"}) {
    MemoryFiles files;
    Retention retention(files, kRoot, {});
    begin(files, retention);
    leave_draft(files, lost);
    EXPECT_THAT(CheckpointDraft::commit_complete(files, kRoot), testing::IsEmpty()) << lost;
    EXPECT_EQ(names_in(files, kRoot).size(), 3u) << lost;
    remove_drafts(files, kRoot);
    EXPECT_EQ(names_in(files, kRoot), (std::vector<std::string>{"step-1", "step-2"})) << lost;
  }
}

// A digest of another file, or a file of another size.
TEST(Draft, PartsThatDoNotFitAreNotCommitted) {
  const Path draft = CheckpointDraft::directory(kRoot, 3);
  const std::string digest = "rank-0.safetensors.digest.json";
  for (const std::string& other : {std::string("rank-0.safetensors"), digest}) {
    MemoryFiles files;
    Retention retention(files, kRoot, {});
    begin(files, retention);
    leave_draft(files, other);
    os::write_new_file(files, draft / other,
                       print(ManifestFile{.name = "rank-1.safetensors", .size = 0}));
    EXPECT_THAT(CheckpointDraft::commit_complete(files, kRoot), testing::IsEmpty()) << other;
  }
}

// The process may end at any call of a save, and again at any call of the commit at the next start.
TEST(Draft, AKillAtAnyCallLosesNothingThatWasComplete) {
  int complete = 0;
  bool fired = true;
  for (int nth = 0; fired; ++nth) {
    MemoryFiles memory;
    FailingFiles files(memory);
    Retention retention(files, kRoot, {});
    begin(memory, retention);
    files.fail(nth, FileFault::kKill);
    try {
      SmallCheckpoint().save(files, kRoot, 3);
    } catch (const Error&) {
    }
    fired = files.calls() > nth;
    bool refired = true;
    for (int again = 0; refired; ++again) {
      MemoryFiles after(memory.disk());
      FailingFiles dying(after);
      dying.fail(again, FileFault::kKill);
      CheckpointDraft::commit_complete(dying, kRoot);
      refired = dying.calls() > again;
      CheckpointDraft::commit_complete(after, kRoot);
      const auto newest = newest_checkpoint(kRoot, kEveryByte, after);
      EXPECT_TRUE(SmallCheckpoint().intact(after, newest->path)) << nth << " " << again;
      if (!refired) complete += newest->manifest.step == 3;
    }
  }
  EXPECT_GE(complete, 5) << "from the last digest on";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, EveryCall,
    testing::Values(std::pair(FileFault::kError, ENOSPC), std::pair(FileFault::kError, EIO),
                    std::pair(FileFault::kError, EDQUOT), std::pair(FileFault::kShort, 0),
                    std::pair(FileFault::kLie, 0), std::pair(FileFault::kTurnBit, 0),
                    std::pair(FileFault::kKill, 0)));

}  // namespace
}  // namespace trireme::formats::commit_test
