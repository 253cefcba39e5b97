#include "trireme/plan/compile/microbatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/plan/cases.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/forward_only.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::microbatch_test {
namespace {

// Every id of the global batch belongs to one rank and micro-batch.
TEST(MicroBatch, IdsTileTheGlobalBatch) {
  for (int replicate : {1, 2, 3})
    for (int shard : {1, 2, 4})
      for (int count : {1, 2, 4})
        for (int zero : {0, 1, 2, 3}) {
          const mesh::Mesh mesh({.dp_replicate = replicate, .dp_shard = shard});
          const Recipe recipe{.zero = zero, .micro_batches = count};
          std::set<std::int64_t> ids;
          for (int rank = 0; rank < mesh.world(); ++rank)
            for (int mb = 0; mb < count; ++mb) ids.insert(micro_batch_id(mesh, recipe, rank, mb));
          const std::int64_t total = global_micro_batches(mesh, recipe);
          EXPECT_EQ(total, replicate * shard * count);
          EXPECT_EQ(static_cast<std::int64_t>(ids.size()), total);
          EXPECT_EQ(*ids.begin(), 0);
          EXPECT_EQ(*ids.rbegin(), total - 1);
        }
}

// What is added first differs in the lowest bits: locally where a row reduces once, else over shards.
TEST(MicroBatch, IdsFollowTheOrderOfAddition) {
  const mesh::Mesh mesh({.dp_shard = 4});
  for (int rank = 0; rank < 4; ++rank)
    for (int mb = 0; mb < 2; ++mb) {
      EXPECT_EQ(micro_batch_id(mesh, {.zero = 1, .micro_batches = 2}, rank, mb), rank * 2 + mb);
      EXPECT_EQ(micro_batch_id(mesh, {.zero = 3, .micro_batches = 2}, rank, mb), mb * 4 + rank);
    }
}

// Evaluation of every example under every row: proven, without backward, reduction or step.
TEST(ForwardOnly, IsAPlanWithoutGradients) {
  for_each_case({1, 2}, {1, 2}, {1, 2}, {0, 1}, [](Case one) {
    SCOPED_TRACE(one.name());
    one.program = forward_only(one.program);
    const PlanSet plan = compile(one);
    ASSERT_NO_THROW(validate(plan));
    for (const List& list : plan.lists) {
      EXPECT_TRUE(std::ranges::none_of(list, [](const Instr& line) {
        return line.keep || line.verb == Verb::kBackward || line.verb == Verb::kReduceGrads ||
               line.verb == Verb::kStep || line.verb == Verb::kEma;
      }));
      EXPECT_EQ(std::ranges::count(list, Verb::kGradNorm, &Instr::verb), 1);
    }
  });
}

}  // namespace
}  // namespace trireme::plan::microbatch_test
