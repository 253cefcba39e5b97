// Updates of whole matrices in plans: who owns which, what is refused, and what is held.
#include "trireme/plan/compile/matrix_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "tests/plan/matrix_plans.h"
#include "tests/plan/mutations.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/text/text.h"

namespace trireme::plan::matrix_updates_test {
namespace {

using testing::HasSubstr;

const Offload kAway{.optimizer = Tier::kHost, .params = Tier::kHost, .grads = Tier::kHost};

std::vector<PlanSet> plans() {
  std::vector<PlanSet> all;
  for (const int zero : {0, 1, 2, 3})
    for (const mesh::Degrees& degrees :
         {mesh::Degrees{}, mesh::Degrees{.dp_shard = 2}, mesh::Degrees{.dp_shard = 4},
          mesh::Degrees{.dp_replicate = 2, .dp_shard = 2}, mesh::Degrees{.pp = 2, .dp_shard = 2},
          mesh::Degrees{.dp_shard = 2, .cp = 2}})
      for (const Offload& offload : {Offload{}, kAway}) {
        if (offload.any() && degrees.pp > 1) continue;
        all.push_back(matrix_plan(degrees, {.zero = zero, .micro_batches = 2, .offload = offload}));
      }
  return all;
}

int count(const List& list, Verb verb) {
  return static_cast<int>(std::ranges::count(list, verb, &Instr::verb));
}

TEST(MatrixUpdates, PlansAreValidAndExchangeWhereUnitsHaveShards) {
  for (const PlanSet& plan : plans()) {
    ASSERT_EQ(refusal(plan), "") << print(plan);
    EXPECT_EQ(parse(print(plan)), plan);
    for (const List& list : plan.lists) {
      const int updates = count(list, Verb::kUpdateMatrices);
      EXPECT_GT(updates, 0);
      const bool shards = plan.recipe.zero > 0 && plan.mesh.degree(mesh::kShards) > 1;
      EXPECT_EQ(count(list, Verb::kExchangeUpdate), shards ? 2 * updates : 0) << print(plan);
    }
  }
}

// Every line of an update is needed once, and waits for what it needs.
TEST(MatrixUpdates, LostDoubledAndEarlyLinesAreRefused) {
  for (const PlanSet& plan : plans())
    for (std::size_t l = 0; l < plan.lists.size(); ++l)
      for (std::size_t i = 0; i < plan.lists[l].size(); ++i) {
        const Instr& line = plan.lists[l][i];
        if (line.verb != Verb::kExchangeUpdate && line.verb != Verb::kUpdateMatrices &&
            line.verb != Verb::kStep)
          continue;
        PlanSet broken = plan;
        drop(broken.lists[l], static_cast<int>(i));
        EXPECT_NE(refusal(broken), "") << line_text(plan.program, line);
        broken = plan;
        repeat(broken.lists[l], static_cast<int>(i));
        EXPECT_NE(refusal(broken), "") << line_text(plan.program, line);
        for (std::size_t a = 0; a < line.after.size(); ++a) {
          broken = plan;
          std::vector<int>& after = broken.lists[l][i].after;
          after.erase(after.begin() + static_cast<std::ptrdiff_t>(a));
          EXPECT_THAT(refusal(broken), HasSubstr("does not wait for line"))
              << line_text(plan.program, line);
        }
      }
}

TEST(MatrixUpdates, MessagesSayWhatIsWrong) {
  const PlanSet plan = matrix_plan({.dp_shard = 2}, {.zero = 1});
  const auto find = [&](Verb verb, bool back) {
    const List& list = plan.lists[0];
    return static_cast<int>(
        std::ranges::find_if(
            list, [&](const Instr& line) { return line.verb == verb && line.scatter == back; }) -
        list.begin());
  };
  PlanSet lost = plan;
  drop(lost.lists[0], find(Verb::kExchangeUpdate, true));
  EXPECT_THAT(refusal(lost), HasSubstr("the updates of its matrices are lost"));
  PlanSet doubled = plan;
  repeat(doubled.lists[0], find(Verb::kUpdateMatrices, false));
  EXPECT_THAT(refusal(doubled), HasSubstr("happens a second time"));
  PlanSet wrong = plan;
  const auto block = std::ranges::find(wrong.program.units, true, &Unit::by_matrix);
  block->matrices[0].owner = 1 - block->matrices[0].owner;
  EXPECT_THAT(refusal(wrong), HasSubstr("belongs to shard"));
  PlanSet nobody = plan;
  std::ranges::find(nobody.program.units, true, &Unit::by_matrix)->matrices[1].owner = 2;
  EXPECT_THAT(refusal(nobody), HasSubstr("belongs to shard 2"));
  PlanSet part = plan;
  std::ranges::find(part.program.units, true, &Unit::by_matrix)->matrices.pop_back();
  EXPECT_THAT(refusal(part), HasSubstr("of its 12288 elements"));
}

// The most expensive first, to the shard that has least: no shard has more than another and one matrix.
TEST(MatrixUpdates, OwnersDivideAStage) {
  for (const int shards : {2, 3, 4}) {
    const PlanSet plan = matrix_plan({.dp_shard = shards}, {.zero = 3});
    std::map<int, double> work;
    double largest = 0;
    for (UnitId id = 0; id < std::ssize(plan.program.units); ++id) {
      const Unit& unit = plan.program.units[id];
      if (!unit.by_matrix) continue;
      const MatrixUpdates updates(plan, id);
      std::int64_t owned = 0;
      for (int shard = 0; shard < shards; ++shard) {
        owned += updates.owned(shard);
        work[shard] += updates.flops(shard);
        std::int64_t brought = 0;
        for (int from = 0; from < shards; ++from) brought += updates.moved(from, shard);
        EXPECT_EQ(brought, updates.owned(shard));
      }
      EXPECT_EQ(owned, unit.numel);
      for (const Matrix& matrix : unit.matrices)
        largest = std::max(largest, update_flops(matrix, plan.recipe.matrix_rounds));
    }
    const auto [least, most] = std::ranges::minmax(work | std::views::values);
    EXPECT_LE(most - least, largest) << shards;
  }
  // 5 rounds of 2 m m n + 2 m m m + 2 m m n.
  EXPECT_EQ(update_flops({.rows = 32, .cols = 128}, 5),
            5.0 * (4 * 32 * 32 * 128 + 2 * 32 * 32 * 32));
}

// Half of AdamW's states, and buffers that are gone at the end of the step.
TEST(MatrixUpdates, MemoryHasOneStateAndEndsWithTheStep) {
  for (const PlanSet& plan : plans())
    for (int rank = 0; rank < plan.mesh.world(); ++rank) {
      const MemoryAccount account = memory_account(plan, rank);
      const MemoryPoint& last = account.at_line.back();
      const auto buffers = static_cast<std::size_t>(MemoryKind::kCommBuffers);
      EXPECT_GE(account.peak[buffers], 12288 / plan.mesh.world() * 4) << print(plan);
      for (const MemoryPoint& point : account.at_line)
        for (const std::int64_t bytes : point) ASSERT_GE(bytes, 0) << print(plan);
      const Instr& end = plan.list(rank).back();
      if (end.verb == Verb::kStep) EXPECT_LE(last[buffers], 12288 * 4);
    }
}

}  // namespace
}  // namespace trireme::plan::matrix_updates_test
