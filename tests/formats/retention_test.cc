// What stays: the newest, the round ones, the best; never fewer than two that are as they were written.
#include "trireme/formats/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/memory_files.h"
#include "tests/harness/small_checkpoint.h"
#include "trireme/base/error.h"

namespace trireme::formats::retention_test {
namespace {

using harness::MemoryFiles;
using harness::SmallCheckpoint;
using Steps = std::set<std::int64_t>;

std::vector<CheckpointEntry> entries(
    std::initializer_list<std::pair<std::int64_t, std::optional<double>>> steps) {
  std::vector<CheckpointEntry> entries;
  for (const auto& [step, loss] : steps)
    entries.push_back({.step = step, .path = {}, .problem = {}, .eval_loss = loss});
  return entries;
}

TEST(RetentionRule, KeepsTheNewestTheRoundAndTheBest) {
  const auto all = entries({{50, 2.0}, {40, 3.0}, {30, {}}, {20, 1.0}, {15, 1.0}, {10, 4.0}});
  EXPECT_EQ(kept_steps(all, {}), (Steps{10, 15, 20, 30, 40, 50}));
  EXPECT_EQ(kept_steps(all, {.last = 2}), (Steps{40, 50}));
  EXPECT_EQ(kept_steps(all, {.last = 2, .every = 20}), (Steps{20, 40, 50}));
  EXPECT_EQ(kept_steps(all, {.last = 2, .best = 1}), (Steps{20, 40, 50}));
  EXPECT_EQ(kept_steps(all, {.last = 2, .best = 3}), (Steps{15, 20, 40, 50}));
  EXPECT_EQ(kept_steps(all, {.last = 9}), kept_steps(all, {}));
}

TEST(RetentionRule, ALossThatIsNoNumberIsNotBest) {
  const auto all = entries({{3, {}}, {2, std::nan("")}, {1, 7.0}});
  EXPECT_EQ(kept_steps(all, {.last = 1, .best = 1}), (Steps{1, 3}));
}

class RetentionTest : public testing::Test {
 protected:
  void save(std::initializer_list<std::int64_t> steps) {
    for (const std::int64_t step : steps)
      SmallCheckpoint{.eval_loss = static_cast<double>(step)}.save(files_, "/", step);
  }
  void damage(std::int64_t step) {
    const Path file = Path("/step-" + std::to_string(step)) / "rank-0.safetensors";
    files_.disk().nodes.at(files_.disk().find(file)).bytes.back() ^= 1;
  }
  Steps left() {
    Steps steps;
    for (const CheckpointEntry& entry : list_checkpoints("/", CheckpointCheck::kManifest, files_))
      steps.insert(entry.step);
    return steps;
  }

  MemoryFiles files_;
};

TEST_F(RetentionTest, DeletesTheOthers) {
  save({1, 2, 3, 4, 5});
  Retention(files_, "/", {.last = 2, .every = 3, .best = 1}).apply();
  EXPECT_EQ(left(), (Steps{1, 3, 4, 5}));
  Retention(files_, "/", {.last = 0}).apply();
  EXPECT_EQ(left(), (Steps{1, 3, 4, 5}));
}

// The rule would keep two of which one is damaged; its manifest looks well.
TEST_F(RetentionTest, NeverLeavesFewerThanTwoThatAreWhole) {
  save({1, 2, 3, 4});
  damage(4);
  Retention(files_, "/", {.last = 2}).apply();
  EXPECT_EQ(left(), (Steps{2, 3, 4})) << "a damaged one does not count, and stays to be looked at";
  damage(3);
  Retention(files_, "/", {.last = 2}).apply();
  EXPECT_EQ(left(), (Steps{2, 3, 4})) << "one is whole: nothing is deleted";
}

// What this run wrote it need not read again.
TEST_F(RetentionTest, TrustsWhatItIsTold) {
  save({1, 2, 3});
  damage(2);
  damage(3);
  Retention retention(files_, "/", {.last = 2});
  retention.trust(2);
  retention.trust(3);
  retention.apply();
  EXPECT_EQ(left(), (Steps{2, 3}));
}

}  // namespace
}  // namespace trireme::formats::retention_test
