// Small runs on a text of the test's own, and what their callbacks saw.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/formats/scratch.h"
#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/data/text/dataset.h"
#include "trireme/data/text/sources.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/train/callbacks/jsonl.h"
#include "trireme/train/trainer.h"

namespace trireme::harness {

// Of steps that were taken back the last is kept.
struct Watch {
  std::function<void(std::int64_t)> at_step = [](std::int64_t) {};
  std::function<void()> before_checkpoint = [] {};
  std::map<std::int64_t, double> losses, evals;
  std::vector<train::CheckpointMetrics> checkpoints;
  std::vector<formats::Event> faults;
  std::vector<std::int64_t> rewinds;  // steps that training went back to
  train::RunInfo start;
  train::RunEnd end;
};

// A run's callback; the watch outlives it.
class Watching : public train::Callback {
 public:
  explicit Watching(Watch& watch) : watch_(watch) {}
  void on_start(const train::RunInfo& info) override { watch_.start = info; }
  void on_step(const train::StepMetrics& m) override {
    watch_.losses[m.step] = m.loss;
    watch_.at_step(m.step);
  }
  void on_eval(const train::EvalMetrics& m) override { watch_.evals[m.step] = m.loss; }
  void on_fault(const formats::Event& fault) override { watch_.faults.push_back(fault); }
  void on_rewind(std::int64_t step) override { watch_.rewinds.push_back(step); }
  void before_checkpoint() override { watch_.before_checkpoint(); }
  void on_checkpoint(const train::CheckpointMetrics& m) override {
    watch_.checkpoints.push_back(m);
  }
  void on_end(const train::RunEnd& e) override { watch_.end = e; }

 private:
  Watch& watch_;
};

struct WatchedRun {
  std::string out;
  Sets sets{};  // beside a GPT of two layers
  int ranks = 2;
  std::string data = "data";
  Path resume{};
  os::FileSystem* files = &os::real_file_system();
  const std::atomic<int>* stop = nullptr;
  std::function<Path(int rank)> memory = [](int) { return Path(); };  // of its host
  os::FileSystem* memory_files = &os::real_file_system();
};

class WatchedRuns : public testing::Test {
 protected:
  // Tokens are bytes; the last fifth is for validation.
  void prepare(const std::string& name, const std::string& text) {
    text::prepare_dataset({.sources = text::collect_sources({scratch_.write(name + ".txt", text)}),
                           .out = scratch_ / name,
                           .validation = {.by = text::ValidationRule::By::kTail, .fraction = 0.2}});
  }

  config::Job job_of(const WatchedRun& run) const {
    const Sets small = {"model.layers=2",    "model.hidden=32",      "model.heads=4",
                        "model.seq_len=16",  "run.global_batch=4",   "run.micro_batch=1",
                        "run.eval_every=-1", "optim.warmup_steps=0", "parallel.dp_shard=-1"};
    return config::resolve(harness::job_of("gpt_tiny.yaml", small, run.sets), run.ranks,
                           {.vocab = 256});
  }

  train::Ending run(const WatchedRun& run, Watch& watch) {
    train::TrainSetup setup;
    setup.job = job_of(run);
    setup.dataset = scratch_ / run.data;
    setup.out = scratch_ / run.out;
    setup.resume = run.resume;
    setup.build_id = "test";
    setup.files = run.files;
    setup.stop = run.stop;
    setup.memory_files = run.memory_files;
    std::filesystem::create_directories(setup.out);
    train::Ending ending{};
    comm::run_local_ranks(run.ranks, 600, [&](comm::World& world) {
      train::Callbacks callbacks;
      if (world.rank() == 0) {
        callbacks.push_back(train::jsonl_callback());
        callbacks.push_back(std::make_unique<Watching>(watch));
      }
      train::TrainSetup rank = setup;
      rank.memory = run.memory(world.rank());
      const train::Ending mine = train::train(rank, world, callbacks);
      if (world.rank() == 0) ending = mine;
    });
    return ending;
  }

  Path checkpoint(const std::string& out, std::int64_t step) const {
    return scratch_ / out / "checkpoints" / fmt::format("step-{}", step);
  }

  // Steps of which every byte is as it was written; nothing else lies beside them.
  std::set<std::int64_t> saved(const std::string& out) {
    const Path root = scratch_ / out / "checkpoints";
    std::set<std::int64_t> steps;
    for (const auto& entry :
         formats::list_checkpoints(root, formats::CheckpointCheck::kEveryByte)) {
      EXPECT_EQ(entry.problem, "");
      steps.insert(entry.step);
    }
    for (const auto& entry : std::filesystem::directory_iterator(root))
      EXPECT_TRUE(formats::step_of(entry.path().filename())) << entry.path();
    return steps;
  }

  // All files but the manifest, by name.
  std::map<std::string, std::string> shards(const std::string& out, std::int64_t step) {
    const Path directory = checkpoint(out, step);
    std::map<std::string, std::string> shards;
    for (const auto& file : formats::verify_checkpoint(directory).files)
      shards[file.name] = read_file(directory / file.name);
    return shards;
  }

  formats::Scratch scratch_;
};

}  // namespace trireme::harness
