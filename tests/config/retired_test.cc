#include "trireme/config/fields/retired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "tests/config/error_of.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/job.h"
#include "trireme/families/jepa/keys_masks.h"

namespace trireme::config::retired_test {
namespace {

using ::testing::HasSubstr;

Job read(const std::string& text) { return parse_job(text, "job.yaml"); }

// A job as releases before these keys went stored it, under a family that uses most of them.
TEST(Retired, AStoredJobWithTheValuesOfTheCodeIsRead) {
  const Job job = read(
      "model: {family: hvjepa, init_std: 0.05}\n"
      "vision: {init_std: 0.05, mean: \"\", std: \"\"}\n"
      "jepa: {short_blocks: 8, short_scale: 0.15, long_blocks: 2, long_scale: 0.7, cut: none, "
      "cut_samples: 24}\n"
      "action: {size: 7}\n"
      "probe: {segments: 1, views: 1, crop: 0.08, augment: 4, erase: 0.25}\n"
      "chunk: {ratio_weight: 0.1, hidden: 48, neighbours: 8}\n"
      "vicreg: {invariance: 25, variance: 25, covariance: 1, alpha: 0.75, statistics: match, "
      "width: 64, local_width: 0, matches: 20}\n"
      "arrcoc: {least: 8, most: 20, coupling: 0, balancer: 0, budget_weight: 0, "
      "entropy_weight: 0, temperature: 0.5, hidden: 40, fovea: [0.5, 0.5], allocation: learned, "
      "learn_budget: false}\n"
      "vlm: {tie: tall, aspect: stretch, fusion: tokens, cross_every: 1, cross_heads: 8}\n"
      "optim: {wsd_decay_fraction: 0.1}\n"
      "parallel: {activation_limit: 1, transfer: 0, prefetch: 1, schedule_file: \"\", "
      "context_inner: 2}\n"
      "precision: {master: bf16, rounding: stochastic, loss_scale_start: 65536, "
      "loss_scale_window: 1000, loss_scale_factor: 2, loss_scale_hysteresis: 2, "
      "loss_scale_floor: 1}\n"
      "recompute: {every: 0, first: 0}\n"
      "network: {back: none}\n"
      "offload: {prefetch: 1, engine: auto, ratio: 1}\n"
      "run: {micro_batch: 4, find_micro_batch: false, batch_scope: gradcache, spike_limit: 3, "
      "spike_zscore: 0, spike_window: 100, "
      "spike_rewind: 100, spike_skip: 200, hang_restart_s: 25}\n"
      "checkpoint: {keep_every: 0, keep_best: 0, memory_distance: 1}\n");
  EXPECT_EQ(job.chunk.hidden, 48);
  EXPECT_EQ(job.run.micro_batch, 4);
  EXPECT_EQ(read(print_yaml(job)), job);
  Job set;
  EXPECT_NO_THROW(apply_set(set, "chunk.neighbours=8"));
  EXPECT_EQ(set, Job{});
}

TEST(Retired, AnotherValueIsRefusedWithTheNewSpellingOrTheValueOfTheCode) {
  const auto refusal = [](const std::string& text) { return usage_error_of([&] { read(text); }); };
  EXPECT_EQ(refusal("chunk: {neighbours: 4}"),
            "job.yaml:1:9: unknown key chunk.neighbours; it is fixed at 8");
  EXPECT_THAT(refusal("arrcoc: {fovea: [0.25, 1]}"), HasSubstr("fixed at [0.5, 0.5]"));
  EXPECT_THAT(refusal("precision: {rounding: stochastic}"), HasSubstr("precision.master=bf16"));
  EXPECT_THAT(refusal("jepa: {short_scale: 0.2}"), HasSubstr("jepa.masks, such as 8x0.15,2x0.7"));
  EXPECT_THAT(refusal("run: {find_micro_batch: true}"), HasSubstr("set run.micro_batch=0"));
  EXPECT_THAT(refusal("recompute: {first: 3}"), HasSubstr("recompute.nodes"));
  for (const auto& [text, now] : std::initializer_list<std::pair<const char*, const char*>>{
           {"jepa: {cut: batch}", "set jepa.cut_batch"},
           {"probe: {erase: 0.5, augment: 4}", "0.25 where probe.augment is above 0"},
           {"vision: {mean: clip}", "set vision.pixels"},
           {"vision: {init_std: 0.05}", "set model.init_std"},
           {"vlm: {fusion: cross}", "set vlm.cross"},
           {"vlm: {aspect: pad}", "set vlm.fit=pad"},
           {"arrcoc: {allocation: uniform}", "set arrcoc.scorers"},
           {"parallel: {schedule_file: s.csv}", "set parallel.schedule"},
           {"parallel: {context_inner: 4}", "set parallel.context=hierarchical:N"},
           {"vicreg: {width: 96}", "set vicreg.widths"},
           {"vicreg: {local_width: 32}", "set vicreg.widths"},
           {"arrcoc: {least: 2}", "set arrcoc.sides"},
           {"arrcoc: {most: 8}", "set arrcoc.sides"},
           {"arrcoc: {coupling: 15}", "first number of arrcoc.widths"},
           {"arrcoc: {balancer: 40}", "second number of arrcoc.widths"},
           {"arrcoc: {budget_weight: 1}", "first number of arrcoc.penalties"},
           {"arrcoc: {entropy_weight: 1}", "second number of arrcoc.penalties"},
           {"probe: {segments: 2}", "first number of probe.clips"},
           {"probe: {views: 3}", "second number of probe.clips"},
           {"parallel: {activation_limit: 2}", "set parallel.schedule=zb_auto:LIMIT"},
           {"jepa: {momentum_end: 1}", "second number of jepa.momentum"},
           {"optim: {weight_decay_end: 0.4}", "second number of optim.weight_decay"},
           {"optim: {wsd_decay_fraction: 0.2}", "set optim.schedule=wsd:SHARE"},
           {"run: {spike_zscore: 10}", "first number of run.spikes"},
           {"run: {spike_window: 50}", "second number of run.spikes"},
           {"checkpoint: {keep_every: 10}", "first number of checkpoint.keep_also"},
           {"checkpoint: {keep_best: 1}", "second number of checkpoint.keep_also"},
           {"offload: {optimizer: host, ratio: 0.5}", "set offload.optimizer=host:SHARE"},
           {"run: {spike_skip: 10}", "twice the second number of run.spikes"}})
    EXPECT_THAT(refusal(text), HasSubstr(now)) << text;
  EXPECT_THAT(
      refusal("recompute: {policy: uniform, every: 2}"),
      HasSubstr("recompute.policy: uniform is an old spelling; it is recompute.policy=full:BLOCKS "
                "with the blocks of a segment"));
  EXPECT_THAT(refusal("recompute: {policy: block}"), HasSubstr("such as block.[0-3]"));
  EXPECT_THAT(refusal("recompute: {policy: segments}"), HasSubstr("recompute.policy=full:2"));
  const auto set_refusal = [](const std::string& set) {
    Job job;
    return usage_error_of([&] { apply_set(job, set); });
  };
  EXPECT_EQ(set_refusal("offload.prefetch=2"),
            "--set offload.prefetch: unknown key; it is fixed at 1");
  EXPECT_THAT(set_refusal("recompute.policy=segments"), HasSubstr("--set recompute.policy"));
}

TEST(Retired, NoKeyThatThereIsCountsAsRetired) {
  for (const Field& field : fields()) EXPECT_FALSE(retired(field.key).has_value()) << field.key;
  EXPECT_LE(fields().size(), 219u) << "a new key needs a recipe or a user who sets it";
}

// Keys that took the place of several.
TEST(Joined, EachValueIsPrintedAsItIsSet) {
  const auto set = [](const char* assignment) {
    Job job;
    apply_set(job, assignment);
    EXPECT_EQ(read(print_yaml(job)), job) << assignment;
    return job;
  };
  EXPECT_EQ(set("parallel.schedule=some/zb.csv").parallel.schedule_file, "some/zb.csv");
  EXPECT_EQ(set("parallel.schedule=gpipe").parallel.schedule_file, "");
  EXPECT_EQ(set("parallel.context=hierarchical:4").parallel.context_inner, 4);
  EXPECT_EQ(set("parallel.context=hierarchical").parallel.context_inner, 2);
  EXPECT_EQ(set("arrcoc.scorers=uniform").arrcoc.allocation, Allocation::kUniform);
  const Arrcoc learned = set("arrcoc.scorers=salience,budget").arrcoc;
  EXPECT_TRUE(learned.learn_budget);
  EXPECT_EQ(learned.scorers, "salience");
  EXPECT_EQ(set("model.init_std=0.05").vision.init_std, 0.05);
  EXPECT_EQ(set("vlm.cross=[4, 8]").vlm.cross, (std::array<std::int64_t, 2>{4, 8}));
  EXPECT_EQ(set("parallel.schedule=zb_auto:1.5").parallel.activation_limit, 1.5);
  EXPECT_EQ(set("parallel.schedule=v_auto").parallel.activation_limit, 1);
  EXPECT_EQ(set("offload.optimizer=nvme:0.5").offload.ratio, 0.5);
  EXPECT_EQ(set("optim.schedule=wsd:0.25").optim.wsd_decay_fraction, 0.25);
  EXPECT_EQ(set("optim.weight_decay=[0.04, 0.4]").optim.weight_decay_end, 0.4);
  EXPECT_EQ(set("jepa.momentum=[0.9, 1]").jepa.momentum_end, 1);
  EXPECT_EQ(set("optim.weight_decay=0.2").optim.weight_decay_end, std::nullopt);
  EXPECT_EQ(set("arrcoc.sides=[2, 8]").arrcoc.most, 8);
  EXPECT_EQ(set("run.spikes=[7.5, 50]").run.spike_zscore, 7.5);
  for (const char* wrong :
       {"parallel.schedule=zb_h1:2", "parallel.schedule=zb_auto:0", "optim.schedule=wsd:2",
        "optim.schedule=cosine:0.1", "optim.schedule=wsd:", "parallel.context=hierarchical:2.5",
        "parallel.schedule=zb.txt", "parallel.context=hierarchical:1",
        "parallel.context=hierarchical:x", "parallel.context=ring:4"})
    EXPECT_THAT(usage_error_of([&] { set(wrong); }), HasSubstr(" is unknown; needs one of"));
}

TEST(MicroBatch, ZeroAsksForTheLargest) {
  Job job;
  apply_set(job, "run.micro_batch=0");
  EXPECT_TRUE(job.run.find_micro_batch);
  EXPECT_THAT(print_yaml(job), HasSubstr("micro_batch: 0\n"));
  EXPECT_EQ(read(print_yaml(job)), job);
  apply_set(job, "run.micro_batch=2");
  EXPECT_FALSE(job.run.find_micro_batch);
}

TEST(Masks, AreTwoRulesOfBlocksAndShares) {
  const auto rules = mask_rules({.masks = "4x0.2,1x1"});
  EXPECT_EQ(rules[0].blocks, 4);
  EXPECT_EQ(rules[0].scale, 0.2);
  EXPECT_EQ(rules[1].blocks, 1);
  EXPECT_EQ(rules[1].scale, 1);
  for (const char* text : {"", "8x0.15", "8x0.15,2x0.7,1x0.1", "8,2", "0x0.15,2x0.7", "8x0,2x0.7",
                           "8x1.5,2x0.7", "8x0.15,2x", "x0.15,2x0.7", "8x0.15, two"})
    EXPECT_THAT(usage_error_of([&] { mask_rules({.masks = text}); }), HasSubstr("BLOCKSxSHARE"))
        << text;
}

}  // namespace
}  // namespace trireme::config::retired_test
