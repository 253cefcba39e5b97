// Keys of Qwen's decoders: what they go with and what they do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/head_width.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::qwen_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Job qwen_job(const std::vector<std::string>& sets) {
  Job job;
  for (const char* set : {"model.family=llama", "model.vocab=64"}) apply_set(job, set);
  for (const std::string& set : sets) apply_set(job, set);
  return resolve(job, 1, {});
}

TEST(QwenKeys, HeadsAreAsWideAsTheJobSays) {
  EXPECT_EQ(head_width(qwen_job({"model.hidden=64", "model.heads=4"}).model), 16);
  const Job wide = qwen_job({"model.hidden=50", "model.heads=4", "model.head_dim=24"});
  EXPECT_EQ(head_width(wide.model), 24) << "hidden need not be a multiple of heads";
  EXPECT_EQ(attended_width(wide.model), 96);
}

TEST(QwenKeys, RefusedWithTheWayOut) {
  EXPECT_THAT(
      usage_error_of([] { qwen_job({"model.head_dim=15"}); }),
      HasSubstr("model.head_dim=15 is not divisible by 2, as rotary positions turn pairs of "
                "channels; nearest that work: model.head_dim=14 or model.head_dim=16"));
  for (const char* set : {"model.head_dim=32", "model.qkv_bias=true", "model.qk_norm=true"})
    EXPECT_THAT(usage_error_of([&] {
                  qwen_job({"model.family=gpt", set});
                }),
                AllOf(HasSubstr(set), HasSubstr("choose model.family=llama")));
  EXPECT_THAT(usage_error_of([] {
                qwen_job({"model.family=hnet", "data.source=words", "model.qk_norm=true"});
              }),
              HasSubstr("model.qk_norm=true: family hnet does not use it"));
}

}  // namespace
}  // namespace trireme::config::qwen_test
