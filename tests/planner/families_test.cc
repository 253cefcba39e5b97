// Prices and layouts of families that are no language model alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "tests/harness/vjepa_jobs.h"
#include "tests/planner/cards.h"
#include "tests/planner/synthetic_machine.h"
#include "trireme/base/fs.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/families/jepa/prices.h"
#include "trireme/model/families/describe.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/cost/expected_share.h"
#include "trireme/planner/hardware/calibrate.h"
#include "trireme/planner/search/report/answer_print.h"
#include "trireme/planner/search/report/spending.h"
#include "trireme/planner/search/screened.h"
#include "trireme/planner/search/search.h"

namespace trireme::planner::families_test {
namespace {

using plan::Verb;
using ::testing::Contains;
using ::testing::HasSubstr;

Cluster four_cards() {
  Cluster cluster{.name = "cards", .gpus_per_host = 4, .hosts = 1};
  cluster.gpu = synthetic_card(40);
  cluster.tiers = {{.name = "inside", .rate = 200e9, .latency_s = 3e-6}};
  return cluster;
}

config::Job recipe(const std::string& name, const std::vector<std::string>& sets = {}) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / (name + ".yaml"));
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

config::Job crossing(const std::vector<std::string>& sets = {}) {
  config::Job job = recipe("vlm_tiny", {"vlm.cross=[3, 2]", "vlm.max_tiles=0"});
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

config::DatasetFacts facts_of(const config::Job& job) {
  return config::synthetic_source(job.data.source)->facts;
}

config::Job resolved(const config::Job& job, int ranks = 1) {
  return config::resolve(job, ranks, facts_of(job));
}

double seconds_of_node(const config::Job& job, const std::string& name, Verb verb) {
  return node_seconds(four_cards(), job, name, verb);
}

constexpr const char* kRecipes[] = {"vit_tiny",    "clip_tiny",   "vjepa_tiny",
                                    "hvjepa_tiny", "probe_tiny",  "ac_tiny",
                                    "vlm_tiny",    "arrcoc_tiny", "hnet_tiny"};

// Four products, attention over all pairs, and what streams: as of a GPT that hides nothing.
TEST(Families, ABlockHasTheKernelsOfItsLayers) {
  const config::Job job = resolved(recipe("vit_tiny"));
  const Gpu gpu = four_cards().gpu;
  const double rows = 8 * 16, d = 96, ffn = 384;
  const auto product = [&](double m, double n, double k) {
    return seconds(gpu, gemm(Math::kFp32, m, n, k));
  };
  const double forward = product(rows, 3 * d, d) + product(rows, d, d) + product(rows, ffn, d) +
                         product(rows, d, ffn) +
                         seconds(gpu, attention(Math::kFp32, 4 * rows * 16 * d)) +
                         seconds(gpu, {planner::stream(rows * 4 * (10 * d + 2 * ffn), 5)});
  const double priced = seconds_of_node(job, "block.0", Verb::kForward);
  EXPECT_NEAR(priced, forward, 0.02 * forward);  // what is kept may be a little more than that
  EXPECT_GT(seconds_of_node(job, "block.0", Verb::kBackward), 1.8 * priced);
}

// On a calibrated core pictures of 16 tokens pay for every head that attention begins, clips of 128 of one whole block each less.
TEST(Families, OnCoresShortSequencesPayForTheirBeginnings) {
  Cluster machine = synthetic_calibration().machine;
  const auto forward = [&](const std::string& name, const char* node) {
    return node_seconds(machine, resolved(recipe(name, {"run.global_batch=16"})), node,
                        Verb::kForward, own_practice());
  };
  const double vit = forward("vit_tiny", "block.0"), text = forward("clip_tiny", "text.block.0"),
               clips = forward("vjepa_tiny", "teacher.block.0");
  machine.gpu.core->fp32.attention_s = 0;
  const double begin = synthetic_calibration().machine.gpu.core->fp32.attention_s;
  EXPECT_NEAR(vit - forward("vit_tiny", "block.0"), 8 * 4 * begin, 1e-9);
  EXPECT_NEAR(text - forward("clip_tiny", "text.block.0"), 8 * 4 * begin, 1e-9);
  EXPECT_NEAR(clips - forward("vjepa_tiny", "teacher.block.0"), 2 * 3 * 2 * begin, 1e-9);
}

// Many operators on small tensors: on a core each has its beginning and its bytes, on GPUs nothing changes.
TEST(Families, OnCoresSmallOperatorsAreCounted) {
  Cluster machine = synthetic_calibration().machine, free = machine;
  free.gpu.core->operator_s = 0;
  free.gpu.core->operator_rate = 1e18;
  const auto more = [&](const std::string& name, const char* node, Verb verb) {
    const config::Job job = resolved(recipe(name));
    return node_seconds(machine, job, node, verb, own_practice()) -
           node_seconds(free, job, node, verb, own_practice());
  };
  const double start = machine.gpu.core->operator_s;
  // Two shares of 60 bisections of nine operators, 32 bins of five; 658 numbers of every pixel.
  const double scorers = more("arrcoc_tiny", "scorers", Verb::kForward);
  EXPECT_GT(scorers, (2 * 60 * 9 + 32 * 5) * start + 600.0 * 16 * 64 * 64 * 4 / 10e9);
  EXPECT_LT(scorers, 2 * (2 * 60 * 9 + 32 * 5) * start + 700.0 * 16 * 64 * 64 * 4 / 10e9);
  EXPECT_GT(more("arrcoc_tiny", "block.0", Verb::kForward), 16 * 4 * 10 * start);
  EXPECT_GT(more("hvjepa_tiny", "chunk", Verb::kForward), 100 * start);
  EXPECT_GT(more("hvjepa_tiny", "chunk", Verb::kBackward), 50 * start);
  EXPECT_GT(more("hvjepa_tiny", "vicreg", Verb::kForward), 8 * 40 * start);
  EXPECT_GT(more("hnet_tiny", "s0.route", Verb::kForward), 30 * start);
  EXPECT_EQ(more("vit_tiny", "block.0", Verb::kForward), 0);
}

// Loading is priced by the values that are made up; text is next to nothing.
TEST(Families, OnCoresPicturesTakeTimeToLoad) {
  const Cluster machine = synthetic_calibration().machine;
  const config::Job job = resolved(recipe("vit_tiny"));
  const plan::PlanSet plan = Candidate(job, own_practice()).plan();
  const StepForecast forecast = forecast_step(plan, job, machine);
  double loading = 0;
  for (std::size_t i = 0; i < plan.list(0).size(); ++i)
    if (plan.list(0)[i].verb == Verb::kLoad) {
      const simulate::LineTime& line = forecast.lines.lists[0].lines[i];
      loading += line.end - line.start;
    }
  EXPECT_NEAR(loading, 2 * 16 * (3 * 32 * 32 * 4 + 8) / 1e8, 1e-5);
}

TEST(Families, TurningPositionsAndSlowActivationsMoveMore) {
  const auto forward = [](const char* set) {
    return seconds_of_node(resolved(recipe("vit_tiny", {set})), "block.0", Verb::kForward);
  };
  const double plain = forward("vision.activation=gelu");
  EXPECT_GT(forward("vision.activation=quick_gelu"), plain);
  EXPECT_GT(forward("vision.positions=rotary"), plain);
}

// Keys and values are of an image's tokens, all else of the text's; nothing is left out and nothing counted twice.
TEST(Families, ABlockThatAttendsToImagesHasTheKernelsOfItsLayers) {
  const config::Job job = resolved(crossing());
  const Gpu gpu = four_cards().gpu;
  const double rows = 8 * 128, seen = 8 * 16, d = 192, inner = 128;
  const auto product = [&](double m, double n, double k) {
    return seconds(gpu, gemm(Math::kFp32, m, n, k));
  };
  const double forward = product(rows, inner, d) + product(seen, 2 * inner, d) +
                         product(rows, d, inner) + product(rows, 4 * d, d) +
                         product(rows, d, 4 * d) +
                         seconds(gpu, attention(Math::kFp32, 4 * rows * 16 * inner));
  const double priced = seconds_of_node(job, "cross.2", Verb::kForward);
  EXPECT_GT(priced, forward);
  EXPECT_LT(priced, 1.5 * forward);  // with what streams
  EXPECT_GT(seconds_of_node(job, "cross.2", Verb::kBackward), 1.8 * priced);
  EXPECT_EQ(ExpectedShare(job).of("vision.block.0"), 1);
}

TEST(Families, NoGradientGoesBackToPixels) {
  const config::Job job = resolved(recipe("vit_tiny"));
  EXPECT_DOUBLE_EQ(seconds_of_node(job, "embed", Verb::kBackward),
                   seconds_of_node(job, "embed", Verb::kBackwardWeight));
}

TEST(Families, MasksLeaveWhatTheirBlocksLeave) {
  EXPECT_EQ(seen_of_frame(4, 4, 0, 0.25), 1);
  EXPECT_NEAR(seen_of_frame(4, 4, 1, 0.25), 0.75, 1e-9);  // two by two, wherever it lies
  EXPECT_LT(seen_of_frame(4, 4, 1, 1), 0.1);              // as wide as high it covers all
  const ExpectedShare share(resolved(recipe("vjepa_tiny")));
  EXPECT_EQ(share.of("teacher.block.0"), 1);
  EXPECT_EQ(share.of("predictor.block.0"), 1);
  EXPECT_GT(share.of("block.0"), 0.1);
  EXPECT_DOUBLE_EQ(share.of("block.0") + share.of("loss"), 1);
}

// As the original's masks of 24 clips on a device.
TEST(Families, CutMasksLeaveTheLeastOfTheirGroup) {
  const MaskShares near = cut_shares(16, 8, 0.15, 24), far = cut_shares(16, 2, 0.7, 24);
  EXPECT_NEAR(near.seen, 0.248, 0.015);
  EXPECT_NEAR(near.hidden, 0.465, 0.015);
  EXPECT_NEAR(far.seen, 0.066, 0.015);
  EXPECT_NEAR(far.hidden, 0.704, 0.015);
  const ExpectedShare share(resolved(recipe("vjepa_tiny", {"jepa.cut_batch=24"})));
  EXPECT_DOUBLE_EQ(share.of("block.0") + share.of("loss"), share.of("predictor.block.0"));
  EXPECT_LT(share.of("predictor.block.0"), 0.9);
  EXPECT_LT(share.of("block.0"), ExpectedShare(resolved(recipe("vjepa_tiny"))).of("block.0"));
}

TEST(Families, ChunksTilesAndRegionsAreThoseExpected) {
  const ExpectedShare hnet(resolved(recipe("hnet_tiny")));
  EXPECT_EQ(hnet.of("s0.encoder.0"), 1);
  EXPECT_EQ(hnet.of("s1.main.0"), 0.25);
  EXPECT_EQ(hnet.of("head"), 1);
  const ExpectedShare vlm(resolved(recipe("vlm_tiny")));
  EXPECT_DOUBLE_EQ(vlm.of("vision.block.0"), (1 + 14.0 / 5) / 5);  // of 2, 2, 3, 3 and 4 tiles
  EXPECT_EQ(vlm.of("block.0"), 1);
  EXPECT_EQ(vlm.of("deepstack.0"), vlm.of("projector"));
  const ExpectedShare filled(resolved(recipe("vlm_tiny", {"vlm.pack=true"})));
  EXPECT_EQ(filled.of("vision.block.0"), 1);
  const ExpectedShare frozen(
      resolved(recipe("probe_tiny", {"vision.chunked=true", "chunk.ratio=4"})));
  EXPECT_EQ(frozen.of("tower.block.0"), 0.25);
  EXPECT_EQ(frozen.of("tower.embed"), 1);
  EXPECT_EQ(frozen.of("block.0"), 1);
  const ExpectedShare clips(resolved(harness::vjepa_job(config::Family::kVlm)));
  EXPECT_EQ(clips.of("projector"), 1);
  EXPECT_EQ(clips.of("tower.block.0"), 1);
  const ExpectedShare chunks(resolved(recipe("hvjepa_tiny")));
  // Tokens whose neighbours are hidden are chunks of their own.
  EXPECT_DOUBLE_EQ(alone_in_frame(4, 0, 0.25), 1.0 / 16);
  EXPECT_NEAR(512 * chunks.of("block.0"), 41,
              3);  // measured: 37 to 56 of 512 tokens, 44 on average
  EXPECT_LT(chunks.of("block.0"), chunks.of("embed"));
  EXPECT_EQ(chunks.of("teacher.block.0"), 0.25);
  const ExpectedShare regions(resolved(recipe("arrcoc_tiny")));
  EXPECT_DOUBLE_EQ(regions.of("vision.block.0"), 76.0 / (16 + 76));
}

// Rows of a run's fullest micro-batch: more than the expected ones, unless these are a limit, and never more than all.
TEST(Families, FullestMicroBatchesHaveAtMostWhatThereIs) {
  const ExpectedShare regions(resolved(recipe("arrcoc_tiny")));
  EXPECT_EQ(regions.fullest("vision.block.0"), regions.of("vision.block.0"));
  const ExpectedShare masks(resolved(recipe("vjepa_tiny")));
  EXPECT_GT(masks.fullest("block.0"), masks.of("block.0"));
  EXPECT_EQ(masks.fullest("teacher.block.0"), 1);
}

// Time follows what masks leave, memory what they may leave.
TEST(Families, MoreHiddenTokensTakeLessTime) {
  const auto forward = [](const char* scale) {
    return seconds_of_node(
        resolved(recipe("vjepa_tiny", {std::string("jepa.masks=8x0.15,2x") + scale})), "block.0",
        Verb::kForward);
  };
  EXPECT_LT(forward("0.9"), forward("0.2"));
}

TEST(Families, WhatFollowsByAveragesIsMoved) {
  const auto step = [](const char* name) {
    const config::Job job = resolved(recipe(name));
    const Practice practice;
    return std::pair(Candidate(job, practice).step_seconds(four_cards()),
                     Candidate(job, practice).simulate(four_cards()).step_s);
  };
  const auto [estimate, simulated] = step("vjepa_tiny");
  EXPECT_NEAR(estimate / simulated, 1, 0.03);
}

// The estimate by stages and the plan, line by line, say the same.
TEST(Families, AnEstimateIsNearThePlans) {
  for (const char* name : kRecipes)
    for (const char* layout : {"parallel.dp_shard=2", "parallel.tp=2", "parallel.pp=2"}) {
      config::Job job = recipe(name, {layout});
      job.run.micro_batch = job.run.global_batch / (job.parallel.dp_shard > 1 ? 2 : 1);
      const Practice practice;
      const Candidate candidate(resolved(job, 2), practice);
      EXPECT_NEAR(candidate.step_seconds(four_cards()) / candidate.simulate(four_cards()).step_s, 1,
                  0.1)
          << name << " " << layout;
    }
}

TEST(Families, DecodersThatAttendToImagesAreEstimatedAndPlanned) {
  for (const char* layout : {"parallel.dp_shard=2", "parallel.tp=2", "parallel.pp=2"}) {
    config::Job job = crossing({layout});
    job.run.micro_batch = job.run.global_batch / (job.parallel.dp_shard > 1 ? 2 : 1);
    const Practice practice;
    const Candidate candidate(resolved(job, 2), practice);
    EXPECT_NEAR(candidate.step_seconds(four_cards()) / candidate.simulate(four_cards()).step_s, 1,
                0.1)
        << layout;
  }
  const config::Job job = crossing();
  const Answer answer =
      search({.job = job, .cluster = four_cards(), .gpus = 4, .data = facts_of(job)},
             {.options = 1, .estimated = 8, .compiled = 4, .explain = false});
  EXPECT_EQ(answer.options.front().layout.world(), 4);
}

TEST(Families, EveryOneIsPlanned) {
  for (const char* name : kRecipes) {
    const config::Job job = recipe(name);
    const Answer answer =
        search({.job = job, .cluster = four_cards(), .gpus = 4, .data = facts_of(job)},
               {.options = 2, .estimated = 8, .compiled = 4, .explain = false});
    const Option& best = answer.options.front();
    EXPECT_EQ(best.layout.world(), 4) << name;
    EXPECT_GT(best.model_flops, 0) << name;
    EXPECT_EQ(best.tokens(),
              static_cast<double>(job.run.global_batch * model::describe(best.job).sample_tokens))
        << name;
  }
}

TEST(Families, WhatAFamilyRefusesIsSaid) {
  const config::Job job = recipe("clip_tiny", {"run.micro_batch=16"});
  const Answer answer =
      search({.job = job, .cluster = four_cards(), .gpus = 4, .data = facts_of(job)},
             {.options = 1, .estimated = 8, .compiled = 4});
  std::vector<std::string> reasons;
  for (const Reason& reason : answer.reasons) reasons.push_back(reason.text);
  EXPECT_THAT(reasons, Contains(HasSubstr("A contrastive loss compares the whole global batch")));
  EXPECT_THAT(answer_text(answer, spending(answer.question, answer.options.front(), 1e6)),
              HasSubstr("model     clip: "));
}

TEST(Families, SaysWhatIsExpectedOfRowsThatVary) {
  const config::Job job = recipe("vjepa_tiny");
  const Answer answer =
      search({.job = job, .cluster = four_cards(), .gpus = 1, .data = facts_of(job)},
             {.options = 1, .estimated = 4, .compiled = 2});
  EXPECT_THAT(answer.notes, Contains(HasSubstr("of a clip's tokens seen")));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("no constant comes from steps of family jepa")));
}

// As nothing like it was measured on either.
TEST(Families, HaveAWiderBandThanLanguageModels) {
  const config::Job job = recipe("vit_tiny");
  const Cluster cores = synthetic_calibration().machine;
  const Answer answer = search({.job = job, .cluster = cores, .gpus = 2, .data = facts_of(job)},
                               {.options = 1, .estimated = 4, .compiled = 2, .explain = false});
  EXPECT_GT(answer.options.front().seconds, 0);
  const Option& best = answer.options.front();
  const double apart = std::exp(1.2816 * cores.gpu.core->spread);
  EXPECT_NEAR(best.low, best.seconds / apart, 1e-3 * best.low);
  EXPECT_NEAR(best.high, 1.42 * best.seconds * apart, 1e-3 * best.high);
  Cluster fitted = four_cards();
  fitted.gpu.fitted = true;
  const Answer gpus = search({.job = job, .cluster = fitted, .gpus = 2, .data = facts_of(job)},
                             {.options = 1, .estimated = 4, .compiled = 2, .explain = false});
  const Spending run = spending(gpus.question, gpus.options.front(), 1e6);
  const Json priced = answer_json(gpus, run)["options"][0];
  EXPECT_NEAR(priced["step_s_80"][1], 1.08 * 1.42 * priced["step_s"].get<double>(), 1e-9);
}

TEST(Families, BadQuestionsAreRefusedWithTheReason) {
  const auto refused = [](const std::string& name, const std::vector<std::string>& sets,
                          std::vector<std::string> kept = {}, double memory = 1) {
    const config::Job job = recipe(name, sets);
    Cluster cluster = four_cards();
    cluster.gpu.memory =
        static_cast<std::int64_t>(memory * static_cast<double>(cluster.gpu.memory));
    return formats::refusal(
        [&] {
          search({.job = job,
                  .cluster = cluster,
                  .gpus = 2,
                  .kept = std::move(kept),
                  .data = facts_of(job)},
                 {.options = 1, .estimated = 4, .compiled = 2, .explain = false});
        },
        memory < 1 ? ErrorKind::kOutOfMemory : ErrorKind::kUsage);
  };
  EXPECT_THAT(refused("vit_tiny", {"jepa.layers=3"}), HasSubstr("family vit does not use it"));
  EXPECT_THAT(refused("vit_tiny", {"vision.heads=5"}), HasSubstr("vision.heads=5"));
  EXPECT_THAT(refused("vit_tiny", {"parallel.cp=2", "parallel.context=ulysses"}, {"parallel.cp"}),
              HasSubstr("parallel.context=ulysses"));
  EXPECT_THAT(refused("vjepa_tiny", {}, {}, 0.035), HasSubstr("the smallest need is"));
}

}  // namespace
}  // namespace trireme::planner::families_test
