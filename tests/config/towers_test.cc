// Keys of image and text towers: what stands for what, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"

namespace trireme::config::towers_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Sets = std::vector<std::string>;

Job tower_job(const Sets& base, const Sets& sets) {
  Job job;
  for (const Sets* list : {&base, &sets})
    for (const std::string& set : *list) apply_set(job, set);
  return job;
}

const Sets kVit = {"model.family=vit", "data.source=stripes"};
const Sets kClip = {"model.family=clip", "data.source=scenes", "model.seq_len=64",
                    "run.global_batch=8", "run.micro_batch=8"};

Job resolved_tower(const Sets& base, const Sets& sets, int world = 1) {
  const Job job = tower_job(base, sets);
  const SyntheticSource* source = synthetic_source(job.data.source);
  return resolve(job, world, source == nullptr ? DatasetFacts{} : source->facts);
}

std::string tower_refusal(const Sets& base, const Sets& sets, int world = 1) {
  return usage_error_of([&] { resolved_tower(base, sets, world); });
}

TEST(Towers, SizesThatStandForOthersAreFilledIn) {
  const Job vit = resolved_tower(kVit, {"vision.hidden=96"});
  EXPECT_EQ(vit.vision.ffn, 384);
  EXPECT_EQ(vit.vision.classes, 5);
  const Job clip = resolved_tower(kClip, {"model.hidden=48"});
  EXPECT_EQ(clip.model.ffn, 192);
  EXPECT_EQ(clip.model.vocab, 256);
  for (const Job& job : {vit, clip}) {
    EXPECT_EQ(resolve(job, 1, {.vocab = 256, .classes = 5}), job);
    EXPECT_EQ(parse_job(print_yaml(job), ""), job);
  }
}

TEST(Towers, KeysWithoutUseAreRefusedAndNotPrinted) {
  EXPECT_THAT(tower_refusal(kVit, {"model.layers=3"}),
              HasSubstr("model.layers=3: family vit does not use it"));
  EXPECT_THAT(tower_refusal(kVit, {"contrastive.width=32"}),
              HasSubstr("family vit does not use it"));
  EXPECT_THAT(tower_refusal(kClip, {"vision.classes=4"}), HasSubstr("family clip does not use it"));
  EXPECT_THAT(tower_refusal(kClip, {"model.tied=false"}), HasSubstr("family clip does not use it"));
  EXPECT_THAT(tower_refusal({}, {"vision.layers=3"}), HasSubstr("family gpt does not use it"));
  EXPECT_THAT(print_yaml(resolved_tower(kVit, {})), Not(HasSubstr("seq_len")));
  EXPECT_THAT(tower_refusal(kVit, {"recompute.logits=true"}),
              HasSubstr("recompute.logits=true: model.family=vit"));
  EXPECT_THAT(tower_refusal(kVit, {"data.path=x"}), HasSubstr("data.path=x: the samples"));
  EXPECT_THAT(tower_refusal(kVit, {"data.documents=true"}), HasSubstr("data.documents=true"));
  EXPECT_THAT(tower_refusal(kVit, {"data.tokenizer=characters"}),
              HasSubstr("data.tokenizer=characters"));
}

TEST(Towers, FilesNeedAPath) {
  const Sets images = {"model.family=vit", "data.source=images"};
  EXPECT_THAT(tower_refusal(images, {"vision.classes=3"}), HasSubstr("set data.path"));
  EXPECT_THAT(tower_refusal(images, {"data.path=x"}),
              HasSubstr("the data have none (classes are only numbers, or files are missing); set "
                        "vision.classes"));
  EXPECT_EQ(resolved_tower(images, {"data.path=x", "vision.classes=3"}).vision.classes, 3);
  EXPECT_THAT(tower_refusal({"model.family=vit", "data.source=pairs"}, {"data.path=x"}),
              HasSubstr("set data.source=stripes or images"));
  EXPECT_EQ(resolved_tower({"model.family=clip", "data.source=pairs", "data.path=x"},
                           {"model.vocab=256", "run.micro_batch=8"})
                .model.seq_len,
            32);
}

TEST(Towers, SizesMustDivide) {
  EXPECT_THAT(tower_refusal(kVit, {"vision.image=30"}),
              HasSubstr("vision.image=30 is not divisible by vision.patch=8; nearest that work: "
                        "vision.image=24 or vision.image=32"));
  EXPECT_THAT(tower_refusal(kVit, {"vision.frames=3", "vision.tubelet=2"}),
              HasSubstr("vision.frames=3 is not divisible by vision.tubelet=2"));
  EXPECT_THAT(tower_refusal(kVit, {"vision.heads=5"}),
              HasSubstr("vision.hidden=128 is not divisible"));
  EXPECT_THAT(tower_refusal(kClip, {"model.heads=5"}),
              HasSubstr("model.hidden=64 is not divisible"));
  EXPECT_THAT(tower_refusal(kVit, {"vision.positions=rotary", "vision.heads=32"}),
              HasSubstr("= 4 per head: rotary positions"));
  EXPECT_THAT(tower_refusal(kVit, {"vision.positions=rotary_compat", "vision.hidden=36"}),
              HasSubstr("= 9 per head: rotary positions"));
  EXPECT_EQ(resolved_tower(kVit, {"vision.heads=32"}).vision.heads, 32);  // of a table any may be
}

TEST(Towers, DataMustFit) {
  EXPECT_THAT(tower_refusal({"model.family=vit"}, {}), HasSubstr("set data.source=stripes"));
  EXPECT_THAT(tower_refusal({"model.family=clip"}, {}), HasSubstr("set data.source=scenes"));
  EXPECT_THAT(tower_refusal({"data.source=stripes"}, {}),
              HasSubstr("model.family=gpt reads tokens"));
  EXPECT_THAT(tower_refusal(kVit, {"vision.classes=4"}), HasSubstr("set vision.classes=5 (or 0)"));
  EXPECT_THAT(tower_refusal(kClip, {"model.vocab=255"}), HasSubstr("set model.vocab=256"));
  EXPECT_THAT(
      tower_refusal(kClip, {"model.seq_len=53"}),
      HasSubstr("less than 54 tokens: captions have up to as many with their end; raise it to 54"));
}

TEST(Towers, LayoutsMustFit) {
  EXPECT_THAT(tower_refusal(kVit, {"parallel.cp=2", "parallel.context=ulysses"}, 2),
              HasSubstr("parallel.context=ulysses: model.family=vit"));
  EXPECT_THAT(tower_refusal(kVit, {"parallel.cp=2", "parallel.context=hierarchical"}, 2),
              HasSubstr("set parallel.context=all_gather"));
  const Job spread = resolved_tower(kVit, {"parallel.cp=2"}, 2);
  EXPECT_EQ(spread.parallel.context, ContextMethod::kAllGather);
  EXPECT_THAT(notes(spread), Contains(HasSubstr("context=all_gather")));
  EXPECT_THAT(tower_refusal(kVit, {"parallel.tp=8"}, 8), HasSubstr("more than vision.heads=4"));
  EXPECT_THAT(tower_refusal(kVit, {"parallel.tp=4", "vision.ffn=3"}, 4),
              HasSubstr("more than vision.ffn=3"));
  EXPECT_THAT(tower_refusal(kClip, {"parallel.tp=4", "model.heads=2"}, 4),
              HasSubstr("more than model.heads=2"));
  EXPECT_THAT(tower_refusal(kVit, {"lora.rank=2"}), HasSubstr("model.family=vit has no adapters"));
}

// A loss node that saw less than the global batch would train something else.
TEST(Towers, ContrastiveLossesSeeTheWholeBatch) {
  EXPECT_EQ(resolved_tower(kClip, {"run.micro_batch=4"}, 2).run.micro_batch, 4);
  EXPECT_THAT(tower_refusal(kClip, {"run.micro_batch=4"}),
              HasSubstr("run.global_batch=8, but run.micro_batch=4 x dp=1"));
  EXPECT_THAT(tower_refusal(kClip, {"run.micro_batch=2"}, 2),
              HasSubstr("Set parallel.schedule=gpipe, run.micro_batch=4 or run.global_batch=4"));
  EXPECT_THAT(tower_refusal(kClip, {"run.micro_batch=4", "parallel.pp=2"}, 2),
              HasSubstr("Set parallel.schedule=gpipe, run.micro_batch=8 or run.global_batch=4"));
  EXPECT_EQ(resolved_tower(kClip, {"parallel.pp=2"}, 2).parallel.pp, 2);
}

TEST(Towers, GradcacheTakesSeveralMicroBatchesOneAfterTheOther) {
  const Sets cached = {"run.micro_batch=2"};
  const auto with = [&](const char* set) {
    Sets sets = cached;
    sets.emplace_back(set);
    return sets;
  };
  EXPECT_EQ(accumulation(resolved_tower(kClip, with("parallel.schedule=gpipe"), 2)), 2);
  EXPECT_EQ(accumulation(resolved_tower(kClip, cached, 4)), 1);
  EXPECT_THAT(
      tower_refusal(kClip, cached, 2),
      HasSubstr("of 2 micro-batches a rank, but parallel.schedule=1f1b has backwards before "
                "the last forward. Set parallel.schedule=gpipe"));
}

}  // namespace
}  // namespace trireme::config::towers_test
