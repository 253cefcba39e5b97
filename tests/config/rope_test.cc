// Rotary frequencies and their scaling: published values to nine digits, and the text of model.rope_scaling.
#include "trireme/config/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::rope_test {
namespace {

using testing::HasSubstr;

Rope rope(std::int64_t width, double theta, const std::string& scaling,
          std::int64_t tokens = 8192) {
  return rope_of({.heads = 1,
                  .head_dim = width,
                  .seq_len = tokens,
                  .rope_theta = theta,
                  .rope_scaling = scaling});
}

struct Published {
  const char* name;
  std::int64_t width;
  double theta;
  const char* scaling;
  double amplitude;
  std::vector<std::pair<std::size_t, double>> frequencies;
};

// Of the configurations of these models, computed from their papers' formulas in fp64.
TEST(Rope, PublishedModelsHaveTheirFrequencies) {
  const std::vector<Published> all = {
      {"Llama 3.1 8B",
       128,
       5e5,
       "llama3 factor=8 original=8192",
       1,
       {{28, 3.211445995e-3},
        {29, 2.166570764e-3},
        {30, 1.371893568e-3},
        {34, 1.785078128e-4},
        {35, 9.556212354e-5},
        {63, 3.068925989e-7}}},
      {"Llama 3.2 3B",
       128,
       5e5,
       "llama3 factor=32 original=8192 low=1 high=4",
       1,
       {{29, 2.118406997e-3}, {30, 1.290547928e-3}, {35, 2.389053088e-5}, {63, 7.672314972e-8}}},
      {"Llama 3.2 1B",
       64,
       5e5,
       "llama3 factor=32 original=8192",
       1,
       {{15, 1.290547928e-3}, {16, 4.295567966e-4}, {17, 9.708287803e-5}, {31, 9.418306725e-8}}},
      {"Qwen2.5 with YaRN",
       128,
       1e6,
       "yarn factor=4 original=32768",
       1.138629436,
       {{30, 1.06436098e-3}}},
      {"OLMo 3",
       128,
       5e5,
       "yarn factor=8 original=8192",
       1.207944154,
       {{25, 3.80032017e-3}, {30, 8.14839823e-4}}},
      {"gpt-oss",
       64,
       1.5e5,
       "yarn factor=32 original=4096 truncate=0",
       1.346573590,
       {{31, 3.02351143e-7}}},
      {"Vicuna 16k",
       128,
       1e4,
       "linear factor=4",
       1,
       {{0, 0.25}, {32, 0.0025}, {63, 2.8869549617e-5}}},
      {"DeepSeek-V3", 64, 1e4, "yarn factor=40 original=4096 attention=1", 1, {{0, 1}}}};
  for (const Published& model : all) {
    const Rope seen = rope(model.width, model.theta, model.scaling);
    EXPECT_NEAR(seen.amplitude, model.amplitude, 1e-9) << model.name;
    for (const auto& [index, frequency] : model.frequencies)
      EXPECT_NEAR(seen.frequencies[index] / frequency, 1, 5e-9) << model.name << " " << index;
  }
}

// How many frequencies of Llama 3.1 and 3.2 1B are kept, lie between and are divided.
TEST(Rope, Llama3DividesLongWavesAlone) {
  for (const auto& [width, factor, kept, between] :
       {std::tuple{128, 8.0, 29, 6}, std::tuple{64, 32.0, 15, 3}}) {
    const std::vector<double> plain = rope_frequencies(5e5, width);
    const Rope scaled = rope(width, 5e5, fmt::format("llama3 factor={} original=8192", factor));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const double ratio = plain[i] / scaled.frequencies[i];
      if (std::cmp_less(i, kept))
        EXPECT_EQ(ratio, 1) << i;
      else if (std::cmp_less(i, kept + between))
        EXPECT_TRUE(1 < ratio && ratio < factor) << i;
      else
        EXPECT_DOUBLE_EQ(ratio, factor) << i;
    }
  }
}

TEST(Rope, YarnKeepsShortWavesAndDividesLongOnes) {
  for (const auto& [theta, scaling, first, last] :
       {std::tuple{1e6, "yarn factor=4 original=32768", 23, 40},
        std::tuple{5e5, "yarn factor=8 original=8192", 18, 35}}) {
    const std::vector<double> plain = rope_frequencies(theta, 128);
    const Rope scaled = rope(128, theta, scaling);
    const double factor = parse_rope_scaling(scaling).factor;
    for (int i : {0, first}) EXPECT_EQ(scaled.frequencies[i], plain[i]) << scaling << i;
    EXPECT_LT(scaled.frequencies[first + 1], plain[first + 1]) << scaling;
    EXPECT_GT(scaled.frequencies[last - 1], plain[last - 1] / factor) << scaling;
    for (int i : {last, 63}) EXPECT_EQ(scaled.frequencies[i], plain[i] / factor) << scaling << i;
  }
}

// Up to the length of pretraining nothing changes; beyond it the base grows with the length.
TEST(Rope, DynamicFollowsTheSequenceLength) {
  const char* scaling = "dynamic factor=2 original=4096";
  EXPECT_EQ(rope(128, 1e4, scaling, 4096).frequencies, rope_frequencies(1e4, 128));
  const double base = 1e4 * std::pow(2.0 * 3 - 1, 128.0 / 126);  // three times as long
  EXPECT_NEAR(rope(128, 1e4, scaling, 3 * 4096).frequencies[63] / std::pow(base, -126.0 / 128), 1,
              1e-12);
}

// Phi-3 with 128k tokens: one choice of divisors by the length, one factor of cosines and sines for both.
TEST(Rope, LongRopeHasADivisorForEachFrequency) {
  const char* scaling = "longrope factor=32 original=4096 short=1,2,4,8 long=2,3,4,5";
  const Rope brief = rope(8, 16, scaling, 4096), longer = rope(8, 16, scaling, 4097);
  EXPECT_EQ(brief.frequencies, (std::vector<double>{1, 0.25, 0.0625, 0.015625}));
  EXPECT_EQ(longer.frequencies, (std::vector<double>{0.5, 0.5 / 3, 0.0625, 0.025}));
  for (const Rope& one : {brief, longer}) EXPECT_NEAR(one.amplitude, 1.190238071, 1e-9);
  EXPECT_EQ(rope(8, 16, fmt::format("{} attention=1.5", scaling)).amplitude, 1.5);
}

TEST(Rope, APartOfAHeadHasFrequenciesOfItsOwnWidth) {
  const Model model{.heads = 1, .head_dim = 16, .seq_len = 64, .rope_theta = 16};
  EXPECT_EQ(rope_of(model, 0.55).frequencies,
            (std::vector<double>{1, 0.5, 0.25, 0.125, 0, 0, 0, 0}))
      << "8 of 16 channels";
}

TEST(Rope, TextComesBackWithoutDefaults) {
  for (const char* text :
       {"", "linear factor=8", "dynamic factor=2.5 original=2048", "llama3 factor=8 original=8192",
        "llama3 factor=8 original=8192 low=2 high=3",
        "yarn factor=32 original=4096 fast=16 slow=2 attention=1.25 truncate=0",
        "longrope factor=32 original=4096 attention=1.2 short=1,1.05 long=1.5,64.25"})
    EXPECT_EQ(print(parse_rope_scaling(text)), text);
  EXPECT_EQ(print(parse_rope_scaling("llama3  high=4 original=8192 factor=8")),
            "llama3 factor=8 original=8192");
}

// So that weights are compared by what they mean.
TEST(Rope, AResolvedJobHasTheShortestText) {
  Job job;
  for (const char* set : {"model.family=llama", "model.vocab=64"}) apply_set(job, set);
  job.model.rope_scaling = "yarn original=64 factor=4 fast=32";
  job.model.attention_layers = "full,1xfull";
  job = resolve(job, 1, {});
  EXPECT_EQ(job.model.rope_scaling, "yarn factor=4 original=64");
  EXPECT_EQ(job.model.attention_layers, "");
}

TEST(Rope, RefusedTextNamesWhatIsWrong) {
  const auto refused = [](const std::string& text) {
    return usage_error_of([&] {
      Job job;
      for (const char* set : {"model.family=llama", "model.vocab=64"}) apply_set(job, set);
      job.model.rope_scaling = text;
      resolve(job, 1, {});
    });
  };
  EXPECT_THAT(refused("spiral factor=4"),
              HasSubstr("model.rope_scaling=spiral factor=4: \"spiral\" is no kind; needs a "
                        "kind and its numbers, such as linear factor=8"));
  const std::string lists = "longrope factor=2 original=8 short=1,1,1,1,1,1,1,1 ";
  EXPECT_THAT(refused(lists), HasSubstr("long is missing"));
  EXPECT_THAT(refused(lists + "long=1,2"), HasSubstr("short has 8 numbers and long 2"));
  EXPECT_THAT(refused(lists + "long=1,2,"), HasSubstr("\"\" is not a number from 1e-06 to"));
  EXPECT_THAT(refused(lists + "long=1,0"), HasSubstr("\"0\" is not a number from 1e-06 to"));
  EXPECT_THAT(refused("longrope factor=2 original=1 short=1 long=2"), HasSubstr("original"));
  EXPECT_THAT(
      refused("longrope factor=2 original=8 short=1 long=2"),
      HasSubstr("short and long have 1 numbers for 8 frequencies, half of the 16 channels"));
  EXPECT_THAT(refused("linear"), HasSubstr("factor is missing"));
  EXPECT_THAT(refused("llama3 factor=8"), HasSubstr("original is missing"));
  EXPECT_THAT(refused("linear factor=8 original=8"), HasSubstr("\"original=8\" is no number of"));
  EXPECT_THAT(refused("linear factor"), HasSubstr("\"factor\" is no number of linear"));
  EXPECT_THAT(refused("linear factor=0.5"), HasSubstr("is not a number from 1 to"));
  EXPECT_THAT(refused("linear factor=8x"), HasSubstr("is not a number from 1 to"));
  EXPECT_THAT(refused("linear factor=nan"), HasSubstr("is not a number from 1 to"));
  EXPECT_THAT(refused("llama3 factor=8 original=8192 low=4"), HasSubstr("low=4 is not below high"));
  EXPECT_THAT(refused("yarn factor=8 original=8192 slow=32"), HasSubstr("slow=32 is not below"));
  EXPECT_THAT(refused("yarn factor=8 original=8192 truncate=0.5"), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(
      usage_error_of([] {
        Job job;
        for (const char* set : {"model.vocab=64", "model.rope_scaling=linear factor=2"})
          apply_set(job, set);
        resolve(job, 1, {});
      }),
      HasSubstr("model.rope_scaling=linear factor=2: model.family=gpt has no rotary positions"));
}

}  // namespace
}  // namespace trireme::config::rope_test
