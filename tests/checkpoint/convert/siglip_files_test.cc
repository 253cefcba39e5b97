// SigLIP's image tower as it is published: numbers of parameters, and the rows of its head's attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/checkpoint/convert/seeing_jobs.h"
#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/formats/safetensors.h"

namespace trireme::convert::siglip_files_test {
namespace {

config::Job read(const Json& config) {
  return config::resolve(job_of_config(config.dump(), "config.json"), 1, {});
}

// All but the classifier of family vit.
std::int64_t tower_of(const Json& config) {
  std::int64_t sum = 0;
  for (const model::UnitSpec& unit : model::describe(read(config)).units)
    for (const model::ParamSpec& param : unit.params)
      if (!param.name.starts_with("head.")) sum += param.numel();
  return sum;
}

TEST(SiglipFiles, PublishedTowersHaveTheirParameters) {
  Json so400m{{"model_type", "siglip_vision_model"},
              {"hidden_size", 1152},
              {"image_size", 384},
              {"intermediate_size", 4304},
              {"num_attention_heads", 16},
              {"num_hidden_layers", 27},
              {"patch_size", 14}};
  EXPECT_EQ(tower_of(so400m), 428'225'600);
  EXPECT_EQ(read(so400m).vision.image, 378) << "27 whole patches";
  so400m["vision_use_head"] = false;
  EXPECT_EQ(tower_of(so400m), 412'987'248);
  const Json base{{"model_type", "siglip"},
                  {"architectures", {"SiglipModel"}},
                  {"text_config", {{"hidden_size", 768}}},
                  {"vision_config", {{"model_type", "siglip_vision_model"}}}};
  EXPECT_EQ(tower_of(base), 92'884'224) << "of the class's defaults, without the texts' tower";
  EXPECT_EQ(read(base).vision.activation, config::Activation::kGeluTanh);
  EXPECT_EQ(read(base).vision.norm_eps, 1e-6);
}

// Rows of queries, keys and values are one tensor there: what is read of it are the first third and the rest.
TEST(SiglipFiles, AnAttentionPoolIsQueriesKeysAndValues) {
  const formats::Scratch scratch;
  const Target one = target_of(siglip_tower(config::Pooling::kAttention), {});
  write_seed(one, scratch / "seed");
  to_hugging_face(scratch / "seed/step-3", one.job, one.model, scratch / "hf");
  const HuggingFaceWeights weights(scratch / "hf");
  const formats::SafetensorsFile file(scratch / "hf/model.safetensors");
  for (const std::string of : {"weight", "bias"}) {
    std::vector<std::byte> rows;
    for (const std::string layer : {"q.", "kv."})
      for (const model::ParamSpec& param : weights.model().units.back().params)
        if (param.name == "attn_pool." + layer + of) {
          const std::vector<std::byte> part = weights.read(param);
          rows.insert(rows.end(), part.begin(), part.end());
        }
    const auto bytes = file.find("vision_model.head.attention.in_proj_" + of)->bytes;
    EXPECT_TRUE(std::ranges::equal(rows, bytes)) << of;
  }
}

}  // namespace
}  // namespace trireme::convert::siglip_files_test
