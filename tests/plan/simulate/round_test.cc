// Rounds of islands: closed forms, and the bandwidths of Streaming DiLoCo's table 4 (Douillard et al. 2025).
#include "trireme/plan/simulate/round.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/harness/examples.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate {
namespace {

using plan::OuterSteps;

TEST(Round, UtilisationAndBytesAreTheClosedForms) {
  for (const int islands : {2, 4})
    for (const int fragments : {1, 2}) {
      const plan::Recipe recipe{
          .outer = OuterSteps{.islands = islands, .every = 10, .fragments = fragments}};
      const plan::PlanSet plan =
          plan::compile(harness::chain_example(), mesh::Mesh({.island = islands}), recipe);
      const CostModel model{.link_bytes_per_s = 1e6};
      const auto seconds = [&](const plan::PlanSet& one) { return simulate(one, model).step_s; };
      const Round round = round_of(plan, seconds).value();
      double elements = 0;
      for (const plan::Unit& unit : plan.program.units) elements += static_cast<double>(unit.numel);
      EXPECT_DOUBLE_EQ(round.sent_bytes, 2 * elements * 4 * (islands - 1) / islands);
      const double t = seconds(plan);
      EXPECT_DOUBLE_EQ(round.step_s, t);
      EXPECT_GT(round.merging_s, round.sent_bytes / 1e6);
      EXPECT_DOUBLE_EQ(round.utilisation(), 10 * t / (10 * t + round.merging_s));
      EXPECT_FALSE(round_of(plan::compile(harness::chain_example(), mesh::Mesh(), {}), seconds));
    }
}

// Hidden where a fragment's time is at most that of `delay` steps.
TEST(Round, ADelayHidesWhatFitsIntoItsSteps) {
  const auto merging = [](int delay, double rate) {
    const plan::Recipe recipe{
        .outer = OuterSteps{.islands = 2, .every = 10, .fragments = 2, .delay = delay}};
    const plan::PlanSet plan =
        plan::compile(harness::chain_example(), mesh::Mesh({.island = 2}), recipe);
    const CostModel model{.link_bytes_per_s = rate};
    return round_of(plan, [&](const plan::PlanSet& one) { return simulate(one, model).step_s; })
        .value()
        .merging_s;
  };
  EXPECT_GT(merging(0, 1e9), 0);
  EXPECT_EQ(merging(1, 1e9), 0);
  EXPECT_GT(merging(1, 1e6), 0);
  EXPECT_LT(merging(1, 1e6), merging(0, 1e6));
}

// In whole steps, below half of a round.
TEST(Round, AnAutomaticDelayHidesTheLongestFragment) {
  const auto delay_at = [](double rate, std::int64_t every) {
    const plan::Recipe recipe{
        .outer = OuterSteps{.islands = 2, .every = every, .fragments = 2, .delay = 1}};
    const plan::PlanSet plan =
        plan::compile(harness::chain_example(), mesh::Mesh({.island = 2}), recipe);
    const CostModel model{.link_bytes_per_s = rate};
    const HidingDelay delay = hiding_delay(plan, [&](const plan::PlanSet& one) {
                                return simulate(one, model).step_s;
                              }).value();
    const double most = std::max(1.0, static_cast<double>((every - 1) / 2));
    EXPECT_EQ(delay.steps, std::clamp(std::ceil(1.1 * delay.fragment_s / delay.step_s), 1.0, most));
    return delay;
  };
  EXPECT_EQ(delay_at(1e9, 20).steps, 1);
  // A link on which a fragment takes about ten steps.
  const HidingDelay some = delay_at(1e6, 20);
  const HidingDelay slow = delay_at(1e6 * some.fragment_s / some.step_s / 10, 100);
  EXPECT_GT(slow.steps, 1);
  EXPECT_GE(slow.steps * slow.step_s, 1.1 * slow.fragment_s);
  EXPECT_EQ(delay_at(1, 20).steps, 9);
  const plan::PlanSet none = plan::compile(harness::chain_example(), mesh::Mesh(), {});
  EXPECT_FALSE(hiding_delay(none, [](const plan::PlanSet&) { return 1.0; }));
}

struct Model {
  double parameters = 0;
  int layers = 0;
  double step_s = 0;
  int fragments = 0;
  double share = 0;    // of the parameters that travel
  double forward = 0;  // part of a step
  std::array<std::array<double, 5>, 5> gbits{};
};

constexpr std::array<double, 5> kUtilisation = {0.5, 0.8, 0.9, 0.95, 0.99};
constexpr int kPoints = 50;
double grid(int point) { return std::pow(10, -1 + 4.0 * point / (kPoints - 1)); }

// Seconds by which what merges in a step outlasts it and `delay` more: layers are ready when their backward ends.
double outlasting(const Model& model, const std::vector<int>& of_unit, int fragment, double bits,
                  double rate, int delay) {
  double sent_s = 0;  // when the link has carried what is ready: the last layers first
  for (int layer = model.layers - 1; layer >= 0; --layer)
    if (fragment < 0 || of_unit[layer] == fragment) {
      const double ready_s =
          model.step_s *
          (model.forward + (1 - model.forward) * (model.layers - layer) / model.layers);
      sent_s = std::max(sent_s, ready_s) + bits / model.layers / rate;
    }
  return std::max(0.0, sent_s - (1 + delay) * model.step_s);
}

// Columns: data parallelism, DiLoCo, Streaming, with overlap, with 4 bits.
double utilisation(const Model& model, const std::vector<int>& of_unit, int column, double rate) {
  constexpr int kRound = 100;
  const double bits = 16 * model.share * model.parameters / (column == 4 ? 4 : 1);
  Round round{.steps = column == 0 ? 1 : kRound, .step_s = model.step_s};
  for (int fragment = column < 2 ? -1 : 0; fragment < (column < 2 ? 0 : model.fragments);
       ++fragment)
    round.merging_s += outlasting(model, of_unit, fragment, bits, rate, column >= 3 ? 1 : 0);
  return round.utilisation();
}

TEST(Round, ReproducesTheBandwidthsOfStreamingDiLoCo) {
  const std::vector<Model> models = {{1e9,
                                      24,
                                      0.1,
                                      8,
                                      0.83,
                                      1.0 / 3,
                                      {{{86.8, 152.6, 184.2, 222.3, 569},
                                        {1.4, 6.2, 13.3, 23.3, 86.8},
                                        {1.4, 5.2, 9.1, 16, 28.1},
                                        {1.4, 4.3, 6.2, 9.1, 11},
                                        {.4, .9, 1.7, 2.0, 3.0}}}},
                                     {1e10,
                                      48,
                                      0.8,
                                      16,
                                      0.84,
                                      1.0 / 3,
                                      {{{104.8, 222.3, 222.3, 268.3, 471.5},
                                        {1.7, 7.5, 16, 33.9, 104.8},
                                        {1.7, 5.2, 9.1, 13.3, 19.3},
                                        {1.7, 3.6, 5.2, 6.2, 7.5},
                                        {.4, .9, 1.4, 1.4, 1.7}}}},
                                     {1e11,
                                      108,
                                      4.9,
                                      36,
                                      0.77,
                                      0.4,
                                      {{{184.2, 323.8, 390.7, 390.7, 471.5},
                                        {3, 11, 23.3, 49.4, 184.2},
                                        {2.4, 6.2, 9.1, 11, 19.3},
                                        {1.7, 3.6, 4.3, 5.2, 5.2},
                                        {.5, .9, 1.1, 1.1, 1.4}}}}};
  int exact = 0, apart = 0;
  for (const Model& model : models) {
    plan::Program program;
    for (int layer = 0; layer < model.layers; ++layer) {
      plan::Unit unit;
      unit.name = fmt::format("block{}", layer);
      unit.numel = static_cast<std::int64_t>(model.parameters) / model.layers;
      program.units.push_back(unit);
    }
    const std::vector<int> of_unit = plan::fragments_of_units(program, model.fragments);
    for (int column = 0; column < 5; ++column)
      for (std::size_t u = 0; u < kUtilisation.size(); ++u) {
        int own = 0, theirs = 0;
        while (utilisation(model, of_unit, column, 1e9 * grid(own)) < kUtilisation[u]) ++own;
        const auto off = [&](int point) {
          return std::abs(std::log(grid(point) / model.gbits[column][u]));
        };
        for (int point = 0; point < kPoints; ++point)
          if (off(point) < off(theirs)) theirs = point;
        exact += own == theirs;
        apart += std::abs(own - theirs) == 1;
      }
  }
  EXPECT_EQ(exact, 67);
  EXPECT_EQ(apart, 8);
}

}  // namespace
}  // namespace trireme::simulate
