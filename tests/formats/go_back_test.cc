// Going back to an older checkpoint, when power goes or a call fails in the middle.
#include "trireme/formats/go_back.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/harness/failing_files.h"
#include "tests/harness/memory_files.h"
#include "tests/harness/power_loss.h"
#include "tests/harness/small_checkpoint.h"
#include "trireme/base/error.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::formats::go_back_test {
namespace {

using harness::FailingFiles;
using harness::FileFault;
using harness::MemoryFiles;
using harness::SmallCheckpoint;

const Path kSaved = "/checkpoints";
constexpr auto kAllBytes = CheckpointCheck::kEveryByte;
constexpr char kOther[] = R"({"left_out":[[16,20]]})";

// Steps 1 to 4.
void begin(MemoryFiles& files) {
  files.make_directory(kSaved);
  files.fsync_directory("/");
  for (const int step : {1, 2, 3, 4}) SmallCheckpoint().save(files, kSaved, step);
  files.mark(1);
}

Manifest other(os::FileSystem& files) {
  Manifest manifest = read_manifest(kSaved / "step-2", files);
  manifest.train_state = kOther;
  manifest.consumed_samples = 168;
  return manifest;
}

// What a run that starts now goes on from: its step, negative where it is of the new history.
std::int64_t next(os::FileSystem& files) {
  const NewestCheckpoint newest = newest_checkpoint(kSaved, kAllBytes, files).value();
  EXPECT_TRUE(SmallCheckpoint().intact(files, newest.path));
  const bool is_other = newest.manifest.train_state == kOther;
  EXPECT_EQ(newest.manifest.consumed_samples, is_other ? 168 : 8 * newest.manifest.step);
  return is_other ? -newest.manifest.step : newest.manifest.step;
}

TEST(GoBack, AnOlderOneIsTheNewestAndSaysSomethingElse) {
  MemoryFiles files;
  begin(files);
  go_back(files, kSaved, other(files));
  EXPECT_EQ(next(files), -2);
  const auto left = list_checkpoints(kSaved, kAllBytes, files);
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].problem + left[1].problem, "");
  EXPECT_EQ(left[1].step, 1);
}

// The old history or the new one, and never without the checkpoint that was gone back to.
TEST(GoBack, SurvivesPowerLossAtEveryCall) {
  MemoryFiles memory;
  begin(memory);
  go_back(memory, kSaved, other(memory));
  memory.mark(2);
  std::mt19937_64 random(3);
  const std::vector<harness::DiskOp> log = memory.log();
  std::map<std::int64_t, int> found;
  std::int64_t mark = 0;
  for (std::size_t calls = 0; calls <= log.size(); ++calls) {
    if (calls > 0 && log[calls - 1].kind == harness::DiskOp::Kind::kMark)
      mark = log[calls - 1].what;
    if (mark == 0) continue;
    harness::PowerLoss(log, calls).for_states(12, 300, random, [&](const harness::Disk& disk) {
      MemoryFiles after(disk);
      const std::int64_t step = next(after);
      ++found[step];
      EXPECT_NO_THROW(verify_checkpoint(kSaved / "step-2", after));
      if (mark == 2) {
        EXPECT_EQ(step, -2);
      }
    });
  }
  for (const auto& [step, times] : found)
    EXPECT_TRUE(step == 4 || step == 3 || step == -2) << step << ", " << times << " times";
  EXPECT_GT(found[4], 0);
  EXPECT_GT(found[-2], 0);
}

class GoBackFails : public testing::TestWithParam<std::pair<FileFault, int>> {};

TEST_P(GoBackFails, AtEveryCallAndTheNextTimeWorks) {
  const auto [fault, error] = GetParam();
  int nth = 0;
  for (bool fired = true; fired; ++nth) {
    MemoryFiles memory;
    FailingFiles files(memory);
    begin(memory);
    const Manifest manifest = other(files);
    files.fail(nth, fault, error);
    try {
      go_back(files, kSaved, manifest);
    } catch (const Error& failure) {
      EXPECT_EQ(failure.kind(), ErrorKind::kData);
    }
    fired = files.calls() > nth;
    files.fail(FailingFiles::kNever, fault);
    const std::int64_t step = next(files);
    EXPECT_TRUE(step == 4 || step == 3 || step == -2) << nth << ": " << step;
    EXPECT_NO_THROW(verify_checkpoint(kSaved / "step-2", files)) << nth;
    go_back(files, kSaved, manifest);
    EXPECT_EQ(next(files), -2) << nth;
  }
  EXPECT_GE(nth, 10);
}

INSTANTIATE_TEST_SUITE_P(Faults, GoBackFails,
                         testing::Values(std::pair(FileFault::kError, ENOSPC),
                                         std::pair(FileFault::kShort, 0),
                                         std::pair(FileFault::kLie, 0),
                                         std::pair(FileFault::kTurnBit, 0),
                                         std::pair(FileFault::kKill, 0)));

}  // namespace
}  // namespace trireme::formats::go_back_test
