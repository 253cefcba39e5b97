#include "trireme/model/token_sharing.h"

#include <gtest/gtest.h>

namespace trireme::model::token_sharing_test {
namespace {

using config::ContextMethod;

config::Job job_of(std::int64_t tokens, int cp, const std::string& layers) {
  config::Job job;
  job.model = {.family = config::Family::kLlama,
               .layers = 4,
               .hidden = 64,
               .heads = 8,
               .kv_heads = 8,
               .seq_len = tokens};
  job.model.attention_layers = layers;
  job.parallel.cp = cp;
  return job;
}

TEST(TokenLayout, OfOneDocumentIsTheZigzag) {
  for (const ContextMethod method : {ContextMethod::kRing, ContextMethod::kAllGather,
                                     ContextMethod::kUlysses, ContextMethod::kHierarchical})
    for (const char* layers : {"", "nope"}) {
      config::Job job = job_of(48 * 8, 8, layers);
      job.parallel.context = method;
      job.parallel.context_inner = 2;
      const mesh::BalancedLayout even = token_layout(job);
      EXPECT_EQ(even.layout.ranges, mesh::zigzag(job.model.seq_len, 8).ranges);
      EXPECT_EQ(even.imbalance, 1);
    }
  EXPECT_EQ(token_layout(job_of(33, 1, "")).layout.ranges, mesh::in_order(33, 1).ranges);
}

// Scores of all layers of the rank with most over the mean, counted one by one.
double imbalance(const mesh::TokenLayout& layout, const std::vector<std::int64_t>& windows) {
  std::int64_t most = 0, all = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    std::int64_t own = 0;
    for (const std::int64_t position : layout.positions(rank))
      for (const std::int64_t window : windows)
        for (std::int64_t key = std::max<std::int64_t>(0, position + 1 - window); key <= position;
             ++key)
          ++own;
    most = std::max(most, own);
    all += own;
  }
  return static_cast<double>(most * layout.ranks()) / static_cast<double>(all);
}

// A window of half the sequence leaves the zigzag's first rank a third less than the mean.
TEST(TokenLayout, CountsTheScoresInsideOfWindows) {
  const mesh::TokenLayout zigzag = mesh::zigzag(2048, 8);
  EXPECT_GT(imbalance(zigzag, {1024}), 1.2);
  const mesh::BalancedLayout sliding = token_layout(job_of(2048, 8, "sliding:1024"));
  EXPECT_LE(sliding.imbalance, 1.05);
  EXPECT_DOUBLE_EQ(sliding.imbalance, imbalance(sliding.layout, {1024}));
  const mesh::BalancedLayout mixed = token_layout(job_of(2048, 8, "3xsliding:512,full"));
  EXPECT_LE(mixed.imbalance, 1.05);
  EXPECT_DOUBLE_EQ(mixed.imbalance, imbalance(mixed.layout, {512, 512, 512, 2048}));
}

}  // namespace
}  // namespace trireme::model::token_sharing_test
