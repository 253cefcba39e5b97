// Outer steps whose differences travel as codes.
#include <gtest/gtest.h>

#include <mutex>

#include "tests/exec/outer_subject.h"
#include "tests/harness/counting_world.h"
#include "trireme/comm/local/local_world.h"

namespace trireme::exec::outer_steps_test {
namespace {

constexpr std::int64_t kCoded = 256;  // width of layers with 65,792 parameters, enough to be coded

OuterSteps coded(const char* text, const char* back, std::optional<DType> residual, int islands = 2,
                 int delay = 0) {
  OuterSteps outer{.islands = islands,
                   .every = 2,
                   .delay = delay,
                   .blend = delay > 0 ? 0.5 : 0,
                   .codec = codec::parse(text),
                   .residual = residual};
  if (back != nullptr) outer.back = codec::parse(back);
  return outer;
}

TEST(OuterCodes, CodesGiveTheSameBitsInEveryLayoutOfAnIsland) {
  const Subject run = subject(DType::kF32, 0.05, kCoded);
  const Trace exact = run_layout(run, layout(OuterSteps{.islands = 2, .every = 2}), 5);
  OuterSteps along = coded("f4", "q8", DType::kF32, 2, 1);
  along.direction = true;
  for (const OuterSteps& outer :
       {along, coded("f4", "q8", std::nullopt), coded("q4", nullptr, DType::kF32),
        coded("q4:stochastic", "q8", DType::kBF16), coded("f4", "q8", DType::kF32, 2, 1)}) {
    const Trace whole = run_layout(run, layout(outer), 5);
    EXPECT_NE(whole.losses, exact.losses);
    EXPECT_NEAR(whole.losses.back(), exact.losses.back(), 0.05 * exact.losses.back());
    for (const int zero : {0, 1, 3})
      EXPECT_EQ(run_layout(run, layout(outer, 2, zero), 5), whole)
          << codec::print(*outer.codec) << " " << zero;
  }
}

// By hand: one island's outer weights move by what was sent; with what is left, that is where its weights are.
TEST(OuterCodes, WhatWasSentAndWhatIsLeftAddUpToTheDifferences) {
  const Subject run = subject(DType::kF32, 0.5, kCoded);
  OuterSteps outer = coded("q4", nullptr, DType::kF32, 1);
  outer.lr = 1;
  outer.momentum = 0;
  const Layout one = layout(outer);
  comm::run_local_ranks(1, 60, [&](comm::World& world) {
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                    *optimizer);
    const auto step = [&](int number, const plan::OuterWork& work) {
      session.step({.step = number,
                    .loss_scale = run.loss_scale,
                    .update = {.lr = 0.05, .step = number},
                    .outer = work,
                    .load = [&](int mb) { return run.batch(number, mb); }});
    };
    step(1, {});
    at::Tensor before, weights, outer_weights, left;
    const auto read = [&](const char* kind) {
      for (const StateSlice& slice : session.units().local_slices())
        if (slice.unit == 0 && slice.kind == kind)
          return session.units().read(slice).to(at::kDouble).clone();
      ADD_FAILURE() << kind;
      return at::Tensor();
    };
    weights = read("island0.param");
    before = read("param");
    session.units().outer_reduce_begin(0, {});
    session.units().outer_step(0, /*at_once=*/false);
    const at::Tensor moved = read("param") - before, wanted = weights - before;
    const double scale = wanted.norm().item<double>();
    EXPECT_GT((moved - wanted).norm().item<double>(), 1e-3 * scale);
    EXPECT_LT((moved - read("island0.outer_residual") - wanted).norm().item<double>(),
              1e-5 * scale);
  });
}

TEST(OuterCodes, BytesOfCodesAreThoseOfTheFormula) {
  const std::int64_t unit = kCoded * (kCoded + 1), blocks = unit / 16;
  const Subject run = subject(DType::kF32, 0.5, kCoded);
  for (const int islands : {2, 4}) {
    const OuterSteps outer = coded("q4", "q8", std::nullopt, islands);
    const Layout one = layout(outer);
    std::mutex mutex;
    std::int64_t sent = 0;
    comm::run_local_ranks(islands, 60, [&](comm::World& inner) {
      harness::CountingWorld world(inner);
      const std::unique_ptr<Optimizer> optimizer = run.optimizer();
      Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                      *optimizer);
      session.step({.update = {.lr = 0.01, .step = 1},
                    .outer = plan::outer_work(outer, 2, /*last=*/false),
                    .load = [&](int mb) { return run.batch(0, mb); }});
      const std::lock_guard lock(mutex);
      sent += world.take_bytes_sent("island");
    });
    // Every island sends codes of the slices of others, and the mean of its own slice to them.
    EXPECT_EQ(sent, 4 * (islands - 1) * blocks * (10 + 18));
  }
}

}  // namespace
}  // namespace trireme::exec::outer_steps_test
