// A run that keeps the optimizer states of another has the bits of that run, resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "tests/config/error_of.h"
#include "tests/harness/watched_runs.h"
#include "trireme/base/error.h"
#include "trireme/train/run/train_state.h"

namespace trireme::train::continue_test {
namespace {

using harness::Sets;
using harness::Watch;
using harness::operator+;
using testing::HasSubstr;

constexpr std::int64_t kFirst = 6, kMore = 5;

class Continuing : public harness::WatchedRuns {
 protected:
  void SetUp() override {
    prepare("data", text("abcdefgh ijkl. "));
    prepare("other", text("stuvw, xyz! "));
    run_to_the_end({.out = "first", .sets = job(kFirst)});
  }

  static std::string text(const std::string& words) {
    std::string text;
    while (text.size() < 6000) text += words + std::to_string(text.size() * 7 % 91);
    return text;
  }
  // Noise, a warm-up that is over, and a rate that stays.
  static Sets job(std::int64_t steps) {
    return {fmt::format("run.steps={}", steps),
            "optim.schedule=constant",
            "optim.warmup_steps=3",
            "optim.lr=0.01",
            "model.dropout=0.1",
            "checkpoint.every=2",
            "checkpoint.async=false"};
  }
  Sets continued(std::int64_t steps) const {
    return job(steps) +
           Sets{"model.weights=" + checkpoint("first", kFirst).string(), "optim.from_weights=true"};
  }
  Watch run_to_the_end(const harness::WatchedRun& run) {
    Watch watch;
    EXPECT_EQ(WatchedRuns::run(run, watch), Ending::kDone);
    return watch;
  }
  Watch resume_first() {
    std::filesystem::create_directories(scratch_ / "resumed" / "checkpoints");
    std::filesystem::copy(checkpoint("first", kFirst), checkpoint("resumed", kFirst));
    return run_to_the_end(
        {.out = "resumed", .sets = job(kFirst + kMore), .resume = checkpoint("resumed", kFirst)});
  }
  // Tensors of all files, without the headers, in which the step stands.
  std::map<std::string, std::string> values(const std::string& out, std::int64_t step) {
    std::map<std::string, std::string> all = shards(out, step);
    for (auto& [name, bytes] : all) {
      std::uint64_t header = 0;
      std::memcpy(&header, bytes.data(), sizeof header);
      bytes.erase(0, sizeof header + header);
      EXPECT_FALSE(bytes.empty()) << name;
    }
    return all;
  }
  std::int64_t consumed(const std::string& out, std::int64_t step) const {
    return formats::read_manifest(checkpoint(out, step)).consumed_samples;
  }
  std::string refusal(const Sets& sets) {
    return config::usage_error_of([&] { run_to_the_end({.out = "refused", .sets = sets}); });
  }
};

std::map<std::int64_t, double> later(const std::map<std::int64_t, double>& losses,
                                     std::int64_t by) {
  std::map<std::int64_t, double> moved;
  for (const auto& [step, loss] : losses) moved[step + by] = loss;
  return moved;
}

TEST_F(Continuing, HasTheBitsOfResuming) {
  const Watch resumed = resume_first();
  const Watch refined = run_to_the_end({.out = "refined", .sets = continued(kMore)});
  EXPECT_EQ(later(refined.losses, kFirst), resumed.losses);
  EXPECT_TRUE(values("refined", kMore) == values("resumed", kFirst + kMore));
  EXPECT_EQ(consumed("refined", kMore), consumed("resumed", kFirst + kMore));
  // Negative control: parameters alone are not enough.
  const Watch anew =
      run_to_the_end({.out = "anew", .sets = continued(kMore) + Sets{"optim.from_weights=false"}});
  EXPECT_FALSE(values("anew", kMore) == values("resumed", kFirst + kMore));
}

TEST_F(Continuing, GoesOnFromItsOwnCheckpoints) {
  const Watch whole = run_to_the_end({.out = "whole", .sets = continued(kMore)});
  run_to_the_end({.out = "part", .sets = continued(2)});
  const Watch rest =
      run_to_the_end({.out = "part", .sets = continued(kMore), .resume = checkpoint("part", 2)});
  EXPECT_EQ(rest.losses.at(kMore), whole.losses.at(kMore));
  EXPECT_TRUE(shards("part", kMore) == shards("whole", kMore));
  // A third run counts what both did before it.
  run_to_the_end(
      {.out = "third",
       .sets = continued(2) + Sets{"model.weights=" + checkpoint("whole", kMore).string()}});
  const TrainState state =
      parse_train_state(formats::read_manifest(checkpoint("third", 2)).train_state, 2, "third");
  EXPECT_EQ(state.updates, 2);
  EXPECT_EQ(state.earlier, (Earlier{.steps = kFirst + kMore, .updates = kFirst + kMore}));
}

TEST_F(Continuing, OtherDataBeginsAtItsFirstSample) {
  run_to_the_end({.out = "else", .sets = continued(kMore), .data = "other"});
  EXPECT_EQ(consumed("else", kMore), kMore * 4);
}

TEST_F(Continuing, NeedsACheckpointOfTheSameModel) {
  EXPECT_THAT(refusal(job(kMore) + Sets{"optim.from_weights=true"}),
              HasSubstr("model.weights= holds no optimizer states"));
  try {
    run_to_the_end({.out = "refused", .sets = continued(kMore) + Sets{"model.layers=3"}});
    ADD_FAILURE() << "a third layer has no states";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("optim.from_weights=true: "));
    EXPECT_THAT(error.what(), HasSubstr("begin with its parameters alone"));
  }
}

}  // namespace
}  // namespace trireme::train::continue_test
