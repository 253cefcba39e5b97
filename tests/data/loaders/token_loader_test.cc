#include "trireme/data/loaders/tokens/token_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme::loaders::token_loader_test {
namespace {

// A token file 0, 1, 2, ... modulo 251 in a directory of its own.
class TokenLoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("trireme_loader_" + std::to_string(::getpid()));
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  text::TokenFile counting_file(std::int64_t count) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 251);
    const Path prefix = directory_ / ("count" + std::to_string(count));
    text::TokenFileWriter writer(prefix, DType::kU8);
    writer.add_document(tokens);
    writer.finish();
    return text::TokenFile(prefix);
  }

  Path directory_;
};

TEST_F(TokenLoaderTest, TargetsAreTheNextTokens) {
  const text::TokenFile file = counting_file(1000);
  const TokenLoader loader(file, 16, 256, 3);
  const auto batch = loader.batch(0, 40);
  const auto* tokens = batch[0].data_ptr<std::int64_t>();
  const auto* targets = batch[1].data_ptr<std::int64_t>();
  for (int i = 0; i < 40 * 16; ++i) EXPECT_EQ((tokens[i] + 1) % 251, targets[i]);
}

TEST_F(TokenLoaderTest, PositionsBeginWithDocumentsAndSamples) {
  std::vector<std::int64_t> begins = {0, 7, 30, 31, 64, 90};
  const Path prefix = directory_ / "documents";
  text::TokenFileWriter writer(prefix, DType::kU8);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::int64_t end = i + 1 < begins.size() ? begins[i + 1] : 200;
    std::vector<std::int32_t> tokens;
    for (std::int64_t token = begins[i]; token < end; ++token)
      tokens.push_back(static_cast<std::int32_t>(token));
    writer.add_document(tokens);
  }
  writer.finish();
  const text::TokenFile file(prefix);
  const TokenLoader train(file, 16, 256, 3, /*documents=*/true);
  const EvaluationLoader evaluate(file, 16, 256, /*documents=*/true);
  for (const auto& batch : {train.batch(0, 11), evaluate.batch(0, 12)}) {
    ASSERT_EQ(batch.size(), 3u);
    for (std::int64_t row = 0; row < batch[0].size(0); ++row) {
      std::int64_t begin = batch[0][row][0].item<std::int64_t>();  // tokens are their places
      for (std::int64_t i = 0; i < 16; ++i) {
        const auto token = batch[0][row][i].item<std::int64_t>();
        if (batch[1][row][i].item<std::int64_t>() == kIgnoredTarget) continue;
        if (std::ranges::find(begins, token) != begins.end()) begin = token;
        EXPECT_EQ(batch[2][row][i].item<std::int64_t>(), token - begin);
      }
    }
  }
  EXPECT_EQ(file.document_of(0), 0);
  EXPECT_EQ(file.document_of(30), 2);
  EXPECT_EQ(file.document_of(199), 5);
}

TEST_F(TokenLoaderTest, AnySplitOfABatchDrawsTheSameSamples) {
  const text::TokenFile file = counting_file(1000);
  const TokenLoader loader(file, 16, 256, 3);
  const auto whole = loader.batch(100, 8);
  for (std::int64_t part = 0; part < 4; ++part) {
    const auto piece = loader.batch(100 + 2 * part, 2);
    EXPECT_TRUE(piece[0].equal(whole[0].narrow(0, 2 * part, 2)));
    EXPECT_TRUE(piece[1].equal(whole[1].narrow(0, 2 * part, 2)));
  }
}

TEST_F(TokenLoaderTest, AnEpochCoversTheStreamOnce) {
  const text::TokenFile file = counting_file(250);  // tokens are distinct
  const TokenLoader loader(file, 8, 256, 3);
  std::map<std::int64_t, int> seen;
  const auto batch = loader.batch(0, loader.samples_per_epoch());
  for (std::int64_t i = 0; i < batch[0].numel(); ++i) ++seen[batch[0].data_ptr<std::int64_t>()[i]];
  for (const auto& [token, times] : seen) EXPECT_EQ(times, 1) << token;
  EXPECT_GE(seen.size(), 250u - 16u);
}

TEST_F(TokenLoaderTest, RefusesTokensOutsideTheVocabularyAndShortStreams) {
  const text::TokenFile file = counting_file(1000);
  try {
    TokenLoader(file, 16, 100, 3).batch(0, 60);
    FAIL() << "a token beyond the vocabulary was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(e.what()).find("vocabulary of 100"), std::string::npos);
  }
  EXPECT_THROW(TokenLoader(counting_file(31), 16, 256, 3), Error);
  EXPECT_NO_THROW(TokenLoader(counting_file(32), 16, 256, 3));
}

TEST_F(TokenLoaderTest, EvaluationSeesEveryTargetOnce) {
  for (std::int64_t count : {0, 1, 2, 16, 17, 18, 100}) {
    const text::TokenFile file = counting_file(count);
    const EvaluationLoader loader(file, 16, 256);
    std::int64_t valid = 0;
    for (std::int64_t first = 0; first < loader.samples() + 5; first += 3) {
      const auto batch = loader.batch(first, 3);
      const std::int64_t in_batch = batch[1].ne(kIgnoredTarget).sum().item<std::int64_t>();
      EXPECT_EQ(in_batch, loader.valid_tokens(first, 3));
      valid += in_batch;
    }
    EXPECT_EQ(valid, std::max(count - 1, std::int64_t{0})) << count;
  }
}

}  // namespace
}  // namespace trireme::loaders::token_loader_test
