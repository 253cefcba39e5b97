// Planted errors: whatever is taken out of a plan, the validator must notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/plan/cases.h"
#include "tests/plan/mutations.h"
#include "trireme/base/error.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/text/text.h"

namespace trireme::plan::mutation_test {
namespace {

using mesh::Axis;
using testing::HasSubstr;

void for_each_small_case(const std::function<void(const Case&)>& visit) {
  for_each_case({1, 2}, {1, 2}, {1, 3}, {1}, visit);
}

TEST(Mutation, NoLineCanBeMissing) {
  for_each_small_case([](const Case& one) {
    const PlanSet plan = compile(one);
    ASSERT_EQ(refusal(plan), "") << one.name();
    for (std::size_t l = 0; l < plan.lists.size(); ++l)
      for (std::size_t i = 0; i < plan.lists[l].size(); ++i) {
        PlanSet broken = plan;
        drop(broken.lists[l], static_cast<int>(i));
        EXPECT_NE(refusal(broken), "") << one.name() << ": list " << l << " without line " << i
                                       << " " << line_text(plan.program, plan.lists[l][i]);
      }
  });
}

TEST(Mutation, NoLineCanRunTwice) {
  for_each_small_case([](const Case& one) {
    const PlanSet plan = compile(one);
    for (std::size_t l = 0; l < plan.lists.size(); ++l)
      for (std::size_t i = 0; i < plan.lists[l].size(); ++i) {
        PlanSet broken = plan;
        repeat(broken.lists[l], static_cast<int>(i));
        EXPECT_NE(refusal(broken), "") << one.name() << ": list " << l << " with line " << i
                                       << " twice, " << line_text(plan.program, plan.lists[l][i]);
      }
  });
}

TEST(Mutation, EveryAfterIsNeeded) {
  for_each_small_case([](const Case& one) {
    const PlanSet plan = compile(one);
    for (std::size_t l = 0; l < plan.lists.size(); ++l)
      for (std::size_t i = 0; i < plan.lists[l].size(); ++i)
        for (std::size_t a = 0; a < plan.lists[l][i].after.size(); ++a) {
          PlanSet broken = plan;
          std::vector<int>& after = broken.lists[l][i].after;
          after.erase(after.begin() + static_cast<std::ptrdiff_t>(a));
          EXPECT_THAT(refusal(broken), HasSubstr("does not wait for line"))
              << one.name() << ": list " << l << " line " << i << " "
              << line_text(plan.program, plan.lists[l][i]);
        }
  });
}

// One plan to plant named errors in.
PlanSet sharded() {
  return compile(harness::chain_example(), mesh::Mesh({.dp_replicate = 2, .dp_shard = 2}),
                 {.zero = 3, .micro_batches = 2});
}
PlanSet piped() {
  return compile(harness::encoder_decoder_example(2), mesh::Mesh({.pp = 2, .dp_shard = 2}),
                 {.zero = 1, .micro_batches = 2, .schedule = schedules::Schedule::kGpipe});
}

int find(const List& list, const std::function<bool(const Instr&)>& wanted) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (wanted(list[i])) return static_cast<int>(i);
  ADD_FAILURE() << "no such line";
  return 0;
}
int find(const List& list, Verb verb) {
  return find(list, [&](const Instr& line) { return line.verb == verb; });
}
Instr& first(List& list, Verb verb) { return list[find(list, verb)]; }

TEST(Mutation, DroppedReductionIsNamed) {
  PlanSet plan = sharded();
  drop(plan.lists[0], find(plan.lists[0], [](const Instr& l) {
         return l.verb == Verb::kReduceGrads && l.mb == 1;
       }));
  EXPECT_THAT(refusal(plan), HasSubstr("is not reduced over dp_shard for micro-batch 1"));
  plan = compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 0});
  drop(plan.lists[0], find(plan.lists[0], Verb::kReduceGrads));
  EXPECT_THAT(refusal(plan), HasSubstr("is not reduced over dp_shard"));
}

TEST(Mutation, ReductionOverWrongAxesIsNamed) {
  PlanSet plan = sharded();
  first(plan.lists[0], Verb::kReduceGrads).axes = Axis::kDpReplicate;
  EXPECT_THAT(refusal(plan), HasSubstr("scatters over dp_replicate, needs dp_shard"));
  plan = compile(harness::chain_example(), mesh::Mesh({.dp_replicate = 2, .dp_shard = 2}),
                 {.zero = 0});
  first(plan.lists[0], Verb::kReduceGrads).axes = Axis::kDpShard;
  EXPECT_THAT(refusal(plan), HasSubstr("needs over=dp_replicate+dp_shard"));
}

TEST(Mutation, PartsOfGradientsNotAddedAreNamed) {
  const auto over_tp = [](const Instr& line) {
    return line.verb == Verb::kReduceGrads && line.axes == mesh::AxisSet(Axis::kTp);
  };
  for (int zero : {1, 3}) {
    PlanSet plan =
        compile(harness::spread_example(), mesh::Mesh({.cp = 2, .tp = 2}), {.zero = zero});
    drop(plan.lists[0], find(plan.lists[0], over_tp));
    EXPECT_THAT(refusal(plan), HasSubstr("the gradient of micro-batch 0 is not added over tp"));
    // After the scatter it comes too late.
    plan = compile(harness::spread_example(), mesh::Mesh({.cp = 2, .tp = 2}), {.zero = zero});
    List& list = plan.lists[0];
    const auto at = static_cast<std::size_t>(find(list, over_tp));
    ASSERT_TRUE(list[at + 1].scatter);
    std::swap(list[at].axes, list[at + 1].axes);
    std::swap(list[at].scatter, list[at + 1].scatter);
    EXPECT_THAT(refusal(plan), HasSubstr("is not added over tp"));
  }
}

TEST(Mutation, ReductionBeforeTheLastUserIsNamed) {
  PlanSet plan = compile(harness::tied_example(1), mesh::Mesh({.dp_shard = 2}), {.zero = 0});
  List& list = plan.lists[0];
  const int reduce =
      find(list, [](const Instr& l) { return l.verb == Verb::kReduceGrads && l.unit == 0; });
  const int backward = find(list, Verb::kBackward);
  Instr early = list[reduce];
  early.after = {backward};
  drop(list, reduce);
  for (Instr& line : list)
    for (int& earlier : line.after) earlier += earlier > backward;
  list.insert(list.begin() + backward + 1, early);
  EXPECT_THAT(refusal(plan), HasSubstr("lacks micro-batch 0"));
}

TEST(Mutation, ReshardMovedUpIsNamed) {
  PlanSet plan = sharded();
  List& list = plan.lists[0];
  const int reshard = find(list, Verb::kReshard);
  ASSERT_EQ(list[static_cast<std::size_t>(reshard) - 1].verb, Verb::kForward);
  std::swap(list[reshard], list[static_cast<std::size_t>(reshard) - 1]);
  EXPECT_THAT(refusal(plan), HasSubstr("does not wait for line"));
  std::swap(list[reshard].after, list[static_cast<std::size_t>(reshard) - 1].after);
  EXPECT_THAT(refusal(plan), HasSubstr("is not gathered"));
}

TEST(Mutation, MissingGatherAndUnitLeftGatheredAreNamed) {
  PlanSet plan = sharded();
  drop(plan.lists[0], find(plan.lists[0], Verb::kUnshard));
  EXPECT_THAT(refusal(plan), HasSubstr("unit embed is not gathered"));
  plan = sharded();
  for (int i = static_cast<int>(plan.lists[0].size()) - 1; i >= 0; --i)
    if (plan.lists[0][i].verb == Verb::kReshard) {
      drop(plan.lists[0], i);
      break;
    }
  EXPECT_THAT(refusal(plan), HasSubstr("is left gathered"));
}

TEST(Mutation, SwappedReceivesDeadlock) {
  PlanSet plan = piped();
  List& list = plan.lists[1];
  const auto recv = static_cast<std::size_t>(find(list, Verb::kRecv));
  ASSERT_EQ(list[recv + 1].verb, Verb::kRecv);
  std::swap(list[recv].value, list[recv + 1].value);
  const std::string reason = refusal(plan);
  EXPECT_THAT(reason, HasSubstr("deadlocks"));
  EXPECT_THAT(reason, HasSubstr("rank 0 waits in line"));
  EXPECT_THAT(reason, HasSubstr("rank 2 waits in line"));
}

TEST(Mutation, DroppedSendDeadlocks) {
  PlanSet plan = piped();
  drop(plan.lists[0], find(plan.lists[0], Verb::kSend));
  EXPECT_THAT(refusal(plan), HasSubstr("deadlocks"));
}

TEST(Mutation, DroppedGradientTransferOnBothSidesIsNamed) {
  PlanSet plan = piped();
  const auto gradient = [](Verb verb) {
    return [verb](const Instr& line) { return line.verb == verb && line.gradient; };
  };
  drop(plan.lists[1], find(plan.lists[1], gradient(Verb::kSend)));
  drop(plan.lists[0], find(plan.lists[0], gradient(Verb::kRecv)));
  EXPECT_THAT(refusal(plan), HasSubstr("the gradient of down0.out has 1 of 2 parts"));
}

TEST(Mutation, OneRankWithAnotherOrderDeadlocks) {
  PlanSet plan = compile(harness::chain_example(), mesh::Mesh({.dp_shard = 4}), {.zero = 0});
  List other = plan.lists[0];
  std::vector<std::size_t> reduces;
  for (std::size_t i = 0; i < other.size(); ++i)
    if (other[i].verb == Verb::kReduceGrads) reduces.push_back(i);
  ASSERT_EQ(other[reduces[0]].after.size(), 1u);
  std::swap(other[reduces[0]].unit, other[reduces[1]].unit);  // norm and head: complete together
  plan.lists.push_back(other);
  plan.list_of_rank[2] = 1;
  const std::string reason = refusal(plan);
  EXPECT_THAT(reason, HasSubstr("deadlocks"));
  EXPECT_THAT(reason, HasSubstr("rank 2 waits in line"));
  plan.list_of_rank.assign(4, 1);
  plan.lists.erase(plan.lists.begin());
  plan.list_of_rank.assign(4, 0);
  EXPECT_EQ(refusal(plan), "");  // the same order on all ranks is fine
}

TEST(Mutation, TailMistakesAreNamed) {
  const PlanSet good = compile(harness::jepa_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 1});
  PlanSet plan = good;
  drop(plan.lists[0], find(plan.lists[0], Verb::kStep));
  EXPECT_THAT(refusal(plan), HasSubstr("student0"));
  plan = good;
  drop(plan.lists[0], find(plan.lists[0], Verb::kEma));
  EXPECT_THAT(refusal(plan), HasSubstr("teacher0"));
  plan = good;
  drop(plan.lists[0], find(plan.lists[0], Verb::kUnshard));
  EXPECT_THAT(refusal(plan), HasSubstr("has been stepped on shards and not gathered since"));
  plan = good;
  drop(plan.lists[0], find(plan.lists[0], Verb::kGradNorm));
  EXPECT_THAT(refusal(plan), HasSubstr("comes before grad_norm"));
  plan = compile(harness::tied_example(2), mesh::Mesh({.pp = 2}),
                 {.schedule = schedules::Schedule::kGpipe});
  drop(plan.lists[1], find(plan.lists[1], Verb::kSyncTied));
  EXPECT_THAT(refusal(plan), HasSubstr("tied unit embed is not added over its stages"));
}

TEST(Mutation, FieldsAreChecked) {
  const PlanSet good = sharded();
  const auto broken = [&](const std::function<void(List&)>& change) {
    PlanSet plan = good;
    change(plan.lists[0]);
    return refusal(plan);
  };
  EXPECT_THAT(broken([](List& l) { first(l, Verb::kForward).mb = 7; }),
              HasSubstr("micro-batch 7 of 2"));
  EXPECT_THAT(broken([](List& l) { first(l, Verb::kForward).lane = Lane::kDp; }),
              HasSubstr("needs comp"));
  EXPECT_THAT(broken([](List& l) { first(l, Verb::kForward).node = 99; }), HasSubstr("node 99"));
  EXPECT_THAT(broken([](List& l) { first(l, Verb::kUnshard).axes = {}; }), HasSubstr("over=none"));
  EXPECT_THAT(broken([](List& l) {
                first(l, Verb::kStep).after = {0, 9999};
              }),
              HasSubstr("after="));
  EXPECT_THAT(broken([](List& l) { first(l, Verb::kUnshard).keep = true; }), HasSubstr("flag"));
  EXPECT_THAT(broken([](List& l) {
                l.push_back({.verb = Verb::kOffload,
                             .lane = Lane::kD2h,
                             .unit = 0,
                             .tensors = TensorKind::kStates});
              }),
              HasSubstr("stay in memory"));
  PlanSet plan = good;
  plan.list_of_rank.pop_back();
  EXPECT_THAT(refusal(plan), HasSubstr("3 ranks have lists, the world has 4"));
}

}  // namespace
}  // namespace trireme::plan::mutation_test
