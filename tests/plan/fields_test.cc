// Every field of every line, found by the list of fields: the validator refuses any other value of it, and ranks of one
// stage whose lists do not meet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/plan/cases.h"
#include "tests/plan/coded_plans.h"
#include "tests/plan/matrix_plans.h"
#include "tests/plan/mutations.h"
#include "tests/plan/pipelines.h"
#include "trireme/plan/check/meeting.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/text/instr_fields.h"
#include "trireme/plan/text/text.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {
namespace {

using mesh::Axis;
using mesh::AxisSet;
using testing::HasSubstr;
using testing::IsSupersetOf;

// Small plans that together have every verb, and ranks that differ in every axis.
std::vector<PlanSet> plans() {
  using schedules::Schedule;
  std::vector<PlanSet> all;
  for (int zero : {0, 1, 2, 3}) {
    all.push_back(compile(harness::chain_example(1), mesh::Mesh({.dp_replicate = 2, .dp_shard = 2}),
                          {.zero = zero, .micro_batches = 2}));
    all.push_back(compile(harness::spread_example(1), mesh::Mesh({.dp_shard = 2, .cp = 2, .tp = 2}),
                          {.zero = zero, .micro_batches = 2}));
    all.push_back(compile(tied_v(2), mesh::Mesh({.pp = 2, .dp_shard = 2}),
                          {.zero = zero, .micro_batches = 2, .schedule = Schedule::kZbV}));
  }
  all.push_back(coded_plan({.dp_replicate = 2}, 0));
  all.push_back(coded_plan({.dp_shard = 2}, 1));
  all.push_back(coded_plan({.dp_shard = 2}, 1, DType::kF32));
  all.push_back(gathered_plan(2, 0));
  all.push_back(gathered_plan(4, 4));
  all.push_back(gathered_plan(4, 4, DType::kBF16));
  all.push_back(gathered_plan(2, 4));
  for (int zero : {0, 1, 3})
    all.push_back(compile(
        harness::chain_example(1), mesh::Mesh({.dp_shard = 2, .island = 2}),
        {.zero = zero,
         .micro_batches = 2,
         .outer = OuterSteps{.islands = 2,
                             .fragments = 2,
                             .delay = zero == 3 ? 1 : 0,
                             .work = {.applied = zero == 3 ? std::vector{0, 1} : std::vector<int>(),
                                      .sent = {0, 1},
                                      .at_once = true}}}));
  for (int zero : {0, 1, 3}) all.push_back(matrix_plan({.dp_shard = 2}, {.zero = zero}));
  all.push_back(compile(harness::jepa_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 1}));
  all.push_back(compile(recompute_whole(harness::chain_example(), 2), mesh::Mesh({.dp_shard = 2}),
                        {.zero = 3,
                         .micro_batches = 3,
                         .offload = {.optimizer = Tier::kHost,
                                     .params = Tier::kHost,
                                     .grads = Tier::kHost,
                                     .activations = Tier::kHost,
                                     .prefetch = 0}}));
  Program whole = recompute_whole(harness::spread_example(), 1);
  for (Value& value : whole.values) value.whole = true;
  all.push_back(compile(
      std::move(whole), mesh::Mesh({.dp_shard = 2, .tp = 2}),
      {.zero = 1, .micro_batches = 2, .offload = {.activations = Tier::kTp, .prefetch = 0}}));
  Program towers = harness::two_towers_example(1);
  for (Node& node : towers.nodes)
    node.exchanges = {{.axes = Axis::kTp, .bytes = 512, .forward = 1, .backward = 1}};
  all.push_back(compile(std::move(towers), mesh::Mesh({.dp_shard = 2, .tp = 2}),
                        {.micro_batches = 2, .schedule = Schedule::kGpipe}));
  all.push_back(compile(harness::tied_example(2), mesh::Mesh({.pp = 2, .dp_shard = 2}),
                        {.zero = 1, .micro_batches = 2, .schedule = Schedule::kGpipe}));
  all.push_back(compile(harness::two_towers_example(2), mesh::Mesh({.pp = 2, .dp_shard = 2}),
                        {.zero = 1, .micro_batches = 2, .schedule = Schedule::kGpipe}));
  return all;
}

// Values that a field could have instead.
std::array<bool, 1> instead(int, bool value) { return {!value}; }
template <typename Enum>
std::vector<Enum> others_of(Enum value, int count) {
  std::vector<Enum> others;
  for (int i = 0; i < count; ++i)
    if (static_cast<Enum>(i) != value) others.push_back(static_cast<Enum>(i));
  return others;
}
std::vector<Verb> instead(int, Verb value) { return others_of(value, kVerbCount); }
std::vector<Lane> instead(int, Lane value) { return others_of(value, kLaneCount); }
std::vector<TensorKind> instead(int, TensorKind value) { return others_of(value, kPieceCount); }
std::vector<int> instead(int, int value) {
  std::vector<int> others;
  for (int other : {value - 1, value + 1, -1, 0, 1, 1 << 20})
    if (other != value) others.push_back(other);
  return others;
}
std::vector<AxisSet> instead(int, AxisSet value) {
  std::vector<AxisSet> others;
  for (const Axis axis : mesh::kAllAxes)
    for (const AxisSet& other : {AxisSet(), AxisSet(axis), value | axis, value - axis})
      if (other != value) others.push_back(other);
  return others;
}
// Of `after`: less of it, and lines that are none or come later. More of it than is needed is no mistake.
std::vector<std::vector<int>> instead(int index, const std::vector<int>& value) {
  std::vector<std::vector<int>> others;
  for (std::size_t i = 0; i < value.size(); ++i) {
    others.push_back(value);
    others.back().erase(others.back().begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (int wrong : {-1, index, index + 1, 1 << 20}) {
    others.push_back(value);
    others.back().insert(wrong < 0 ? others.back().begin() : others.back().end(), wrong);
  }
  return others;
}

// One rank that makes the sums of two senders has lines that code them, like two ranks.
TEST(Fields, SumsOfOneRankAreCodedToo) {
  const PlanSet plan = coded_plan({}, 0);
  ASSERT_EQ(refusal(plan), "");
  std::size_t coded = 0;
  for_each_line(plan, [&](std::size_t l, std::size_t i) {
    if (!plan.lists[l][i].coded) return;
    ++coded;
    PlanSet other = plan;
    other.lists[l][i].coded = false;
    EXPECT_THAT(refusal(other), HasSubstr("sends sums as they are, the recipe has codes here"));
  });
  EXPECT_EQ(coded, plan.program.units.size());
  EXPECT_EQ(parse(print(plan)), plan);
  // A lost residual, and a stale one.
  const PlanSet kept = coded_plan({}, 0, DType::kF32);
  ASSERT_EQ(refusal(kept), "");
  std::size_t residuals = 0;
  for_each_line(kept, [&](std::size_t l, std::size_t i) {
    if (!kept.lists[l][i].residual) return;
    ++residuals;
    PlanSet other = kept;
    other.lists[l][i].residual = false;
    EXPECT_THAT(refusal(other), HasSubstr(kept.lists[l][i].verb == Verb::kStep
                                              ? "loses the residuals of this step"
                                              : "leaves out the residuals of the step before"));
  });
  EXPECT_EQ(residuals, 2 * kept.program.units.size());
  PlanSet three = plan;
  three.recipe.coded->senders = 3;
  EXPECT_THAT(refusal(three), HasSubstr("3 senders on 1 ranks"));
}

TEST(Fields, EveryOtherValueOfEveryFieldOfEveryVerbIsRefused) {
  std::map<Verb, std::set<std::string>> broken;
  for (const PlanSet& plan : plans()) {
    ASSERT_EQ(refusal(plan), "") << print(plan);
    PlanSet other = plan;
    for_each_line(plan, [&](std::size_t l, std::size_t i) {
      const Instr& line = plan.lists[l][i];
      for_each_field([&](std::string_view key, auto field) {
        for (const auto& value : instead(static_cast<int>(i), line.*field)) {
          other.lists[l][i].*field = value;
          EXPECT_NE(refusal(other), "")
              << plan.program.name << " " << mesh::print(plan.mesh) << " zero " << plan.recipe.zero
              << ", list " << l << " line " << i << " `" << line_text(plan.program, line) << "`, "
              << key << ": `" << line_text(plan.program, other.lists[l][i]) << "`";
          broken[line.verb].insert(std::string(key));
        }
        other.lists[l][i].*field = line.*field;
      });
    });
  }
  EXPECT_EQ(broken.size(), static_cast<std::size_t>(kVerbCount)) << "verbs that no plan has";
  for (const auto& [verb, keys] : broken)
    EXPECT_EQ(keys.size(), static_cast<std::size_t>(internal::listed_fields())) << name(verb);
}

TEST(Fields, LinesHaveWhatTheTableOfVerbsSays) {
  std::map<Verb, int> seen;
  std::set<char> letters;
  for (const VerbInfo& verb : kVerbs) EXPECT_TRUE(letters.insert(verb.letter).second) << verb.name;
  for (const PlanSet& plan : plans())
    for_each_line(plan, [&](std::size_t l, std::size_t i) {
      const Instr& line = plan.lists[l][i];
      const VerbInfo& verb = info(line.verb);
      ++seen[line.verb];
      const auto expect = [&](Field field, bool there) {
        const std::string text = line_text(plan.program, line);
        EXPECT_TRUE(there || !verb.needs.contains(field)) << text;
        EXPECT_TRUE(!there || (verb.needs | verb.may).contains(field)) << text;
      };
      expect(Field::kNode, line.node >= 0);
      expect(Field::kUnit, line.unit >= 0);
      expect(Field::kValue, line.value >= 0);
      expect(Field::kTensors, line.tensors != TensorKind::kNone);
      expect(Field::kMb, line.mb >= 0);
      expect(Field::kChunk, line.chunk > 0);
      expect(Field::kPeer, line.peer >= 0);
      expect(Field::kAxes, !line.axes.empty());
      expect(Field::kKeep, line.keep);
      expect(Field::kScatter, line.scatter);
      expect(Field::kGradient, line.gradient);
      expect(Field::kCoded, line.coded);
      expect(Field::kResidual, line.residual);
      expect(Field::kWithin, line.within > 0);
    });
  EXPECT_EQ(static_cast<int>(seen.size()), kVerbCount);
}

TEST(Fields, LinesMeetThatAreEqualInAllButAfter) {
  const Instr reduce{.verb = Verb::kReduceGrads, .lane = Lane::kDp, .unit = 1, .mb = 1, .chunk = 1};
  const Instr send{.verb = Verb::kSend, .lane = Lane::kDown, .value = 2, .mb = 1, .peer = 1};
  Instr recv = send;
  recv.verb = Verb::kRecv;
  recv.peer = 0;
  EXPECT_TRUE(meets(reduce, 0, reduce, 0));
  EXPECT_TRUE(meets(send, 0, recv, 1));
  EXPECT_TRUE(meets(recv, 1, send, 0));
  EXPECT_FALSE(meets(send, 0, send, 1));
  EXPECT_FALSE(meets(send, 0, recv, 2));
  for_each_field([&](std::string_view key, auto field) {
    Instr theirs = reduce, received = recv;
    for (const auto& value : instead(3, reduce.*field)) {
      theirs.*field = value;
      EXPECT_EQ(meets(reduce, 0, theirs, 0), key == "after") << key;
      EXPECT_EQ(meets(theirs, 0, reduce, 0), key == "after") << key;
    }
    for (const auto& value : instead(3, recv.*field)) {
      received.*field = value;
      EXPECT_EQ(meets(send, 0, received, 1), key == "after") << key;
    }
  });
}

// What ranks must have alike: lines in which they meet, by queue and axes, without their `after`.
std::map<std::string, std::vector<std::string>> met(const PlanSet& plan, const List& list) {
  std::map<std::string, std::vector<std::string>> all;
  for (Instr line : list) {
    const AxisSet axes = meeting_axes(plan.program, line);
    if (!is_transfer(line) && axes.empty()) continue;
    line.after.clear();
    const Queue queue = queue_of(line);
    all[fmt::format("{} {} {} {}", name(queue.lane), name(queue.verb), queue.peer,
                    mesh::print(axes))]
        .push_back(line_text(plan.program, line));
  }
  return all;
}

// The plan with a list of its own for the last rank of the list's stage.
PlanSet with_unlike(PlanSet plan, std::size_t list, List other) {
  std::size_t last = 0;
  for (std::size_t rank = 0; rank < plan.list_of_rank.size(); ++rank)
    if (plan.list_of_rank[rank] == static_cast<int>(list)) last = rank;
  plan.list_of_rank[last] = static_cast<int>(plan.lists.size());
  plan.lists.push_back(std::move(other));
  return plan;
}

// The list with line `first` behind the next one. What the two waited for in one queue, now the other waits for.
List exchanged(List list, std::size_t first) {
  const auto index = static_cast<int>(first);
  std::swap(list[first], list[first + 1]);
  std::vector<int>&before = list[first].after, &behind = list[first + 1].after;
  std::erase(before, index);
  if (queue_of(list[first]) == queue_of(list[first + 1])) {
    before.insert(before.end(), behind.begin(), behind.end());
    behind.clear();
    std::ranges::sort(before);
    before.erase(std::ranges::unique(before).begin(), before.end());
  }
  for (std::size_t i = first + 2; i < list.size(); ++i) {
    for (int& earlier : list[i].after)
      if (earlier == index || earlier == index + 1) earlier = 2 * index + 1 - earlier;
    std::ranges::sort(list[i].after);
  }
  return list;
}

// Neighbouring lines of which each could come first: exchanged whole, or in one field.
void for_each_reordered(const List& list, const std::function<void(const List&)>& visit) {
  for (std::size_t i = 0; i + 1 < list.size(); ++i) {
    visit(exchanged(list, i));
    for_each_field([&](std::string_view, auto field) {
      if (list[i].verb != list[i + 1].verb || list[i].*field == list[i + 1].*field) return;
      List other = list;
      std::swap(other[i].*field, other[i + 1].*field);
      visit(other);
    });
  }
}

// A list that is valid for all ranks of a stage, given to one of them, has to meet what the others have.
TEST(Fields, ListsOfAStageThatDoNotMeetAreRefused) {
  int alike = 0;
  std::set<std::string> unlike;  // verbs of the lines that come in another order
  for (const PlanSet& plan : plans())
    for (std::size_t l = 0; l < plan.lists.size(); ++l)
      for_each_reordered(plan.lists[l], [&](const List& other) {
        PlanSet all = plan;
        all.lists[l] = other;
        if (all.lists == plan.lists || refusal(all) != "") return;
        const std::string reason = refusal(with_unlike(plan, l, other));
        if (met(plan, other) == met(plan, plan.lists[l])) {
          EXPECT_EQ(reason, "");
          ++alike;
          return;
        }
        EXPECT_THAT(reason, HasSubstr("deadlocks")) << print(with_unlike(plan, l, other));
        std::size_t first = 0;
        while (meets(plan.lists[l][first], 0, other[first], 0)) ++first;
        unlike.insert(std::string(name(other[first].verb)));
      });
  EXPECT_GT(alike, 10);
  EXPECT_THAT(unlike,
              IsSupersetOf({"forward", "backward", "reduce_grads", "unshard", "send", "recv"}));
}

// Ranks that reduce different chunks of a unit together add gradients that do not belong together.
TEST(Fields, RanksThatReduceDifferentChunksAreRefused) {
  PlanSet plan = compile(tied_v(1), mesh::Mesh({.dp_shard = 2}),
                         {.zero = 2, .schedule = schedules::Schedule::kZbV});
  List& list = plan.lists[0];
  const auto of_chunk = [&](int chunk) {
    return static_cast<std::size_t>(std::ranges::find_if(list,
                                                         [&](const Instr& line) {
                                                           return line.verb == Verb::kReduceGrads &&
                                                                  line.unit == 1 &&
                                                                  line.chunk == chunk;
                                                         }) -
                                    list.begin());
  };
  // The chunk that is complete first is reduced behind the other, so that a rank could begin with either.
  const std::size_t early = of_chunk(1), late = of_chunk(0);
  ASSERT_LT(early, late);
  ASSERT_LT(late, list.size());
  for (std::size_t i = early; i < late; ++i) list = exchanged(list, i);
  // A third gradient takes the memory of the first of the two.
  const auto next = std::find_if(list.begin() + static_cast<std::ptrdiff_t>(late) + 1, list.end(),
                                 adds_gradients);
  ASSERT_NE(next, list.end());
  next->after.push_back(static_cast<int>(late) - 1);
  ASSERT_EQ(refusal(plan), "") << print(plan);
  List other = list;
  std::swap(other[late - 1].chunk, other[late].chunk);
  PlanSet all = plan;
  all.lists[0] = other;
  ASSERT_EQ(refusal(all), "") << print(all);
  EXPECT_THAT(refusal(with_unlike(plan, 0, other)),
              testing::AllOf(HasSubstr("deadlocks"), HasSubstr("chunk=1")));
}

// Ranks of other stages have one list each, and those of this stage two that are equal.
TEST(Fields, EqualListsOfOneStageMeetAnother) {
  const PlanSet plan = compile(harness::tied_example(2), mesh::Mesh({.pp = 2, .dp_shard = 2}),
                               {.zero = 1, .schedule = schedules::Schedule::kGpipe});
  for (std::size_t list : {0, 1}) EXPECT_EQ(refusal(with_unlike(plan, list, plan.lists[list])), "");
}

}  // namespace
}  // namespace trireme::plan
