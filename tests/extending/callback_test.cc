// A callback of the trainer: losses as CSV. docs/extending.md quotes it.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/extending/runs.h"
#include "tests/harness/small_jobs.h"
#include "trireme/base/error.h"

namespace trireme::extending::callback_test {
namespace {

using harness::Sets;

// [callback]
// Writes RUNDIR/losses.csv, of which every checkpoint finds all steps before it.
class LossCsv final : public train::Callback {
 public:
  void on_start(const train::RunInfo& info) override {
    file_ = info.out / "losses.csv";
    if (std::filesystem::exists(file_)) read();
    on_rewind(info.first_step);  // later lines are those of a discarded history
  }
  void on_step(const train::StepMetrics& m) override {
    lines_[m.step] = fmt::format("{},{},{}", m.step, m.loss, m.lr);
  }
  void on_rewind(std::int64_t step) override {
    lines_.erase(lines_.upper_bound(step), lines_.end());
  }
  void before_checkpoint() override { write(); }
  void on_end(const train::RunEnd&) override { write(); }

 private:
  void read() {
    std::istringstream text(read_file(file_));
    std::string line;
    std::getline(text, line);  // names of columns
    while (std::getline(text, line)) lines_[std::stoll(line)] = line;
  }
  void write() const {
    std::string text = "step,loss,lr\n";
    for (const auto& [step, line] : lines_) text += line + "\n";
    replace_file(file_, text);  // throws Error{kData}, and the checkpoint is not written
  }

  Path file_;
  std::map<std::int64_t, std::string> lines_;
};
// [end]

config::Job job_of(std::int64_t steps) {
  config::Job job = harness::small_llama(
      DType::kF32, {"data.source=words", "data.samples=16", "data.validation=4", "model.vocab=256",
                    "optim.schedule=constant", "checkpoint.every=3", "parallel.dp_shard=2"});
  job.run.steps = steps;
  return job;
}

std::unique_ptr<train::Callback> loss_csv() { return std::make_unique<LossCsv>(); }

TEST(OwnCallback, AResumedRunWritesTheFileOfAnUninterruptedOne) {
  OwnRun whole{.job = job_of(6), .callback = loss_csv};
  whole.train();
  OwnRun half{.job = job_of(3), .callback = loss_csv};
  half.train();
  half.job = job_of(6);
  half.resume = half.checkpoint(3);
  half.train();
  const std::string text = read_file(whole.out() / "losses.csv");
  EXPECT_EQ(std::ranges::count(text, '\n'), 7);
  EXPECT_EQ(text, read_file(half.out() / "losses.csv"));
}

TEST(OwnCallback, ForgetsStepsThatAreTakenBack) {
  const formats::Scratch scratch;
  LossCsv csv;
  csv.on_start({.out = scratch.path()});
  for (const std::int64_t step : {1, 2, 3}) csv.on_step({.step = step, .loss = 1, .lr = 0.5});
  csv.on_rewind(2);
  csv.before_checkpoint();
  EXPECT_EQ(read_file(scratch / "losses.csv"), "step,loss,lr\n1,1,0.5\n2,1,0.5\n");
  LossCsv resumed;
  resumed.on_start({.out = scratch.path(), .first_step = 1});
  resumed.on_end({.checkpoint = {}});
  EXPECT_EQ(read_file(scratch / "losses.csv"), "step,loss,lr\n1,1,0.5\n");
}

TEST(OwnCallback, AFullDiskIsTheReasonForAMissingCheckpoint) {
  const formats::Scratch scratch;
  LossCsv csv;
  csv.on_start({.out = scratch / "gone"});
  EXPECT_THROW(csv.before_checkpoint(), Error);
}

}  // namespace
}  // namespace trireme::extending::callback_test
