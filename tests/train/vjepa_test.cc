// V-JEPA 2's families give one result under every layout.
#include <c10/util/BFloat16.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/harness/jobs.h"
#include "tests/harness/vjepa_jobs.h"

namespace trireme::train::vjepa_test {
namespace {

using config::Family;
using harness::distance;
using harness::JobTrace;
using harness::run_job;
using Sets = std::vector<std::string>;

constexpr int kSteps = 2;

JobTrace run(Family family, const Sets& sets) {
  return run_job(harness::vjepa_job(family, sets), kSteps);
}

class Vjepa : public testing::TestWithParam<Family> {
 protected:
  const JobTrace& reference() const {
    static std::map<Family, JobTrace> runs;
    const auto found = runs.find(GetParam());
    return found != runs.end() ? found->second
                               : runs.emplace(GetParam(), run(GetParam(), {})).first->second;
  }
  void expect_reference(const Sets& layout) const {
    EXPECT_LT(distance(reference(), run(GetParam(), layout)), 1e-12)
        << testing::PrintToString(layout);
  }
};

TEST_P(Vjepa, DataParallelismEqualsOneRank) {
  expect_reference({"run.micro_batch=4"});
  for (const char* zero : {"0", "1", "2", "3"})
    expect_reference({"parallel.dp_shard=4", fmt::format("parallel.zero={}", zero)});
}

TEST_P(Vjepa, TensorParallelismEqualsOneRank) {
  expect_reference({"parallel.tp=2"});
  expect_reference({"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"});
}

TEST_P(Vjepa, PipelinesEqualOneRank) {
  expect_reference({"parallel.pp=2", "run.micro_batch=2"});
  expect_reference({"parallel.pp=2", "parallel.dp_shard=2", "run.micro_batch=2"});
}

// One length for the samples of several micro-batches and steps.
TEST(Vjepa, CutMasksAndTwoTokensAreTheSameInEveryLayout) {
  const Sets keys = {"jepa.cut_batch=6", "jepa.mask_tokens=2"};
  const auto with = [&](Family family, Sets sets) {
    sets.insert(sets.end(), keys.begin(), keys.end());
    return run(family, sets);
  };
  const JobTrace one = with(Family::kJepa, {});
  EXPECT_GT(distance(one, run(Family::kJepa, {"jepa.mask_tokens=2"})), 1e-6) << "the cut counts";
  EXPECT_LT(distance(one, with(Family::kJepa, {"run.micro_batch=4"})), 1e-12);
  EXPECT_LT(distance(one, with(Family::kJepa, {"parallel.dp_shard=4", "parallel.zero=3"})), 1e-12);
  EXPECT_LT(
      distance(one, with(Family::kJepa, {"parallel.tp=2", "parallel.pp=2", "run.micro_batch=2"})),
      1e-12);
  EXPECT_TRUE(std::isfinite(with(Family::kHvjepa, {}).losses.back()));
}

TEST_P(Vjepa, RecomputationEqualsKeeping) { expect_reference({"recompute.policy=full"}); }

TEST_P(Vjepa, EveryComputeTypeTrains) {
  for (const char* type : {"fp32", "bf16"}) {
    const JobTrace trace = run(GetParam(), {fmt::format("precision.compute={}", type)});
    for (int step = 0; step < kSteps; ++step)
      EXPECT_NEAR(trace.losses[step], reference().losses[step], 2e-2 * reference().losses[0])
          << type;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Vjepa,
                         testing::Values(Family::kJepa, Family::kProbe, Family::kJepaAc),
                         [](const auto& family) {
                           switch (family.param) {
                             case Family::kJepa: return "Jepa";
                             case Family::kProbe: return "Probe";
                             default: return "JepaAc";
                           }
                         });

// With L1 distances to normed targets and predictions that begin near zero, a loss near sqrt(2 / pi).
TEST(Vjepa, ALossBeginsAtTheMeanDistanceOfTheNormal) {
  EXPECT_NEAR(run(Family::kJepa, {}).losses[0], std::sqrt(2 / M_PI), 0.02);
}

// Other masks would give other losses: a run's seed of data is theirs.
TEST(Vjepa, MasksFollowTheSeedOfData) {
  EXPECT_NE(run(Family::kJepa, {}).losses[0], run(Family::kJepa, {"data.seed=2"}).losses[0]);
}

std::vector<double> state(const JobTrace& trace, const std::string& name) {
  return trace.states.at(name + " param");
}

// theta' <- m theta' + (1 - m) theta: after each step the teacher is nearer to the student by what the momentum leaves.
TEST(Vjepa, TheTeacherIsAnAverageOfItsStudent) {
  const Sets sets = {"optim.lr=1e-3"};
  const config::Job job = harness::vjepa_job(Family::kJepa, sets);
  const std::string name = "encoder.blocks.0.mlp.fc1.weight";
  const JobTrace begin = run_job(job, 0), one = run_job(job, 1), two = run_job(job, 2);
  const std::vector<double> t0 = state(begin, "target_" + name), t1 = state(one, "target_" + name),
                            t2 = state(two, "target_" + name);
  const std::vector<double> s0 = state(begin, name), s1 = state(one, name), s2 = state(two, name);
  EXPECT_EQ(t0, s0);
  EXPECT_NE(s1, s0);
  for (std::size_t i = 0; i < t0.size(); ++i) {
    ASSERT_NEAR(t1[i], 0.9 * t0[i] + 0.1 * s1[i], 1e-15);
    ASSERT_NEAR(t2[i], 0.9 * t1[i] + 0.1 * s2[i], 1e-15);
  }
}

// From 0.9 down to 0.5 in four steps: 0.8, 0.7.
TEST(Vjepa, TheTeachersMomentumFollowsItsSchedule) {
  const config::Job job = harness::vjepa_job(
      Family::kJepa, {"optim.lr=1e-3", "jepa.momentum=[0.9, 0.5]", "optim.decay_steps=4"});
  const std::string name = "encoder.blocks.0.mlp.fc1.weight";
  const JobTrace begin = run_job(job, 0), one = run_job(job, 1), two = run_job(job, 2);
  const std::vector<double> t0 = state(begin, "target_" + name), t1 = state(one, "target_" + name),
                            t2 = state(two, "target_" + name);
  const std::vector<double> s1 = state(one, name), s2 = state(two, name);
  for (std::size_t i = 0; i < t0.size(); ++i) {
    ASSERT_NEAR(t1[i], 0.8 * t0[i] + 0.2 * s1[i], 1e-15);
    ASSERT_NEAR(t2[i], 0.7 * t1[i] + 0.3 * s2[i], 1e-15);
  }
}

// What has no gradient is moved by weight decay alone: 0.04 to 0.4 along half a cosine of four steps.
TEST(Vjepa, WeightDecayFollowsItsSchedule) {
  const config::Job job = harness::vjepa_job(
      Family::kJepaAc, {"optim.lr=1e-2", "optim.schedule=constant",
                        "optim.weight_decay=[0.04, 0.4]", "optim.decay_steps=4"});
  const std::string name = "action_predictor.extrinsics_encoder.weight";
  const std::vector<double> begin = state(run_job(job, 0), name),
                            end = state(run_job(job, 2), name);
  const double left =
      (1 - 1e-2 * (0.4 - 0.36 * 0.5 * (1 + std::cos(M_PI / 4)))) * (1 - 1e-2 * (0.4 - 0.36 * 0.5));
  for (std::size_t i = 0; i < begin.size(); ++i) ASSERT_NEAR(end[i], left * begin[i], 1e-15);
}

// A learning rate of 0 from the second step on: the student stands still, and what the teacher lacks of it falls by the
// momentum at every step.
TEST(Vjepa, WhatTheTeacherLacksOfAConstantStudentFallsAsPowersOfItsMomentum) {
  const config::Job job = harness::vjepa_job(
      Family::kJepa,
      {"optim.lr=1e-2", "optim.schedule=linear", "optim.warmup_steps=1", "optim.decay_steps=2"});
  const std::string name = "encoder.blocks.0.mlp.fc1.weight";
  const JobTrace one = run_job(job, 1), five = run_job(job, 5);
  const std::vector<double> student = state(one, name), first = state(one, "target_" + name),
                            last = state(five, "target_" + name);
  EXPECT_EQ(state(five, name), student);
  for (std::size_t i = 0; i < student.size(); ++i) {
    ASSERT_NE(first[i], student[i]);
    ASSERT_NEAR(last[i] - student[i], std::pow(0.9, 4) * (first[i] - student[i]), 1e-15);
  }
}

// What is left of a difference after k steps is momentum^k of it.
TEST(Vjepa, TheDefaultMomentumHalvesDifferencesIn924Steps) {
  EXPECT_NEAR(std::log(0.5) / std::log(config::Jepa{}.momentum), 923.85, 0.01);
}

float in_bf16(double value) { return static_cast<float>(c10::BFloat16(static_cast<float>(value))); }

// The reason for fp32: an average in bf16 does not move at all towards what is less than 2.6 times its size away.
TEST(Vjepa, AnAverageInBf16StaysWhereItIs) {
  const double momentum = config::Jepa{}.momentum;
  for (double teacher = 1; teacher < 2; teacher += 1.0 / 128)
    for (const double away : {-2.6, -0.5, 0.5, 2.6}) {
      const double next = momentum * teacher + (1 - momentum) * (1 + away) * teacher;
      EXPECT_EQ(in_bf16(next), teacher) << teacher << " " << away;
      EXPECT_NE(static_cast<float>(next), teacher);
    }
}

// In bf16 no weight of the teacher would move by a ten-thousandth of its student's step; its master in fp32 does.
TEST(Vjepa, TheTeacherIsKeptInFp32) {
  const config::Job job = harness::vjepa_job(
      Family::kJepa, {"precision.compute=bf16", "jepa.momentum=0.9999", "optim.lr=1e-5"});
  const std::string name = "target_encoder.blocks.0.mlp.fc1.weight";
  const std::vector<double> begin = state(run_job(job, 0), name),
                            end = state(run_job(job, 2), name);
  std::size_t moved = 0, moved_in_bf16 = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    moved += begin[i] != end[i];
    moved_in_bf16 += in_bf16(begin[i]) != in_bf16(end[i]);
  }
  EXPECT_GT(moved, begin.size() / 10);
  EXPECT_LT(moved_in_bf16, begin.size() / 100);
}

// Parameters whose gradients are never defined: exactly what has no use.
TEST(Vjepa, OnlyExtrinsicsHaveNoGradient) {
  for (const Family family : {Family::kJepaAc, Family::kJepa, Family::kHvjepa, Family::kProbe}) {
    const JobTrace trace = run(family, {});
    int trained = 0;
    for (const auto& [name, values] : trace.states) {
      if (!name.ends_with(" exp_avg")) continue;
      const bool unused = std::ranges::all_of(values, [](double value) { return value == 0; });
      EXPECT_EQ(unused, name.find("extrinsics_encoder") != std::string::npos) << name;
      ++trained;
    }
    EXPECT_GT(trained, 10);
  }
}

}  // namespace
}  // namespace trireme::train::vjepa_test
