// Recordings of one job are the same under every layout, and comparisons say where they are not.
#include "trireme/train/recording/recording.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/recordings.h"
#include "trireme/base/ulps.h"
#include "trireme/train/recording/compare.h"

namespace trireme::train::recording_test {
namespace {

using config::Family;
using harness::record_layout;
using harness::tiny_job;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Comparison> against_one_rank(const config::Job& job, const std::string& layout) {
  return compare(record_layout(job, ""), record_layout(job, layout));
}

class Recordings : public testing::TestWithParam<Family> {};

TEST_P(Recordings, HoldAllOfAStepInOrder) {
  const config::Job job = tiny_job(GetParam(), DType::kF64);
  const Recording one = record_layout(job, "");
  ASSERT_EQ(one.losses.size(), 2u);
  EXPECT_EQ(one.ended, "");
  int last_step = kStart;
  Kind last_kind = Kind::kParameter;
  double squares = 0;
  for (const RecordedTensor& tensor : one.tensors) {
    EXPECT_EQ(std::ssize(tensor.values), tensor.numel()) << tensor.name;
    EXPECT_TRUE(tensor.strays.empty()) << tensor.name;
    EXPECT_TRUE(tensor.step > last_step || (tensor.step == last_step && tensor.kind >= last_kind));
    last_step = tensor.step;
    last_kind = tensor.kind;
    for (const double value : tensor.values) squares += value * value;
  }
  EXPECT_EQ(last_step, 1);
  EXPECT_EQ(last_kind, Kind::kUpdate);
  EXPECT_GT(squares, 0);
  const auto embed = std::ranges::find(one.tensors, Kind::kActivation, &RecordedTensor::kind);
  EXPECT_EQ(embed->name, "embed");
  EXPECT_EQ(embed->step, 0);
  EXPECT_THAT(embed->shape, ElementsAre(job.run.global_batch, job.model.seq_len, job.model.hidden));
  const RecordedTensor& loss = embed[job.model.layers + 1];
  EXPECT_EQ(loss.name, "head");
  double sum = 0;
  for (const double part : loss.values) sum += part;
  EXPECT_NEAR(sum / static_cast<double>(job.run.global_batch * job.model.seq_len), one.losses[0],
              1e-12);
}

TEST_P(Recordings, OfDataParallelLayoutsAreEqualToTheLastBit) {
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16})
    for (const char* layout : {"dp_shard=2", "dp_shard=2,zero=1", "dp_shard=4,zero=2",
                               "dp_shard=2,dp_replicate=2,zero=3"})
      for (const Comparison& row : against_one_rank(tiny_job(GetParam(), type), layout)) {
        EXPECT_TRUE(row.compared);
        EXPECT_EQ(row.relative, 0) << layout << " " << row.name;
        EXPECT_EQ(row.ulps, 0u) << layout << " " << row.name;
        EXPECT_EQ(row.strays, 0) << layout << " " << row.name;
      }
}

// A row, shard or element put in the wrong place would be wrong by far.
TEST_P(Recordings, OfOtherLayoutsAreEqualButForRounding) {
  config::Job job = tiny_job(GetParam(), DType::kF64);
  job.run.micro_batch = 2;
  job.model.seq_len = 24;
  job.model.vocab = 127;
  for (const char* layout :
       {"tp=2", "tp=3", "tp=4,sequence_parallel=false", "cp=2", "cp=3,context=ulysses",
        "tp=2,cp=2,dp_shard=2,zero=3", "tp=3,cp=2,sequence_parallel=false,zero=1",
        "recompute.policy=full", "precision.numerics=fast", "tp=2,dp_replicate=2,zero=2"}) {
    job.data.documents = layout[0] == 'c';  // whose tokens each micro-batch shares in its own way
    job.model.seq_len = job.data.documents ? 96 : 24;
    for (const Comparison& row : against_one_rank(job, layout)) {
      EXPECT_TRUE(row.compared) << layout << " " << row.name;
      EXPECT_LT(row.relative, row.kind == Kind::kUpdate ? 1e-11 : 1e-12)
          << layout << " " << name(row.kind) << " " << row.name << " of step " << row.step;
      EXPECT_EQ(row.strays, 0) << layout << " " << row.name;
    }
  }
}

// Losses of micro-batches of other sizes as their sum.
TEST_P(Recordings, OfOtherMicroBatchesAreComparedSampleBySample) {
  config::Job job = tiny_job(GetParam(), DType::kF64);
  job.model.dropout = 0;  // noise is a micro-batch's
  const std::vector<Comparison> rows = against_one_rank(job, "run.micro_batch=2,dp_shard=2");
  for (const Comparison& row : rows) {
    EXPECT_TRUE(row.compared) << row.name << row.why_not;
    EXPECT_LT(row.relative, row.kind == Kind::kUpdate ? 1e-11 : 1e-12) << row.name;
    if (row.loss) {
      EXPECT_EQ(row.micro_batch, -1);
    }
  }
}

TEST_P(Recordings, OfLowPrecisionStayWithinTheirTolerance) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const config::Job job = tiny_job(GetParam(), type);
    for (const char* layout : {"tp=2", "cp=2", "tp=2,cp=2,dp_shard=2,zero=3"})
      for (const Comparison& row :
           compare(record_layout(job, "", 3), record_layout(job, layout, 3)))
        EXPECT_LT(row.relative, default_tolerance(type))
            << layout << " " << name(row.kind) << " " << row.name << " of step " << row.step;
  }
}

TEST_P(Recordings, WithOneUpdateMissingNameIt) {
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16}) {
    const config::Job job = tiny_job(GetParam(), type);
    const Recording one = record_layout(job, "");
    Recording two = record_layout(job, "tp=2");
    for (RecordedTensor& tensor : two.tensors) {
      if (tensor.kind != Kind::kUpdate) continue;
      const std::vector<double> right = tensor.values;
      for (double& value : tensor.values) value = 0;
      const std::vector<Comparison> rows = compare(one, two);
      const auto first = std::ranges::find_if(
          rows, [&](const Comparison& row) { return row.relative > default_tolerance(type); });
      ASSERT_NE(first, rows.end()) << name(type) << " " << tensor.name;
      EXPECT_EQ(first->name, tensor.name) << name(type);
      EXPECT_EQ(first->kind, Kind::kUpdate);
      EXPECT_EQ(first->step, tensor.step);
      tensor.values = right;
    }
  }
}

TEST_P(Recordings, OfOtherInitialValuesPartAtTheStart) {
  config::Job job = tiny_job(GetParam(), DType::kF64);
  const Recording one = record_layout(job, "");
  job.run.seed += 1;
  const Comparison first = compare(one, record_layout(job, "")).front();
  EXPECT_EQ(first.kind, Kind::kParameter);
  EXPECT_EQ(first.step, kStart);
  EXPECT_GT(first.relative, 0.1);
}

// Wherever one rank's share of an update is wrong, that rank is named.
TEST(Recordings, WithAnUpdateScaledOnOneRankNameTheRank) {
  const config::Job job = tiny_job(Family::kGpt, DType::kF32);
  const Recording one = record_layout(job, "");
  for (const char* layout : {"tp=2", "dp_shard=2,zero=1"}) {
    Recording two = record_layout(job, layout);
    const auto tensor = std::ranges::find_if(two.tensors, [](const RecordedTensor& each) {
      return each.kind == Kind::kUpdate && each.step == 1 && each.holders.size() == 2 &&
             each.rank_of(0) != each.rank_of(each.numel() - 1);
    });
    ASSERT_NE(tensor, two.tensors.end()) << layout;
    for (const model::Extent& extent : tensor->holders[1].extents)
      for (std::int64_t i = 0; i < extent.count; ++i) tensor->values[extent.global + i] *= 1.01;
    const std::vector<Comparison> rows = compare(one, two);
    const auto first = std::ranges::find_if(
        rows, [](const Comparison& row) { return row.relative > default_tolerance(DType::kF32); });
    ASSERT_NE(first, rows.end()) << layout;
    EXPECT_EQ(first->name, tensor->name);
    EXPECT_EQ(first->kind, Kind::kUpdate);
    EXPECT_EQ(first->rank, 1) << layout;
  }
}

TEST(Recordings, WithAnUpdateOfACopyMissingNameTheCopy) {
  const config::Job job = tiny_job(Family::kLlama, DType::kF32);
  const Recording one = record_layout(job, "");
  Recording two = record_layout(job, "dp_shard=2");
  RecordedTensor& last = two.tensors.back();
  ASSERT_EQ(last.holders.size(), 2u);
  last.strays.push_back({.rank = 1,
                         .extents = {{.global = 0, .count = last.numel()}},
                         .values = at::zeros({last.numel()}, at::kDouble)});
  const Comparison row = compare(one, two).back();
  EXPECT_GT(row.relative, 0.5);
  EXPECT_EQ(row.rank, 1);
  EXPECT_EQ(row.peer, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Recordings, testing::Values(Family::kGpt, Family::kLlama),
                         [](const auto& info) {
                           return info.param == Family::kGpt ? "gpt" : "llama";
                         });

TEST(Recordings, EndWithAStepThatIsNotFinite) {
  config::Job job = tiny_job(Family::kGpt, DType::kF32);
  job.model.init_std = 10;
  job.optim.lr = 100;
  job.optim.clip = 0;
  job.optim.schedule = config::LrSchedule::kConstant;
  job.model.norm_eps = 1e-30;
  const Recording one = harness::record_layout(job, "", 40);
  if (one.ended.empty()) GTEST_FAIL() << "forty steps, all finite";
  EXPECT_THAT(one.ended, HasSubstr("no parameter was changed"));
  EXPECT_LT(one.losses.size(), 40u);
  EXPECT_TRUE(one.tensors.back().values.empty());
  const std::vector<Comparison> rows = compare(one, harness::record_layout(job, "dp_shard=2", 40));
  for (const Comparison& row : rows) EXPECT_EQ(row.relative, 0) << row.name << row.step;
}

TEST(RecordingBytes, CountWhatIsKept) {
  const config::Job job = harness::laid_out(tiny_job(Family::kLlama, DType::kF32), "tp=2");
  const Recording recording = record_layout(job, "tp=2");
  std::int64_t kept = 0;
  for (const RecordedTensor& tensor : recording.tensors) kept += 8 * std::ssize(tensor.values);
  EXPECT_EQ(recording_bytes(job, 2).kept, kept);
  EXPECT_GT(recording_bytes(job, 2).passing, kept / 2);
}

// Two recordings of one tensor each, with what differs planted.
class Compare : public testing::Test {
 protected:
  Compare() {
    RecordedTensor tensor{.step = 3, .kind = Kind::kActivation, .name = "block.1"};
    tensor.type = DType::kF64;
    tensor.shape = {4, 2, 3};
    for (int i = 0; i < 24; ++i) tensor.values.push_back(1 + i);
    for (int rank = 0; rank < 2; ++rank)
      tensor.holders.push_back({.rank = rank, .extents = {{.global = 12 * rank, .count = 12}}});
    tensor.by_sample = true;
    tensor.rows = {2, 2};
    a_.tensors = b_.tensors = {tensor};
  }

  Comparison only() const { return compare(a_, b_).at(0); }
  std::vector<double>& values() { return b_.tensors[0].values; }

  Recording a_, b_;
};

TEST_F(Compare, EqualIsEqual) {
  EXPECT_EQ(only().relative, 0);
  EXPECT_EQ(only().ulps, 0u);
  EXPECT_EQ(only().peer, -1);
}

TEST_F(Compare, NamesTheWorstElementAndWhoComputedIt) {
  values()[2] += 1e-9;
  values()[17] = std::nextafter(std::nextafter(18.0, 19), 19) + 0.5;
  const Comparison row = only();
  EXPECT_THAT(row.at, ElementsAre(2, 1, 2));
  EXPECT_EQ(row.micro_batch, 1);
  EXPECT_EQ(row.rank, 1);
  EXPECT_EQ(row.a, 18);
  EXPECT_EQ(row.b, values()[17]);
  EXPECT_EQ(row.ulps, ulps_between(18, values()[17], DType::kF64));
  EXPECT_NEAR(row.relative, 0.5 / std::sqrt(24 * 25 * 49 / 6.0), 1e-9);
}

TEST_F(Compare, WhatIsNotFiniteIsInfinitelyFar) {
  values()[5] = NAN;
  EXPECT_EQ(only().relative, std::numeric_limits<double>::infinity());
  EXPECT_THAT(only().at, ElementsAre(0, 1, 2));
  a_.tensors[0].values[5] = NAN;
  EXPECT_EQ(only().relative, 0);
}

TEST_F(Compare, NamesARankUnlikeItsPeers) {
  for (Recording* run : {&a_, &b_}) {
    const Recording before = *run;
    run->tensors[0].strays.push_back({.rank = 3,
                                      .extents = {{.global = 12, .local = 2, .count = 12}},
                                      .values = at::arange(11.0, 25.0, at::kDouble)});
    run->tensors[0].strays[0].values[4] += 0.25;
    const Comparison row = only();
    EXPECT_THAT(row.at, ElementsAre(2, 0, 2));
    EXPECT_EQ(row.rank, 3);
    EXPECT_EQ(row.peer, 1);
    EXPECT_EQ(row.first_run, run == &a_);
    EXPECT_EQ(row.a, 15);
    EXPECT_EQ(row.b, 15.25);
    EXPECT_EQ(row.strays, 1);
    *run = before;
  }
}

TEST_F(Compare, SmallTensorsAreMeasuredByAllOfTheirKind) {
  RecordedTensor& small = a_.tensors.emplace_back(a_.tensors[0]);
  for (double& value : small.values) value = 1e-9;
  b_.tensors.push_back(small);
  b_.tensors[1].values[0] = 2e-9;
  EXPECT_NEAR(compare(a_, b_)[1].relative, 1e-9 / (kSmallNorm * std::sqrt(24 * 25 * 49 / 6.0)),
              1e-12);
}

// The first gradient element is all noise, the last ones are none; Adam's steps are whole for both.
TEST_F(Compare, UpdatesOfNoiseAreLeftOut) {
  RecordedTensor parameter = a_.tensors[0];
  parameter.kind = Kind::kParameter;
  RecordedTensor gradient = parameter;
  gradient.kind = Kind::kGradient;
  RecordedTensor update = parameter;
  update.kind = Kind::kUpdate;
  for (double& value : update.values) value = 1e-3;
  a_.tensors = b_.tensors = {parameter, gradient, update};
  a_.tensors[1].values[0] = 1e-18;
  b_.tensors[1].values[0] = -1e-18;
  b_.tensors[2].values[0] = -1e-3;
  Comparison row = compare(a_, b_)[2];
  EXPECT_EQ(row.relative, 0);
  EXPECT_GT(row.ulps, 0u);
  EXPECT_THAT(row.at, ElementsAre(0, 0, 0));
  b_.tensors[2].values[4] += 1e-16;  // less than an ulp of the parameter, 5
  EXPECT_EQ(compare(a_, b_)[2].relative, 0);
  b_.tensors[2].values[5] = 0;
  row = compare(a_, b_)[2];
  EXPECT_NEAR(row.relative, 1 / std::sqrt(24), 1e-9);
  EXPECT_THAT(row.at, ElementsAre(0, 1, 2));
}

TEST_F(Compare, OtherShapesAreSaid) {
  b_.tensors[0].shape = {24};
  EXPECT_FALSE(only().compared);
  b_.tensors[0].values.clear();
  EXPECT_FALSE(only().compared);
}

TEST_F(Compare, RowsThatAreNoSamplesCountWithinTheirMicroBatch) {
  for (Recording* run : {&a_, &b_}) {
    run->tensors[0].by_sample = false;
    run->tensors[0].rows = {1, 3};
  }
  values()[23] += 1;
  EXPECT_EQ(only().micro_batch, 1);
  EXPECT_THAT(only().at, ElementsAre(2, 1, 2));
}

TEST_F(Compare, OtherNumbersOfRowsAreInfinitelyFarAndNamed) {
  b_.tensors[0].rows = {3, 1};
  Comparison row = only();
  EXPECT_TRUE(row.compared);
  EXPECT_EQ(row.relative, std::numeric_limits<double>::infinity());
  ASSERT_TRUE(row.rows.has_value());
  EXPECT_EQ(row.rows->a, 2);
  EXPECT_EQ(row.rows->b, 3);
  EXPECT_EQ(row.micro_batch, 0);
  EXPECT_EQ(row.peer, -1);
  b_.tensors[0].rows = {4};  // one micro-batch of the samples of two
  EXPECT_FALSE(only().rows.has_value());
  EXPECT_EQ(only().relative, 0);
  a_.tensors[0].within = true;
  EXPECT_FALSE(only().compared);
  EXPECT_THAT(only().why_not, HasSubstr("numbered or ordered"));
  b_.tensors[0].rows = {2, 2};
  b_.tensors[0].miscounts = {{.micro_batch = 1, .rank = 3, .rows = 5, .peer = 1, .peer_rows = 2}};
  row = only();
  EXPECT_EQ(row.rank, 3);
  EXPECT_EQ(row.peer, 1);
  EXPECT_EQ(row.rows->b, 5);
  EXPECT_EQ(row.relative, std::numeric_limits<double>::infinity());
}

// A blank picture belongs to no sample.
TEST_F(Compare, BlankRowsOfOtherMicroBatchesAreSaid) {
  a_.tensors[0].blanks = b_.tensors[0].blanks = true;
  b_.tensors[0].rows = {3};
  b_.tensors[0].shape[0] = 3;
  b_.tensors[0].values.resize(18);
  EXPECT_FALSE(only().compared);
  EXPECT_THAT(only().why_not, HasSubstr("blank"));
}

TEST_F(Compare, LossesOfOtherMicroBatchesAreSums) {
  RecordedTensor loss{.step = 3, .kind = Kind::kActivation, .name = "head", .type = DType::kF64};
  loss.loss = true;
  loss.shape = {4};
  loss.values = {1, 2, 3, 4};
  loss.holders = {{.rank = 0, .extents = {{.count = 4}}}};
  a_.tensors = {loss};
  loss.shape = {2};
  loss.values = {3, 7};
  loss.holders = {{.rank = 1, .extents = {{.count = 2}}}};
  b_.tensors = {loss};
  EXPECT_EQ(only().relative, 0);
  b_.tensors[0].strays.push_back({.rank = 2,
                                  .extents = {{.global = 1, .count = 1}},
                                  .values = at::full({1}, 8.0, at::kDouble)});
  EXPECT_EQ(only().relative, 0.1);
  EXPECT_EQ(only().b, 11);
  EXPECT_EQ(only().rank, 2);
  EXPECT_EQ(only().peer, 1);
}

TEST_F(Compare, RefusesOtherModels) {
  b_.tensors[0].name = "block.2";
  EXPECT_THROW(only(), Error);
}

}  // namespace
}  // namespace trireme::train::recording_test
