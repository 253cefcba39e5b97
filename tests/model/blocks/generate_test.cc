#include "trireme/model/blocks/generate.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <map>

#include "tests/harness/bound_model.h"
#include "tests/model/blocks/text_by_windows.h"
#include "trireme/base/error.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::generate_test {
namespace {

at::Tensor logits_of(std::vector<double> probabilities) {
  return at::tensor(probabilities, at::kDouble).log();
}

std::map<std::int64_t, double> frequencies(const at::Tensor& logits, const Sampling& sampling) {
  constexpr int kDraws = 20000;
  std::map<std::int64_t, double> result;
  for (int i = 0; i < kDraws; ++i) result[sample(logits, sampling, i)] += 1.0 / kDraws;
  return result;
}

TEST(Sample, FollowsTheDistribution) {
  const auto drawn = frequencies(logits_of({.1, .2, .3, .4}), {});
  for (int id = 0; id < 4; ++id) EXPECT_NEAR(drawn.at(id), .1 * (id + 1), 0.015) << id;
}

TEST(Sample, TemperatureSharpensToTheLikeliest) {
  const at::Tensor logits = logits_of({.1, .2, .3, .4});
  EXPECT_EQ(frequencies(logits, {.temperature = 0}).size(), 1u);
  EXPECT_EQ(sample(logits, {.temperature = 0}, 3), 3);
  EXPECT_NEAR(frequencies(logits, {.temperature = 0.5}).at(3), .16 / .30, 0.015);
}

TEST(Sample, TopKAndTopPCutTheTail) {
  const at::Tensor logits = logits_of({.1, .2, .3, .4});
  const auto two = frequencies(logits, {.top_k = 2});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(3), 4. / 7, 0.015);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.69}).size(), 2u);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.71}).size(), 3u);
  EXPECT_EQ(frequencies(logits, {.top_p = 1e-9}).size(), 1u);
}

TEST(Sample, RefusesWhatHasNoMeaning) {
  const at::Tensor logits = logits_of({.5, .5});
  EXPECT_THROW(sample(logits, {.temperature = -1}, 0), Error);
  EXPECT_THROW(sample(logits, {.top_k = -1}, 0), Error);
  EXPECT_THROW(sample(logits, {.top_p = 0}, 0), Error);
  EXPECT_THROW(sample(at::full({2}, NAN), {}, 0), Error);
}

config::Job small_job(config::Family family, std::int64_t seq_len) {
  config::Job job;
  job.model = {.family = family,
               .layers = 2,
               .hidden = 16,
               .heads = 2,
               .kv_heads = 2,
               .ffn = 32,
               .vocab = 31,
               .seq_len = seq_len,
               .init_std = 0.5};
  return job;
}

TEST(Generate, ReadsTheWindowAndRepeats) {
  for (config::Family family :
       {config::Family::kGpt, config::Family::kLlama, config::Family::kNeox}) {
    config::Job job = small_job(family, 8);
    if (family == config::Family::kGpt) job.model.dropout = 0.5;
    harness::BoundModel bound(build(job), at::kFloat);
    GenerateArgs args{.prompt = {3, 1, 4},
                      .max_tokens = 20,
                      .context = 8,
                      .sampling = {.seed = 9},
                      .on_token = {}};
    const std::vector<std::int64_t> text = generate(bound.model(), args);
    EXPECT_EQ(text.size(), 20u);
    EXPECT_EQ(generate(bound.model(), args), text);
    args.sampling.seed = 10;
    EXPECT_NE(generate(bound.model(), args), text);

    const std::vector<std::int64_t> window = {1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<std::int64_t> longer = window;
    longer.insert(longer.begin(), 30);
    EXPECT_TRUE(
        at::equal(next_logits(bound.model(), window, 8), next_logits(bound.model(), longer, 8)));

    args.sampling.temperature = 0;
    EXPECT_EQ(generate(bound.model(), args), harness::text_by_windows(bound.model(), args));

    int seen = 0;
    args.on_token = [&](std::int64_t) { return ++seen < 5; };
    EXPECT_EQ(generate(bound.model(), args).size(), 5u);
    args.prompt.clear();
    EXPECT_THROW(generate(bound.model(), args), Error);
  }
}

// What a text's next tokens may be does not depend on the parts in which it was read.
TEST(Generate, ReadsEachTokenOnce) {
  using config::Family;
  struct Case {
    Family family;
    std::int64_t heads, kv_heads;
    std::string layers;
    std::vector<std::string> own{};
  };
  const std::vector<std::string> caps = {"llama.attention_cap=0.4", "llama.logits_cap=1.5"};
  const std::vector<std::string> phi = {
      "llama.rotary_fraction=0.5", "llama.output_bias=true", "llama.feed_forward_bias=true",
      "model.rope_scaling=longrope factor=2 original=12 short=1 long=3"};
  for (const Case& one :
       {Case{Family::kGpt, 2, 2, ""}, Case{Family::kNeox, 2, 2, ""}, Case{Family::kLlama, 4, 2, ""},
        Case{Family::kLlama, 4, 4, ""}, Case{Family::kLlama, 4, 1, "sliding:3,nope"},
        Case{Family::kLlama, 2, 1, "sliding:1,full"},
        Case{Family::kLlama, 4, 2, "sliding:3,full", caps}, Case{Family::kLlama, 4, 2, "", phi}}) {
    config::Job job;
    job.model = {.family = one.family,
                 .layers = 2,
                 .hidden = 16,
                 .heads = one.heads,
                 .kv_heads = one.kv_heads,
                 .ffn = 32,
                 .vocab = 31,
                 .seq_len = 24,
                 .init_std = 0.5};
    job.model.attention_layers = one.layers;
    for (const std::string& set : one.own) config::apply_set(job, set);
    job.precision.compute = DType::kF64;
    harness::BoundModel bound(build(job), at::kDouble);
    std::vector<std::int64_t> text;
    for (std::int64_t i = 0; i < 24; ++i) text.push_back(i * i % 31);
    GrowingText growing(bound.model());
    for (const std::int64_t end : {1, 2, 7, 8, 9, 20, 24}) {
      const std::vector<std::int64_t> so_far(text.begin(), text.begin() + end);
      const at::Tensor whole = next_logits(bound.model(), so_far, 24);
      EXPECT_LT((growing.next_logits(so_far) - whole).abs().max().item<double>(), 1e-12)
          << one.layers << one.kv_heads << end;
    }
  }
}

// The sum over its tokens of what next_logits() says of each.
TEST(LogLikelihood, IsThatOfOneTokenAfterTheOther) {
  for (config::Family family :
       {config::Family::kGpt, config::Family::kLlama, config::Family::kNeox}) {
    config::Job job = small_job(family, 12);
    job.precision.compute = DType::kF64;
    harness::BoundModel bound(build(job), at::kDouble);
    const std::vector<std::int64_t> text = {3, 1, 4, 1, 5, 9, 2, 6};
    for (const std::size_t begin : {1U, 4U, 7U}) {
      double sum = 0;
      for (std::size_t i = begin; i < text.size(); ++i)
        sum += next_logits(bound.model(), {text.begin(), text.begin() + static_cast<int>(i)}, 12)
                   .log_softmax(0)[text[i]]
                   .item<double>();
      EXPECT_NEAR(log_likelihood(bound.model(), text, begin, 12), sum, 1e-10) << begin;
    }
    // Of a longer context the last tokens are read.
    std::vector<std::int64_t> longer(20, 7);
    longer.insert(longer.end(), text.begin(), text.end());
    const std::vector<std::int64_t> kept(longer.end() - 13, longer.end());
    EXPECT_EQ(log_likelihood(bound.model(), longer, longer.size() - 3, 12),
              log_likelihood(bound.model(), kept, kept.size() - 3, 12));
    EXPECT_THROW(log_likelihood(bound.model(), longer, 2, 12), Error);
  }
}

}  // namespace
}  // namespace trireme::blocks::generate_test
