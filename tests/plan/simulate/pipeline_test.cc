// Random programs under every schedule: proven, simulated, and of the same work whatever the order.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/harness/recompute_whole.h"
#include "trireme/base/error.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/partition.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate::pipeline_test {
namespace {

using namespace plan;  // NOLINT: programs and plans are the subject
using schedules::Schedule;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  template <typename T>
  T of(std::initializer_list<T> all) {
    return all.begin()[upto(static_cast<int>(all.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

// A tower reads what came before it and perhaps older values (skips), uses a unit of its own or an older one (tied
// weights), and may be frozen (a pretrained encoder) or without gradients (a teacher).
class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, int nodes) : random_(seed) {
    program_.name = fmt::format("random{}", seed);
    program_.values.push_back({.name = "inputs", .bytes = 64, .differentiable = false});
    const int towers = nodes >= 5 && random_.chance(0.4) ? 2 : 1;
    const int frozen = random_.chance(0.4) ? 1 + random_.upto(2) : 0;
    for (int tower = 0; tower < towers; ++tower)
      for (int n = 0; n < (nodes - 1) / towers; ++n)
        add(n == 0 ? 0 : last(), towers == 2 && tower == 0, n < frozen);
    add(last(), false, false);
    // A second tower's end meets the first one's in the loss.
    Node& loss = program_.nodes.back();
    loss.loss = true;
    if (towers == 2) read(loss, program_.nodes[(nodes - 1) / 2 - 1].writes[0]);
    program_.values.back().bytes = 4;
  }
  Program take() { return std::move(program_); }

 private:
  ValueId last() const { return static_cast<ValueId>(program_.values.size()) - 1; }
  static void read(Node& node, ValueId value) {
    if (!contains(node.reads, value)) node.reads.push_back(value);
  }

  void add(ValueId from, bool teacher, bool frozen) {
    const std::string name = fmt::format("n{}", program_.nodes.size());
    Node node{.name = name, .reads = {from}, .no_grad = teacher};
    if (!teacher && random_.chance(0.3)) read(node, random_.upto(last()));
    if (random_.chance(0.2)) read(node, 0);
    const bool tie = !teacher && !frozen && !own_.empty() && random_.chance(0.2);
    if (tie) {
      node.units = {own_[random_.upto(static_cast<int>(own_.size()) - 1)]};
    } else {
      node.units = {static_cast<UnitId>(program_.units.size())};
      if (!teacher && !frozen) own_.push_back(node.units[0]);
      program_.units.push_back({.name = "u" + name,
                                .numel = 128 * (1 + random_.upto(7)),
                                .trainable = !teacher && !frozen});
    }
    node.saved_bytes = 512;
    node.flops = 1e6 * (1 + random_.upto(9));
    if (random_.chance(0.7))
      node.split = BackwardSplit{.kept_bytes = 256, .weight_flops = node.flops};
    program_.values.push_back({.name = name + ".out", .bytes = 1024});
    node.writes = {last()};
    program_.nodes.push_back(std::move(node));
  }

  Random random_;
  Program program_;
  std::vector<UnitId> own_;  // trainable
};

TEST(Pipeline, RandomProgramsAreProvenAndSimulated) {
  constexpr int kPlans = 400;
  int proven = 0;
  for (int seed = 0; seed < kPlans; ++seed) {
    Random random(static_cast<std::uint64_t>(seed) + 1000);
    const auto schedule = static_cast<Schedule>(seed % schedules::kScheduleCount);
    const int p = 1 + random.upto(3);
    const int chunks =
        schedules::chunks_of(schedule, schedule == Schedule::kInterleaved ? 2 + random.upto(1) : 0);
    const int m = p * (2 + random.upto(2));
    const int nodes = p * chunks + 1 + random.upto(6);
    const Recipe recipe{.zero = random.upto(3),
                        .micro_batches = m,
                        .prefetch = random.upto(2),
                        .schedule = schedule};
    const mesh::Mesh mesh(
        {.pp = p, .dp_replicate = 1 + random.upto(1), .dp_shard = 1 + random.upto(1)});
    Program program = RandomProgram(static_cast<std::uint64_t>(seed), nodes).take();
    const Pipeline pipeline{
        .placement = schedules::placement_of(schedule), .ranks = p, .chunks = chunks};
    const Cuts cuts = balance(program, pipeline, recipe);
    program = place(std::move(program), cuts, pipeline);
    const int segments = random.chance(0.5) ? 1 + random.upto(3) : 0;
    if (segments > 0) program = recompute_whole(std::move(program), segments);
    SCOPED_TRACE(fmt::format("{} {} p {} chunks {} m {} zero {} segments {}", program.name,
                             schedules::name(schedule), p, chunks, m, recipe.zero, segments));
    const PlanSet plan = compile(program, mesh, recipe);
    ASSERT_NO_THROW(validate(plan));
    ASSERT_EQ(parse(print(plan)), plan);
    const Forecast forecast = simulate(plan, CostModel());
    EXPECT_GE(forecast.bubble_fraction, -1e-12);
    double flops = 0;
    for (const List& list : plan.lists)
      for (const Instr& line : list)
        if (line.node >= 0) flops += plan::flops(program.nodes[line.node], line.verb);
    double expected = 0;
    const GradientFlow flow = gradient_flow(program);
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      const Node& node = program.nodes[n];
      const bool recomputed = node.segment >= 0;
      expected += m * node.flops * (1 + recomputed + (flow.node_has_backward[n] ? 2 : 0));
    }
    EXPECT_NEAR(flops, expected, 1e-6 * expected);
    for (int rank = 0; rank < mesh.world(); ++rank) EXPECT_NO_THROW(memory_account(plan, rank));
    ++proven;
  }
  EXPECT_EQ(proven, kPlans);
}

}  // namespace
}  // namespace trireme::simulate::pipeline_test
