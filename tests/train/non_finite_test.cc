// A step that is not finite changes nothing on any rank, and is traced to the rank, tensor and micro-batch it began in.
#include "trireme/train/run/non_finite.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/harness/small_jobs.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/train/job_session.h"

namespace trireme::train::non_finite_test {
namespace {

using testing::HasSubstr;

constexpr double kTimeoutS = 120;

config::Job job_of(const std::vector<std::string>& sets, int ranks) {
  config::Job job = harness::six_nodes("gpt_tiny.yaml", sets);
  job.model.vocab = 256;
  return config::resolve(job, ranks, {});
}

JobSession::Load tokens_of(const config::Job& job) {
  return [&job](std::int64_t first) {
    return loaders::random_tokens(first, job.run.micro_batch, job.model.seq_len, job.model.vocab,
                                  false);
  };
}

// The first element of a block's first parameter, as this rank holds it.
exec::StateSlice an_element(const exec::Units& units, plan::UnitId unit) {
  for (exec::StateSlice slice : units.local_slices())
    if (slice.unit == unit && slice.kind == "param") {
      slice.count = 1;
      return slice;
    }
  fail(ErrorKind::kInternal, "unit {} is not here", unit);
}

std::vector<at::Tensor> everything(const exec::Units& units) {
  std::vector<at::Tensor> all;
  for (const exec::StateSlice& slice : units.local_slices())
    all.push_back(units.read(slice).clone());
  return all;
}

TEST(NonFinite, IsSkippedOnEveryRankAndTracedToOne) {
  constexpr int kRanks = 4, kVictim = 2;
  constexpr plan::UnitId kUnit = 2;
  const config::Job job =
      job_of({"parallel.dp_replicate=4", "run.spikes=[10, 100]", "checkpoint.every=1"}, kRanks);
  comm::run_local_ranks(kRanks, kTimeoutS, [&](comm::World& world) {
    JobSession session(job, world);
    const JobSession::Load load = tokens_of(job);
    exec::Units& units = session.session().units();
    EXPECT_FALSE(session.train(0, false, load).skipped);
    const exec::StateSlice element = an_element(units, kUnit);
    const at::Tensor sound = units.read(element).clone();
    if (world.rank() == kVictim)
      units.write(element, sound + std::numeric_limits<double>::quiet_NaN());
    const std::vector<at::Tensor> before = everything(units);
    EXPECT_TRUE(session.train(1, false, load).skipped);
    EXPECT_EQ(session.non_finite_in_a_row(), 1);
    EXPECT_EQ(session.state().updates, 1);
    EXPECT_EQ(session.state().spikes.losses.size(), 1u) << "a skipped step is not judged";
    const NonFinite first = find_non_finite(session, 1, load, world);
    EXPECT_EQ(first.rank, kVictim);
    EXPECT_THAT(first.what, HasSubstr(" of micro-batch "));
    EXPECT_FALSE(first.host.empty());
    const std::vector<at::Tensor> after = everything(units);
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(before[i].allclose(after[i], 0, 0, /*equal_nan=*/true)) << i;

    units.write(element, sound);
    EXPECT_EQ(find_non_finite(session, 1, load, world).rank, -1);  // a passing fault
    EXPECT_FALSE(session.train(2, false, load).skipped);
    EXPECT_EQ(session.non_finite_in_a_row(), 0);
    EXPECT_EQ(session.state().updates, 2);
    EXPECT_EQ(session.state().spikes.losses.size(), 2u);
  });
}

TEST(NonFinite, WithoutLeaveTheFirstEndsTheRun) {
  const config::Job job = job_of({"run.skip_non_finite=0"}, 1);
  comm::run_local_ranks(1, kTimeoutS, [&](comm::World& world) {
    JobSession session(job, world);
    exec::Units& units = session.session().units();
    const exec::StateSlice element = an_element(units, 1);
    units.write(element, units.read(element) + std::numeric_limits<double>::infinity());
    try {
      session.train(0, false, tokens_of(job));
      ADD_FAILURE() << "went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    }
  });
}

TEST(NonFinite, AGradientIsNamedByParameterAndElement) {
  const config::Job job = job_of({}, 1);
  comm::run_local_ranks(1, kTimeoutS, [&](comm::World& world) {
    JobSession session(job, world);
    const exec::Units& units = session.session().units();
    const model::UnitSpec& unit = session.session().model().spec.units[1];
    at::Tensor flat = at::zeros({unit.params[0].numel() + 10});
    NonFiniteFinder finder(session.session().model().spec.program);
    finder.on_micro_batch_gradient(units, 1, 5, flat);
    EXPECT_EQ(finder.found(), "");
    flat[unit.params[0].numel() + 3] = -std::numeric_limits<double>::infinity();
    finder.on_micro_batch_gradient(units, 1, 6, flat);
    EXPECT_EQ(finder.found(),
              "the gradient of " + unit.params[1].name + "[3] in micro-batch 6 is -inf");
    flat.zero_();
    finder.on_micro_batch_gradient(units, 1, 7, flat);
    EXPECT_THAT(finder.found(), HasSubstr("micro-batch 6"));  // the first
  });
}

}  // namespace
}  // namespace trireme::train::non_finite_test
