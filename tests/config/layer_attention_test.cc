// model.attention_layers: which layers slide and which rotate.
#include "trireme/config/layer_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::layer_attention_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr LayerAttention kFull, kNope{.rotary = false}, kSliding{.window = 16};

std::vector<LayerAttention> layers(std::int64_t count, const std::string& text) {
  return layer_attention({.layers = count, .attention_layers = text});
}

TEST(LayerAttention, AListIsRepeatedToTheLastLayer) {
  EXPECT_THAT(layers(2, ""), ElementsAre(kFull, kFull));
  EXPECT_THAT(layers(3, "sliding:16"), ElementsAre(kSliding, kSliding, kSliding));
  EXPECT_THAT(layers(5, "2xsliding:16,nope"),
              ElementsAre(kSliding, kSliding, kNope, kSliding, kSliding));
  EXPECT_THAT(layers(2, "full,nope,full"), ElementsAre(kFull, kNope)) << "more than there are";
}

TEST(LayerAttention, PrintsTheShortestList) {
  for (const auto& [count, text] :
       {std::pair{3, ""}, std::pair{4, "sliding:16"}, std::pair{8, "3xfull,nope"},
        std::pair{7, "3xfull,nope"}, std::pair{6, "4xfull,2xsliding:16"}, std::pair{1, "nope"}})
    EXPECT_EQ(print(layers(count, text)), text) << count;
  EXPECT_EQ(print(layers(4, "full")), "");
  EXPECT_EQ(print(layers(4, "nope,nope,1xnope")), "nope");
}

TEST(LayerAttention, RefusedWithTheWayOut) {
  const auto refused = [](const std::string& family, const std::string& text) {
    return usage_error_of([&] {
      Job job;
      for (const std::string& set : {"model.family=" + family, std::string("model.vocab=64")})
        apply_set(job, set);
      job.model.attention_layers = text;
      resolve(job, 1, {});
    });
  };
  for (const char* text : {"slide", "sliding", "sliding:0", "sliding:16x", "0xfull", "3x", "full,",
                           "-1xfull", "3full", "sliding:-4"})
    EXPECT_THAT(refused("llama", text),
                AllOf(HasSubstr(std::string("model.attention_layers=") + text),
                      HasSubstr("is no layer; needs full, nope or sliding:TOKENS")));
  EXPECT_THAT(refused("gpt", "sliding:16"), HasSubstr("choose model.family=llama"));
}

}  // namespace
}  // namespace trireme::config::layer_attention_test
