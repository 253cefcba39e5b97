// The stages that a job's lists describe, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/hnet/keys_stages.h"

namespace trireme::config::hnet_test {
namespace {

using testing::HasSubstr;

constexpr DatasetFacts kByteFacts{.vocab = 256};

Hnet nested() {
  return {.layout = "m4,[T1m4,[T26],m4T1],m4",
          .hidden = "1024,1024,1536",
          .heads = "16,16,16",
          .ffn = "0,2816,4096",
          .ratio = "3,3",
          .lr = "2.63,1.52,0.71"};
}

std::string why_no_stages(const Hnet& hnet) {
  return usage_error_of([&] { hnet_stages(hnet); });
}

TEST(HnetStages, ComeFromTheOutermostIn) {
  const std::vector<HnetStage> stages = hnet_stages(nested());
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].encoder, "mmmm");
  EXPECT_EQ(stages[1].encoder, "Tmmmm");
  EXPECT_EQ(stages[1].decoder, "mmmmT");
  EXPECT_EQ(stages[2].encoder, std::string(26, 'T'));
  EXPECT_TRUE(stages[2].inner());
  EXPECT_EQ(stages[2].hidden, 1536);
  EXPECT_EQ(stages[1].ffn, 2816);
  EXPECT_EQ(stages[1].ratio, 3);
  EXPECT_EQ(stages[0].lr, 2.63);
  EXPECT_EQ(stages[0].writes(), 8);
  EXPECT_EQ(stages[1].writes(), 12);
  EXPECT_EQ(stages[2].writes(), 52);
}

TEST(HnetStages, EachMayHaveAWindow) {
  Hnet hnet = nested();
  hnet.window = "1023,0,-1";
  const std::vector<HnetStage> stages = hnet_stages(hnet);
  EXPECT_EQ(stages[0].window, 1023);
  EXPECT_EQ(stages[1].window, 0);
  EXPECT_EQ(stages[2].window, -1);
  EXPECT_EQ(hnet_stages(nested())[0].window, -1);
  hnet.window = "1023";
  EXPECT_THAT(why_no_stages(hnet),
              HasSubstr("hnet.window=1023 has 1 entries, but hnet.layout needs 3"));
  hnet.window = "1023,-2,-1";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("\"-2\" is not a whole number from -1"));
  hnet.window = "1023,2.5,-1";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("\"2.5\" is not a whole number"));
}

TEST(HnetStages, AreTheTinyOnesWhereNothingIsSet) {
  const std::vector<HnetStage> stages = hnet_stages({});
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].encoder, "TT");
  EXPECT_EQ(stages[1].encoder, "TTT");
  EXPECT_EQ(stages[0].lr, 1);
}

TEST(HnetStages, LayoutsThatAreNoneAreRefused) {
  for (const char* layout :
       {"",
        "T2",
        "[T3]",
        "T2,[T3]",
        "[T3],T2",
        "T2[T3],T2",
        "T2,[T3]T2",
        "T2,[T3,T2",
        "T2,T3],T2",
        "T2,[],T2",
        "T2,[X3],T2",
        "T,[T3],T2",
        "T0,[T3],T2",
        "T-1,[T3],T2",
        "T2,[T3],T99999",
        "T2,[T99999999999999999999],T2",
        "T2,[T3],T2,[T3],T2",
        "T2,[T3,[T1],T1],T2]",
        "T2, [T3],T2",
        "T1,[T1,[T1,[T1,[T1,[T1,[T1,[T1,[T1],T1],T1],T1],T1],T1],T1],T1],T1"}) {
    Hnet hnet;
    hnet.layout = layout;
    EXPECT_THAT(why_no_stages(hnet), HasSubstr("hnet.layout=")) << layout;
  }
}

TEST(HnetStages, ListsMustFitTheLayout) {
  Hnet hnet = nested();
  hnet.hidden = "1024,1536";
  EXPECT_THAT(why_no_stages(hnet),
              HasSubstr("hnet.hidden=1024,1536 has 2 entries, but hnet.layout needs 3"));
  hnet = nested();
  hnet.ratio = "3";
  EXPECT_THAT(why_no_stages(hnet),
              HasSubstr("hnet.ratio=3 has 1 entries, but hnet.layout needs 2"));
  hnet = nested();
  hnet.ratio = "3,1";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("\"1\" is not a number"));
  hnet = nested();
  hnet.heads = "16,nan,16";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("\"nan\" is not a whole number"));
  hnet = nested();
  hnet.hidden = "1024,1024,1536.5";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("\"1536.5\" is not a whole number"));
  hnet = nested();
  hnet.hidden = "1024,960,1536";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("stage 1 is narrower"));
  hnet = nested();
  hnet.heads = "16,16,17";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("stage 2 of hidden=1536 and heads=17"));
  hnet = nested();
  hnet.ffn = "0,0,4096";
  EXPECT_THAT(why_no_stages(hnet), HasSubstr("stage 1 has blocks T or M"));
  hnet = nested();
  hnet.ffn = "64,2816,4096";
  EXPECT_THAT(why_no_stages(hnet),
              HasSubstr("stage 0 of blocks t and m alone does not use ffn=64"));
}

TEST(HnetStages, AnyTextIsStagesOrRefused) {
  std::mt19937 random(1);
  constexpr std::string_view kLetters = "mMtT,,[[]]123456789";
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    Hnet hnet = round % 2 == 0 ? Hnet{} : nested();
    std::string& text = round % 4 < 2 ? hnet.layout : hnet.ratio;
    for (int edits = 1 + round % 3; edits > 0; --edits)
      text[random() % text.size()] = kLetters[random() % kLetters.size()];
    try {
      taken += hnet_stages(hnet).size() >= 2;
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::kUsage) << e.what();
    }
  }
  EXPECT_GT(taken, 100);
}

Job hnet_job() {
  Job job;
  job.model.family = Family::kHnet;
  return job;
}

std::string why_no_job(const Job& job, int world) {
  return usage_error_of([&] { resolve(job, world, kByteFacts); });
}

TEST(HnetJob, TakesBytesAndTheLayoutsThatItsBlocksHave) {
  EXPECT_EQ(resolve(hnet_job(), 1, kByteFacts).model.vocab, 256);
  Job spread = hnet_job();
  spread.parallel.tp = 2;
  spread.parallel.pp = 2;
  EXPECT_EQ(resolve(spread, 8, kByteFacts).parallel.dp_shard, 2);
  spread = hnet_job();
  spread.parallel.cp = 2;
  EXPECT_EQ(resolve(spread, 4, kByteFacts).parallel.dp_shard, 2);
  spread.parallel.context = ContextMethod::kUlysses;
  EXPECT_THAT(why_no_job(spread, 2), HasSubstr("parallel.context=ulysses: model.family=hnet"));
  spread = hnet_job();
  spread.parallel.tp = 8;
  EXPECT_THAT(why_no_job(spread, 8),
              HasSubstr("parallel.tp=8 is more than 4, hnet.heads of stage 0"));
  spread = hnet_job();
  spread.hnet.layout = "m2,[T3],m2";
  spread.hnet.ffn = "0,576";
  spread.parallel.tp = 2;
  EXPECT_NO_THROW(resolve(spread, 2, kByteFacts));
  spread.parallel.tp = 8;
  EXPECT_THAT(why_no_job(spread, 8),
              HasSubstr("parallel.tp=8 is more than 4, the Mamba-2 heads of stage 0 "
                        "(hnet.hidden=128 / 32)"));
}

TEST(HnetJob, RefusesKeysOfOtherFamilies) {
  Job other = hnet_job();
  other.model.layers = 3;
  EXPECT_THAT(why_no_job(other, 1), HasSubstr("model.layers=3: family hnet does not use it"));
  other = hnet_job();
  other.model.family = Family::kGpt;
  other.hnet.ratio = "5";
  EXPECT_THAT(why_no_job(other, 1), HasSubstr("hnet.ratio"));
}

TEST(SyntheticText, NeedsNoFileAndTakesNone) {
  Job words = hnet_job();
  words.data.source = DataSource::kWords;
  EXPECT_NO_THROW(resolve(words, 1, kByteFacts));
  words.data.path = "text";
  EXPECT_THAT(why_no_job(words, 1), HasSubstr("data.path=text"));
  Job llama = hnet_job();
  llama.model.family = Family::kLlama;
  llama.data.source = DataSource::kAffine;
  EXPECT_NO_THROW(resolve(llama, 1, kByteFacts));
}

}  // namespace
}  // namespace trireme::config::hnet_test
