// Runs of the trainer with samples or a model of their own.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "tests/formats/scratch.h"
#include "tests/harness/jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/train/trainer.h"

namespace trireme::extending {

struct OwnRun {
  config::Job job;
  std::function<loaders::Sources(const config::Job&)> sources{};
  std::function<exec::Model(const config::Job&, comm::World&)> model{};
  std::function<std::unique_ptr<train::Callback>()> callback{};
  Path resume{};

  // By step.
  std::map<std::int64_t, double> losses{}, evals{};

  Path out() const { return scratch / "run"; }
  Path checkpoint(std::int64_t step) const {
    return out() / "checkpoints" / fmt::format("step-{}", step);
  }

  // As many ranks as the layout has, as threads.
  void train() {
    const int ranks = job.parallel.pp * job.parallel.dp_shard * job.parallel.cp * job.parallel.tp;
    train::TrainSetup setup{.job = config::resolve(job, ranks, {}), .out = out()};
    setup.resume = resume;
    setup.build_id = "test";
    setup.sources = sources;
    setup.model = model;
    std::filesystem::create_directories(setup.out);
    comm::run_local_ranks(ranks, 120, [&](comm::World& world) {
      train::Callbacks callbacks;
      if (world.rank() == 0) {
        callbacks.push_back(std::make_unique<Keep>(*this));
        if (callback) callbacks.push_back(callback());
      }
      train::train(setup, world, callbacks);
    });
  }

  formats::Scratch scratch{};

 private:
  struct Keep : train::Callback {
    explicit Keep(OwnRun& run) : run(run) {}
    void on_step(const train::StepMetrics& m) override { run.losses[m.step] = m.loss; }
    void on_eval(const train::EvalMetrics& m) override { run.evals[m.step] = m.loss; }
    OwnRun& run;
  };
};

}  // namespace trireme::extending
