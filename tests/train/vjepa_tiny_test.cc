// recipes/vjepa_tiny.yaml, and what is built on it, learn what they are for.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/harness/scratch_directory.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/train/job_session.h"

namespace trireme::train::vjepa_tiny_test {
namespace {

struct Learned {
  std::vector<double> losses;   // of a sample
  std::vector<double> metrics;  // the first one

  double last_losses(std::size_t count) const { return last(losses, count); }
  double last_metrics(std::size_t count) const { return last(metrics, count); }

 private:
  static double last(const std::vector<double>& values, std::size_t count) {
    return std::accumulate(values.end() - static_cast<std::ptrdiff_t>(count), values.end(), 0.0) /
           static_cast<double>(count);
  }
};

double metric(const exec::StepResult& result) {
  return result.counts.empty() ? 0 : result.counts[0].sum / result.counts[0].of;
}

// The first steps of a recipe on one rank, between what is done with its units.
Learned learn(const std::string& recipe, std::int64_t count,
              const std::function<void(exec::Session&, comm::World&)>& before,
              const std::function<void(exec::Session&, comm::World&)>& after) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / recipe);
  // One micro-batch a step: the teacher's spread is that of the clips of a micro-batch.
  job.run.micro_batch = job.run.global_batch;
  job = config::resolve(job, 1, config::synthetic_source(job.data.source)->facts);
  Learned learned;
  comm::run_local_ranks(1, 600, [&](comm::World& world) {
    JobSession steps(job, world);
    before(steps.session(), world);
    const loaders::Sources sources = loaders::open_sources(job, {});
    const JobSession::Load load(
        [&](std::int64_t first) { return sources.train->batch(first, job.run.micro_batch); },
        [&](std::int64_t first, std::int64_t all) { return sources.train->weight(first, all); });
    for (std::int64_t step = 0; step < count; ++step) {
      const exec::StepResult result = steps.train(step, false, load);
      learned.losses.push_back(result.loss);
      learned.metrics.push_back(metric(result));
    }
    after(steps.session(), world);
  });
  return learned;
}

const std::vector<model::UnitSpec>& specs(exec::Session& session) {
  return session.model().spec.units;
}

TEST(VjepaTiny, LearnsAndItsFeaturesFollowActions_slow) {
  const harness::ScratchDirectory scratch;
  const auto nothing = [](exec::Session&, comm::World&) {};
  const Learned clips =
      learn("vjepa_tiny.yaml", 60, nothing, [&](exec::Session& session, comm::World& world) {
        checkpoint::save(scratch.path(), {.step = 60}, session.units(), specs(session), world);
      });
  EXPECT_LT(clips.last_losses(10), 0.79);
  EXPECT_GT(clips.metrics.back(), 0.9);  // the teacher has not collapsed

  const auto begin = [&](exec::Session& session, comm::World&) {
    checkpoint::load_weights(scratch / "step-60", session.units(), specs(session),
                             checkpoint::NewUnits::kAsDrawn);
    session.units().refresh();
  };
  // Both get there long before their recipes end.
  const Learned probe = learn("probe_tiny.yaml", 120, begin, nothing);
  EXPECT_GT(probe.last_metrics(10), 3.0 / 8);  // three times chance

  const Learned actions = learn("ac_tiny.yaml", 30, begin, nothing);
  EXPECT_LT(actions.last_losses(10), 0.75 * actions.losses[0]);
}

}  // namespace
}  // namespace trireme::train::vjepa_tiny_test
