// Sizes of V-JEPA 2's models, from their descriptions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/config/error_of.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/jepa/model.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::model::jepa_test {
namespace {

using config::Family;
using ::testing::HasSubstr;
using ::testing::Not;

using Sets = std::vector<std::string>;

struct Tower {
  std::int64_t hidden, layers, heads, ffn;
};
constexpr Tower kLarge{1024, 24, 16, 4096}, kHuge{1280, 32, 16, 5120}, kGiant{1408, 40, 22, 6144};

config::Job published(Family family, const Tower& tower) {
  config::Job job;
  job.model.family = family;
  job.vision = {.image = 256,
                .patch = 16,
                .frames = 16,
                .tubelet = 2,
                .layers = tower.layers,
                .hidden = tower.hidden,
                .heads = tower.heads,
                .ffn = tower.ffn,
                .positions = config::Positions::kRotary};
  job.data.source =
      family == Family::kJepaAc ? config::DataSource::kArm : config::DataSource::kSquares;
  return job;
}

ModelSpec described(const config::Job& job) {
  return describe(config::resolve(job, 1, {.classes = 8}));
}

// Of all parameters whose names begin so.
std::int64_t count(const ModelSpec& spec, std::string_view prefix) {
  std::int64_t numel = 0;
  for (const UnitSpec& unit : spec.units)
    for (const ParamSpec& param : unit.params)
      if (param.name.starts_with(prefix)) numel += param.numel();
  return numel;
}

TEST(Jepa, EncodersHaveThePublishedParameters) {
  const auto encoder = [](const Tower& tower, std::string_view prefix) {
    return count(described(published(Family::kJepa, tower)), prefix);
  };
  EXPECT_EQ(encoder(kLarge, "encoder."), 303'885'312);
  EXPECT_EQ(encoder(kHuge, "encoder."), 631'648'000);
  EXPECT_EQ(encoder(kGiant, "encoder."), 1'012'173'952);
  EXPECT_EQ(encoder({1408, 40, 16, 6144}, "encoder."), 1'012'173'952);
  EXPECT_EQ(encoder(kGiant, "target_encoder."), 1'012'173'952);
  EXPECT_EQ(encoder({192, 12, 3, 0}, "encoder."), 5'633'856);
  EXPECT_EQ(encoder({384, 12, 6, 0}, "encoder."), 21'884'544);
  EXPECT_EQ(encoder({768, 12, 12, 0}, "encoder."), 86'236'416);
}

// Published ones have a mask token for each of six, or of ten, kinds of clip; here it is one, or one a mask.
TEST(Jepa, PredictorsHaveThePublishedParametersButForMaskTokens) {
  const auto predictor = [](const Tower& tower, std::int64_t tokens) {
    return count(described(published(Family::kJepa, tower)), "predictor.") + (tokens - 1) * 384;
  };
  EXPECT_EQ(predictor(kLarge, 6), 22'084'480);
  EXPECT_EQ(predictor(kHuge, 6), 22'281'344);
  EXPECT_EQ(predictor(kGiant, 6), 22'379'776);
  EXPECT_EQ(predictor(kLarge, 10), 22'086'016);
  EXPECT_EQ(predictor(kHuge, 10), 22'282'880);
  EXPECT_EQ(predictor(kGiant, 10), 22'381'312);
  config::Job two = published(Family::kJepa, kLarge);
  two.jepa.mask_tokens = 2;
  EXPECT_EQ(count(described(two), "predictor."), predictor(kLarge, 2));
}

TEST(Jepa, ProbesHaveThePublishedParameters) {
  const auto probe = [](std::int64_t hidden, std::int64_t layers) {
    config::Job job = published(Family::kProbe, {hidden, 2, 16, 0});
    job.probe.layers = layers;
    job.vision.classes = 174;
    const ModelSpec spec = described(job);
    return count(spec, "pooler.") + count(spec, "linear.");
  };
  EXPECT_EQ(probe(1024, 4), 49'514'670);
  EXPECT_EQ(probe(1280, 4), 77'294'254);
  EXPECT_EQ(probe(1408, 4), 93'494'190);
  EXPECT_EQ(probe(1024, 1), 11'725'998);
  EXPECT_EQ(probe(1408, 1), 22'070'574);
}

// src/models/attentive_pooler.py of the original: the layer that writes last is smaller by sqrt(2 (depth - 1)), the
// classifier is PyTorch's linear layer as it comes, and AdamW's decay has one group for all parameters.
TEST(Jepa, ProbesBeginAndDecayAsTheOriginal) {
  config::Job job = published(Family::kProbe, {1024, 2, 16, 0});
  job.vision.classes = 174;
  const auto param_of = [](const ModelSpec& spec, const std::string& name) {
    for (const UnitSpec& unit : spec.units)
      for (const ParamSpec& param : unit.params)
        if (param.name == name) return param;
    ADD_FAILURE() << name;
    return ParamSpec{};
  };
  const std::string fc2 = "pooler.cross_attention_block.mlp.fc2.weight";
  EXPECT_DOUBLE_EQ(param_of(described(job), fc2).init.std, 0.02 / std::sqrt(2.0 * 3));
  const ModelSpec spec = described(job);
  for (const char* name : {"linear.weight", "linear.bias"}) {
    EXPECT_EQ(param_of(spec, name).init.kind, Init::Kind::kUniform) << name;
    EXPECT_DOUBLE_EQ(param_of(spec, name).init.low, -1 / 32.0) << name;
    EXPECT_DOUBLE_EQ(param_of(spec, name).init.high, 1 / 32.0) << name;
  }
  for (const UnitSpec& unit : spec.units)
    for (const ParamSpec& param : unit.params)
      EXPECT_TRUE(param.decay || param.name.starts_with("target_encoder.")) << param.name;
  job.probe.layers = 1;
  EXPECT_DOUBLE_EQ(param_of(described(job), fc2).init.std, 0.02 / std::sqrt(2.0));
}

TEST(Jepa, AProbeReadsTheTokensOfAllSegments) {
  config::Job job = published(Family::kProbe, kLarge);
  job.vision.classes = 174;
  job.data.source = config::DataSource::kClips, job.data.path = "clips";
  job.run.global_batch = 6, job.run.micro_batch = 3;
  const ModelSpec one = described(job);
  job.probe.segments = 2;
  const ModelSpec two = described(job);
  const auto value = [](const ModelSpec& spec, const std::string& name) {
    for (const plan::Value& each : spec.program.values)
      if (each.name == name) return each;
    ADD_FAILURE() << name;
    return plan::Value{};
  };
  EXPECT_EQ(value(two, "tower.x0").shape, (std::vector<std::int64_t>{6, 2048, 1024}));
  EXPECT_EQ(value(two, "features").shape, (std::vector<std::int64_t>{3, 4096, 1024}));
  EXPECT_EQ(value(two, "clips").bytes, 2 * value(one, "clips").bytes);
  EXPECT_EQ(two.sample_tokens, 4096);
  EXPECT_EQ(count(two, "pooler."), count(one, "pooler."));
}

TEST(Jepa, TheActionConditionedPredictorHasThePublishedParameters) {
  const ModelSpec spec = described(published(Family::kJepaAc, kGiant));
  EXPECT_EQ(count(spec, "action_predictor."), 305'220'992);
  EXPECT_EQ(count(spec, "action_predictor.extrinsics_encoder."), 7'168);
  EXPECT_EQ(count(spec, "target_encoder."), 1'012'173'952);
}

TEST(Jepa, TinyModelsHaveTheirParameters) {
  config::Job job = published(Family::kJepa, {192, 4, 3, 0});
  job.vision.image = 64, job.vision.patch = 8, job.vision.frames = 4;
  job.jepa = {.layers = 3, .hidden = 96, .heads = 3};
  const ModelSpec spec = described(job);
  EXPECT_EQ(count(spec, "encoder."), 1'853'760);
  EXPECT_EQ(count(spec, "predictor."), 372'960);
  EXPECT_EQ(spec.sample_tokens, 128);
  config::Job longer = job;
  longer.vision.frames = 8, longer.vision.layers = 6, longer.jepa.layers = 4;
  const ModelSpec tiny8 = described(longer);
  EXPECT_EQ(count(tiny8, "encoder."), 2'743'488);
  EXPECT_EQ(count(tiny8, "predictor."), 484'800);
  EXPECT_EQ(tiny8.sample_tokens, 256);
}

config::Job chunked(std::int64_t hidden, std::int64_t layers) {
  config::Job job = published(Family::kHvjepa, {192, 4, 3, 0});
  job.vision.image = 64, job.vision.patch = 8, job.vision.frames = 4;
  job.jepa = {.layers = 3, .hidden = 96, .heads = 3};
  job.chunk = {.ratio = 4, .hidden = hidden, .layers = layers};
  return job;
}

// The measured prototype's 1,838,720 had a layer from 4 numbers of a chunk's geometry to 192 as well.
TEST(Hvjepa, TinyModelsHaveTheirParameters) {
  const ModelSpec spec = described(chunked(64, 0));
  EXPECT_EQ(count(spec, "encoder."), 1'838'720 - 5 * 192);
  EXPECT_EQ(count(spec, "target_encoder."), count(spec, "encoder."));
  EXPECT_EQ(count(spec, "predictor."), 372'960);
}

// By name and shape, or no checkpoint would fit.
TEST(Hvjepa, FrozenTowersHaveTheTeachersParameters) {
  const auto teacher = [](const ModelSpec& spec) {
    std::map<std::string, std::vector<std::int64_t>> shapes;
    for (const UnitSpec& unit : spec.units)
      for (const ParamSpec& param : unit.params)
        if (param.name.starts_with("target_encoder.")) shapes[param.name] = param.shape;
    return shapes;
  };
  for (const char* mode : {"threshold", "fixed"}) {
    const Sets sets = {std::string("chunk.mode=") + mode};
    const auto trained = teacher(described(harness::vjepa_job(Family::kHvjepa, sets)));
    for (const Family family : {Family::kProbe, Family::kJepaAc, Family::kVlm})
      EXPECT_EQ(teacher(described(harness::chunked_job(family, sets))), trained) << mode;
  }
}

TEST(Hvjepa, TokensAreAddedWhereFeaturesAreNoTargets) {
  const auto added = [](Family family) {
    return count(described(harness::chunked_job(family)), "readout.");
  };
  EXPECT_EQ(added(Family::kProbe), 24 * 16);
  EXPECT_EQ(added(Family::kVlm), 24 * 16);
  EXPECT_EQ(added(Family::kJepaAc), 0);
}

TEST(Hvjepa, ChunksOfGiantTowersHaveTheSpecifiedParameters) {
  config::Job job = published(Family::kHvjepa, kGiant);
  const ModelSpec spec = described(job);
  EXPECT_EQ(count(spec, "encoder.chunk.") + count(spec, "encoder.patch_embed."), 5'420'416);
  job.chunk.mode = config::ChunkMode::kFixed, job.chunk.ratio = 4;
  EXPECT_EQ(count(described(job), "encoder.chunk.router."), 0);
}

TEST(Hvjepa, StagesAreCutAndValid) {
  for (const char* pp : {"1", "2", "3"}) {
    const config::Job job =
        config::resolve(harness::vjepa_job(Family::kHvjepa, {fmt::format("parallel.pp={}", pp)}),
                        std::atoi(pp), {});
    const ModelSpec spec = describe(job);
    plan::validate(plan::compile(spec.program, mesh_of(job), recipe_of(job), grid_of(job, spec)));
  }
}

// The teacher follows every unit of the student, and trains nowhere.
class Teacher : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Jepa, Teacher, testing::Values(Family::kJepa, Family::kHvjepa));

TEST_P(Teacher, FollowsTheStudent) {
  const ModelSpec spec = describe(config::resolve(harness::vjepa_job(GetParam()), 1, {}));
  for (const plan::Unit& unit : spec.program.units) {
    const bool teacher = unit.name.starts_with("teacher.");
    EXPECT_EQ(unit.trainable, !teacher) << unit.name;
    ASSERT_EQ(unit.ema_of >= 0, teacher) << unit.name;
    if (teacher) {
      EXPECT_EQ("teacher." + spec.program.units[unit.ema_of].name, unit.name);
    }
  }
}

// Stages are cut between blocks, never between a block and its teacher's.
TEST(Jepa, StagesKeepTeachersBesideTheirStudents) {
  for (const char* pp : {"2", "3", "4"}) {
    const config::Job job = config::resolve(
        harness::vjepa_job(Family::kJepa, {fmt::format("parallel.pp={}", pp)}), std::atoi(pp), {});
    const ModelSpec spec = describe(job);
    plan::validate(plan::compile(spec.program, mesh_of(job), recipe_of(job), grid_of(job, spec)));
  }
  EXPECT_THAT(
      config::usage_error_of([] {
        describe(config::resolve(harness::vjepa_job(Family::kJepa, {"parallel.pp=9"}), 9, {}));
      }),
      HasSubstr("stay on one stage"));
}

TEST(Jepa, WhatItCannotUseIsRefused) {
  const auto refusal = [](Family family, const std::vector<std::string>& sets) {
    return config::usage_error_of(
        [&] { config::resolve(harness::vjepa_job(family, sets), 1, {.classes = 8}); });
  };
  EXPECT_THAT(refusal(Family::kJepa, {"vision.positions=learned"}),
              HasSubstr("set vision.positions=rotary"));
  EXPECT_THAT(refusal(Family::kJepa, {"vision.heads=8"}), HasSubstr("3 per head"));
  EXPECT_THAT(refusal(Family::kJepa, {"jepa.heads=4"}),
              HasSubstr("need a multiple of 2, 6 or more"));
  EXPECT_THAT(refusal(Family::kJepa, {"vision.patch=5"}), HasSubstr("vision.patch=5"));
  EXPECT_THAT(refusal(Family::kJepa, {"vision.frames=3"}), HasSubstr("vision.tubelet=2"));
  EXPECT_THAT(refusal(Family::kJepa, {"jepa.masks=8x0.15,2x1"}), HasSubstr("leaves no context"));
  EXPECT_THAT(refusal(Family::kJepa, {"jepa.masks=8x0.01,2x0.7"}), HasSubstr("less than one"));
  EXPECT_THAT(refusal(Family::kJepa, {"jepa.mask_tokens=3"}), HasSubstr("jepa.mask_tokens"));
  EXPECT_THAT(refusal(Family::kProbe, {"jepa.cut_batch=24"}), HasSubstr("does not use"));
  EXPECT_THAT(refusal(Family::kJepa, {"data.source=arm"}), HasSubstr("data.source=squares"));
  EXPECT_THAT(refusal(Family::kJepa, {"probe.layers=2"}), HasSubstr("does not use"));
  EXPECT_THAT(refusal(Family::kProbe, {"vision.classes=4"}), HasSubstr("8 classes"));
  EXPECT_THAT(refusal(Family::kProbe, {"probe.clips=[1, 3]"}), HasSubstr("set data.source=clips"));
  const Sets clips = {"data.source=clips", "data.path=x"};
  EXPECT_THAT(
      refusal(Family::kProbe, {clips[0], clips[1], "probe.clips=[1, 3]", "run.micro_batch=4",
                               "run.global_batch=4"}),
      HasSubstr("run.micro_batch=4 is not divisible by 3, the second of probe.clips=[1, 3]"));
  // What is proposed for two ranks holds whole samples.
  const auto of_two = [&](const char* views) {
    return config::usage_error_of([&] {
      config::resolve(
          harness::vjepa_job(Family::kProbe, {clips[0], clips[1], views, "run.micro_batch=12",
                                              "run.global_batch=12", "parallel.dp_shard=2"}),
          2, {.classes = 8});
    });
  };
  EXPECT_THAT(of_two("probe.clips=[1, 3]"), HasSubstr("or, with this batch, run.micro_batch=6"));
  EXPECT_THAT(of_two("probe.clips=[1, 4]"), Not(HasSubstr("with this batch")));
  EXPECT_THAT(
      refusal(Family::kProbe, {clips[0], clips[1], "probe.clips=[2, 1]", "vision.chunked=true"}),
      HasSubstr("set the first of probe.clips to 1"));
  EXPECT_THAT(refusal(Family::kProbe, {clips[0], "data.path=a,b", "data.weights=1"}),
              HasSubstr("has 1 weights"));
  EXPECT_THAT(refusal(Family::kProbe, {"data.weights=1"}), HasSubstr("reads one data set"));
  EXPECT_THAT(refusal(Family::kJepaAc, {"action.rollout=4"}), HasSubstr("action.rollout=4"));
}

}  // namespace
}  // namespace trireme::model::jepa_test
