// One walk serves the validator and the simulator: a difference planted in any field of lines that should meet stops both.
#include "trireme/plan/check/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/plan/cases.h"
#include "tests/plan/pipelines.h"
#include "trireme/base/error.h"
#include "trireme/plan/check/list_check.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/simulate.h"
#include "trireme/plan/text/instr_fields.h"
#include "trireme/plan/text/text.h"

namespace trireme::simulate::meeting_test {
namespace {

using mesh::Axis;
using mesh::AxisSet;
using plan::Instr;
using plan::Lane;
using plan::PlanSet;
using plan::TensorKind;
using plan::Verb;

double one_second(int, const Instr&) { return 1; }

bool simulates(const PlanSet& plan) {
  try {
    simulate(plan, one_second);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("never ends"));
    return false;
  }
  return true;
}

// Other values of a field for which ids stay in range.
struct Others {
  const PlanSet& plan;
  const Instr& line;
  int stage = 0;

  template <typename Enum>
  static std::vector<Enum> all_but(Enum value, int count) {
    std::vector<Enum> others;
    for (int i = 0; i < count; ++i)
      if (static_cast<Enum>(i) != value) others.push_back(static_cast<Enum>(i));
    return others;
  }
  std::vector<Verb> operator()(Verb Instr::*) const {
    std::vector<Verb> others = all_but(line.verb, plan::kVerbCount);
    std::erase_if(others,
                  [&](Verb verb) { return plan::subject_of(verb) != plan::subject_of(line.verb); });
    return others;
  }
  std::vector<Lane> operator()(Lane Instr::*) const { return all_but(line.lane, plan::kLaneCount); }
  std::vector<TensorKind> operator()(TensorKind Instr::*) const {
    return all_but(line.tensors, plan::kPieceCount);
  }
  std::vector<bool> operator()(bool Instr::*field) const { return {!(line.*field)}; }
  std::vector<AxisSet> operator()(AxisSet Instr::*) const {
    std::vector<AxisSet> others;
    for (const Axis axis : mesh::kAllAxes)
      others.push_back(line.axes.contains(axis) ? line.axes - axis : line.axes | axis);
    return others;
  }
  std::vector<int> operator()(int Instr::*field) const {
    int count = 4;
    if (field == &Instr::node) count = static_cast<int>(plan.program.nodes.size());
    if (field == &Instr::unit) count = static_cast<int>(plan.program.units.size());
    if (field == &Instr::value) count = static_cast<int>(plan.program.values.size());
    if (field == &Instr::peer) count = plan.mesh.degree(Axis::kPp);
    std::vector<int> others;
    for (int other = 0; other < count; ++other)
      if (other != line.*field && (field != &Instr::peer || other != stage))
        others.push_back(other);
    return others;
  }
};

// A list of its own, equal to the others', for the last rank.
PlanSet apart(PlanSet plan) {
  plan.list_of_rank.back() = static_cast<int>(plan.lists.size());
  plan.lists.push_back(plan::List(plan.list(0)));
  return plan;
}

std::vector<PlanSet> plans() {
  using schedules::Schedule;
  return {
      apart(plan::compile(harness::chain_example(1), mesh::Mesh({.dp_shard = 2}),
                          {.zero = 3, .micro_batches = 2})),
      apart(plan::compile(harness::spread_example(1), mesh::Mesh({.dp_shard = 2, .tp = 2}),
                          {.zero = 1})),
      plan::compile(harness::tied_example(3, 3), mesh::Mesh({.pp = 3}),
                    {.micro_batches = 2, .schedule = Schedule::kGpipe}),
  };
}

TEST(Meeting, ADifferenceInAnyFieldStopsTheValidatorAndTheSimulator) {
  std::set<std::string> keys, verbs;
  for (const PlanSet& plan : plans()) {
    ASSERT_TRUE(plan::runs_to_the_end(plan)) << print(plan);
    ASSERT_TRUE(simulates(plan)) << print(plan);
    const std::size_t last = plan.lists.size() - 1;
    const int stage = plan.mesh.coordinate(plan.mesh.world() - 1, Axis::kPp);
    for (std::size_t i = 0; i < plan.lists[last].size(); ++i) {
      const Instr& line = plan.lists[last][i];
      const bool meets =
          plan::is_transfer(line) || plan.mesh.degree(plan::meeting_axes(plan.program, line)) > 1;
      if (!meets) continue;
      plan::for_each_field([&](std::string_view key, auto field) {
        if constexpr (!std::is_same_v<decltype(field), std::vector<int> Instr::*>) {
          PlanSet other = plan;
          for (const auto& value : Others{plan, line, stage}(field)) {
            other.lists[last][i].*field = value;
            const std::string text = line_text(plan.program, line) + ", " + std::string(key);
            EXPECT_FALSE(plan::runs_to_the_end(other)) << text;
            EXPECT_FALSE(simulates(other)) << text;
            keys.insert(std::string(key));
            verbs.insert(std::string(name(line.verb)));
          }
        }
      });
    }
  }
  EXPECT_EQ(static_cast<int>(keys.size()), plan::internal::listed_fields() - 1);  // all but `after`
  EXPECT_THAT(verbs, testing::IsSupersetOf({"forward", "backward", "unshard", "reduce_grads",
                                            "sync_tied", "send", "recv", "grad_norm"}));
}

// Lists of their own for ranks of one stage: a node in which they exchange something ends for all together, and whoever
// comes first waits.
TEST(Meeting, RanksThatExchangeInANodeWaitForEachOther) {
  const PlanSet plan =
      apart(plan::compile(harness::spread_example(1), mesh::Mesh({.tp = 2}), {.zero = 1}));
  const int late = plan.mesh.world() - 1;
  const auto cost = [&](int rank, const Instr& line) {
    return line.verb == Verb::kLoad && rank == late ? 5.0 : 1.0;
  };
  const Forecast forecast = simulate(plan, cost);
  const auto& lists = forecast.lists;
  for (std::size_t i = 0; i < plan.lists[0].size(); ++i) {
    const Instr& line = plan.lists[0][i];
    if (!plan::computes(line)) continue;
    const AxisSet axes = plan::meeting_axes(plan.program, line);
    if (axes.empty()) continue;
    EXPECT_EQ(lists[0].lines[i].start, lists[1].lines[i].start) << line_text(plan.program, line);
    EXPECT_GE(lists[0].lines[i].start, 5.0);
  }
}

}  // namespace
}  // namespace trireme::simulate::meeting_test
