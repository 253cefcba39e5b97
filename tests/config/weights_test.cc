// What a job has from the weights that its model begins with, and where they would mean something else.
#include "trireme/config/weights.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "tests/config/error_of.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::weights_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names(const std::vector<Difference>& differences) {
  std::vector<std::string> keys;
  for (const Difference& one : differences) keys.push_back(one.key);
  return keys;
}

Job qwen() {
  Job job;
  job.model = {.family = Family::kLlama,
               .layers = 2,
               .hidden = 64,
               .heads = 4,
               .kv_heads = 2,
               .head_dim = 32,
               .qk_norm = true,
               .ffn = 96,
               .vocab = 300,
               .seq_len = 128,
               .norm_eps = 1e-6,
               .rope_theta = 1e6};
  return resolve(job, 1, {});
}

TEST(Weights, KeysThatChangeTheFunctionAreCompared) {
  const Job weights = qwen();
  EXPECT_TRUE(other_meaning(weights, weights, {}).empty());
  Job job = weights;
  job.model.rope_theta = 10000;
  job.model.norm_eps = 1e-5;
  job.model.heads = 8;
  job.model.head_dim = 16;
  job.model.qk_norm = false;
  job.model.tied = false;
  EXPECT_THAT(names(other_meaning(weights, job, {})),
              testing::UnorderedElementsAre("model.rope_theta", "model.norm_eps", "model.heads",
                                            "model.head_dim", "model.qk_norm", "model.tied"));
  const std::vector<Difference> left = other_meaning(
      weights, job,
      {"model.heads", "model.head_dim", "model.qk_norm", "model.tied", "model.norm_eps"});
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].before, "1000000");
  EXPECT_EQ(left[0].after, "10000");
  // What says how training goes is free.
  job = weights;
  job.model.dropout = 0.1;
  job.model.init_std = 1;
  job.model.seq_len = 8;
  job.model.frozen = "embed";
  job.data.seed = 7;
  EXPECT_TRUE(other_meaning(weights, job, {}).empty());
}

TEST(Weights, AWidthThatIsSaidIsTheOneThatFollows) {
  Job weights = qwen();
  weights.model.head_dim = 0;
  Job job = weights;
  job.model.head_dim = weights.model.hidden / weights.model.heads;
  EXPECT_TRUE(other_meaning(weights, job, {}).empty());
}

// A probe has its tower's sizes and nothing of the predictor; a text tower's depth is no decoder's.
TEST(Weights, FamiliesCompareWhatTheyShare) {
  Job jepa, probe;
  jepa.model.family = Family::kJepa;
  probe.model.family = Family::kProbe;
  probe.vision.norm_eps = 1e-3;
  jepa.jepa.layers = 3;
  EXPECT_EQ(names(other_meaning(jepa, probe, {})), std::vector<std::string>{"vision.norm_eps"});
  const Job defaults = defaults_from(jepa, Family::kProbe);
  EXPECT_EQ(defaults.jepa, Job{}.jepa);
  EXPECT_EQ(defaults.vision.norm_eps, jepa.vision.norm_eps);

  Job clip, vlm;
  clip.model.family = Family::kClip;
  vlm.model.family = Family::kVlm;
  clip.model.layers = 12;
  EXPECT_TRUE(other_meaning(clip, vlm, {"vision.pixels"}).empty());
  EXPECT_EQ(defaults_from(clip, Family::kVlm).model.layers, Job{}.model.layers);
  Job llama;
  llama.model.family = Family::kLlama;
  llama.model.layers = 12;
  EXPECT_EQ(names(other_meaning(llama, vlm, {})), std::vector<std::string>{"model.layers"});
}

// Families see pixels differently where a job says nothing; what begins with weights sees as these do.
TEST(Weights, PixelsAreSeenAsTheWeightsSawThem) {
  Job clip, vlm;
  clip.model.family = Family::kClip;
  vlm.model.family = Family::kVlm;
  EXPECT_EQ(defaults_from(clip, Family::kClip).vision.pixels, "");
  EXPECT_EQ(defaults_from(clip, Family::kVlm).vision.pixels, "imagenet");
  EXPECT_EQ(names(other_meaning(clip, vlm, {})), (std::vector<std::string>{"vision.pixels"}));
  vlm.vision.pixels = "0.485,0.456,0.406/0.229,0.224,0.225";
  EXPECT_TRUE(other_meaning(clip, vlm, {}).empty());
  clip.vision.pixels = "clip";
  const Job seeing = defaults_from(clip, Family::kVlm);
  EXPECT_EQ(seeing.vision.pixels, "clip");
}

TEST(Weights, AdaptersAreComparedWithAdapters) {
  Job weights = qwen(), job = qwen();
  job.lora = {.rank = 4, .alpha = 8};
  EXPECT_TRUE(other_meaning(weights, job, {}).empty());
  weights.lora = {.rank = 4, .alpha = 16};
  EXPECT_EQ(names(other_meaning(weights, job, {})), std::vector<std::string>{"lora.alpha"});
}

TEST(Weights, KeysThatAreLeftOutComeFromThem) {
  const Job base = defaults_from(qwen(), Family::kLlama);
  const Job job =
      parse_job_over(base, "model: {weights: w, norm_eps: 1e-3}\nrun: {steps: 9}", "job");
  EXPECT_EQ(job.model.family, Family::kLlama);
  EXPECT_EQ(job.model.rope_theta, 1e6);
  EXPECT_EQ(job.model.vocab, 300);
  EXPECT_EQ(job.model.norm_eps, 1e-3);
  EXPECT_EQ(job.run.steps, 9);
  EXPECT_EQ(job.model.init_std, Model{}.init_std);
  const Job printed = parse_job(print_job_for(qwen(), "dir/step-0"), "job.yaml");
  EXPECT_EQ(printed.model.weights, "dir/step-0");
  EXPECT_TRUE(other_meaning(qwen(), resolve(printed, 1, {}), {}).empty());
}

// Every key of a model is either compared, or one that a person has looked at.
TEST(Weights, NoKeyOfAModelIsForgotten) {
  const std::set<std::string> free = {"model.family",
                                      "model.seq_len",
                                      "model.dropout",
                                      "model.init_std",
                                      "model.frozen",
                                      "model.weights",
                                      "vision.image",
                                      "vision.frames",
                                      "vision.position_grid",
                                      "jepa.momentum",
                                      "jepa.masks",
                                      "jepa.cut_batch",
                                      "action.rollout",
                                      "probe.lr",
                                      "probe.weight_decay",
                                      "probe.augment",
                                      "probe.clips",
                                      "hnet.ratio",
                                      "hnet.ratio_weight",
                                      "hnet.lr",
                                      "vicreg.weight",
                                      "vicreg.statistics",
                                      "vicreg.feature_matches",
                                      "arrcoc.budget",
                                      "arrcoc.gate",
                                      "arrcoc.explore",
                                      "arrcoc.penalties",
                                      "vlm.max_tiles",
                                      "vlm.fit",
                                      "vlm.pack",
                                      "vlm.balance",
                                      "vlm.features"};
  for (const Field& field : fields()) {
    if (field.section() == "data") break;  // sections of the model come first
    EXPECT_NE(field.compared, free.contains(field.key)) << field.key;
  }
}

TEST(Weights, OnlyWhatIsComparedIsAllowed) {
  EXPECT_NO_THROW(check_allowed({"model.rope_theta", "data.tokenizer"}));
  EXPECT_THAT(usage_error_of([] { check_allowed({"model.seq_len"}); }), HasSubstr("not compared"));
  EXPECT_THAT(usage_error_of([] { check_allowed({"model.rope"}); }),
              HasSubstr("did you mean model.rope_theta"));
}

}  // namespace
}  // namespace trireme::config::weights_test
