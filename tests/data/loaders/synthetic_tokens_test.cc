// Made-up text: a function of seed and number, with the entropy that it is said to have.
#include "trireme/data/loaders/tokens/synthetic_tokens.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "trireme/config/synthetic.h"

namespace trireme::loaders::synthetic_tokens_test {
namespace {

config::Job job(config::DataSource source) {
  config::Job job;
  job.model.seq_len = 40;
  job.data = {.source = source, .samples = 100, .seed = 3, .validation = 0.1};
  return job;
}

TEST(SyntheticTokens, WordsAreOfThirtyTwo) {
  std::set<std::string> words;
  double letters = 0, count = 0;
  for (std::int64_t number = 0; number < 50; ++number) {
    std::string text;
    for (const std::int64_t byte : words_sample(1, number, 400)) text += static_cast<char>(byte);
    for (std::size_t end = text.find(' '); end != text.npos; end = text.find(' ')) {
      words.insert(text.substr(0, end));
      letters += static_cast<double>(end);
      ++count;
      text.erase(0, end + 1);
    }
  }
  EXPECT_EQ(words.size(), 32U);
  for (const std::string& word : words) {
    EXPECT_GE(word.size(), 2U);
    EXPECT_LE(word.size(), 6U);
    EXPECT_EQ(word.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), word.npos);
  }
  EXPECT_NEAR(letters / count, 4, 1);
  EXPECT_NE(words_sample(1, 0, 40), words_sample(1, 1, 40));
  EXPECT_NE(words_sample(1, 0, 40), words_sample(2, 0, 40));
}

TEST(SyntheticTokens, AffineTermsFollowOneRule) {
  std::set<std::int64_t> factors;
  for (std::int64_t number = 0; number < 100; ++number) {
    const auto terms = affine_sample(1, number, 30);
    int fits = 0;
    for (const std::int64_t factor : {3, 5, 7, 11, 13, 17, 19, 23}) {
      bool all = true;
      for (std::size_t i = 1; i < terms.size(); ++i)
        all = all && terms[i] == (factor * terms[i - 1] + 1) % 251;
      if (all) factors.insert(factor);
      fits += all;
    }
    EXPECT_GE(fits, 1);
  }
  EXPECT_EQ(factors.size(), 8U);
}

TEST(SyntheticTokens, HoldOutANumberOfSamples) {
  config::Job counted = job(config::DataSource::kWords);
  counted.data.validation = 3;
  EXPECT_EQ(open_sources(counted, {}).held_out->samples(), 3);
}

TEST(SyntheticTokens, BatchesAreTheirSamplesAndTargetsTheNextTokens) {
  for (const config::DataSource source :
       {config::DataSource::kWords, config::DataSource::kAffine}) {
    const Sources sources = open_sources(job(source), {});
    const auto batch = sources.train->batch(5, 3);
    ASSERT_EQ(batch.size(), 2U);
    EXPECT_TRUE(batch[0].narrow(1, 1, 39).equal(batch[1].narrow(1, 0, 39)));
    EXPECT_TRUE(batch[0][2].equal(sources.train->batch(7, 1)[0][0]));
    EXPECT_FALSE(batch[0].equal(sources.held_out->batch(5, 3)[0]));
    EXPECT_EQ(sources.train->samples(), 100);
    EXPECT_EQ(sources.held_out->samples(), 10);
    EXPECT_EQ(sources.train->weight(5, 3), 120);
    EXPECT_EQ(sources.digest, config::digest(*config::synthetic_source(source)));
  }
  EXPECT_NE(config::digest(*config::synthetic_source(config::DataSource::kWords)),
            config::digest(*config::synthetic_source(config::DataSource::kAffine)));
}

}  // namespace
}  // namespace trireme::loaders::synthetic_tokens_test
