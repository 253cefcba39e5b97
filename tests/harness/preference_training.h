// Training on compared and on rewarded answers: jobs with the log-probabilities that they compare with.
#pragma once

#include <gtest/gtest.h>

#include "tests/harness/preferences.h"
#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/train/run/reference.h"

namespace trireme::harness {

class PreferenceTraining : public testing::Test {
 protected:
  Sets on(const std::string& name, std::int64_t seq_len) const {
    return {"data.source=preferences", "data.path=" + (directory_ / name).string(),
            "data.chat=phi4_mini", "model.vocab=256", fmt::format("model.seq_len={}", seq_len)};
  }
  // The job with the log-probabilities that its own layout computes.
  config::Job with_reference(config::Job job) {
    job.preference.reference = (directory_ / fmt::format("reference{}", ++references_)).string();
    prepare(job, world_of(job));
    return job;
  }
  void prepare(const config::Job& job, int world) {
    train::TrainSetup setup{.job = config::resolve(job, world, {.vocab = 256}),
                            .dataset = job.data.path,
                            .out = directory_ / "run"};
    comm::run_local_ranks(world, 120, [&](comm::World& rank) {
      train::prepare_reference(setup, rank, [](auto&) {});
    });
  }
  static int world_of(const config::Job& job) {
    const config::Parallel& parallel = job.parallel;
    return parallel.pp * parallel.dp_shard * parallel.cp * parallel.tp;
  }

  harness::ScratchDirectory directory_;
  int references_ = 0;
};

inline const std::vector<Sets> kEveryLayout = {
    {},
    {"run.micro_batch=2"},
    {"parallel.dp_shard=4"},
    {"parallel.dp_shard=4", "parallel.zero=3"},
    {"parallel.tp=2"},
    {"parallel.tp=2", "parallel.sequence_parallel=false"},
    {"parallel.cp=2"},
    {"parallel.cp=2", "parallel.context=ulysses"},
    {"parallel.pp=2"},
    {"parallel.pp=2", "parallel.schedule=zb_h1"},
    {"parallel.tp=2", "parallel.cp=2"},
    {"parallel.dp_shard=2", "parallel.pp=2", "parallel.zero=3"}};

}  // namespace trireme::harness
