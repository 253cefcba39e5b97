// Configurations of decoders as their authors publish them, and what is expected of each.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"

namespace trireme::convert::published_classes {

// hidden, layers, ffn, heads, key-value heads, vocabulary.
using Sizes = std::array<std::int64_t, 6>;

inline Json config(const char* type, const Sizes& sizes, const Json& more) {
  Json json{{"model_type", type},
            {"hidden_size", sizes[0]},
            {"num_hidden_layers", sizes[1]},
            {"intermediate_size", sizes[2]},
            {"num_attention_heads", sizes[3]},
            {"num_key_value_heads", sizes[4]},
            {"vocab_size", sizes[5]},
            {"max_position_embeddings", 131072},
            {"hidden_act", "silu"},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 5e5}};
  json.update(more);
  return json;
}

struct Published {
  const char* name;
  Json config;
  std::int64_t parameters;
  std::string rope{}, layers{};
  const char* written = nullptr;  // model_type of the file that is written; null: the same
};

inline nlohmann::json unordered(const Json& json) { return nlohmann::json::parse(json.dump()); }

// They have their parameters, and the same config.json again.
inline void expect_published(const std::vector<Published>& all) {
  for (const Published& model : all) {
    SCOPED_TRACE(model.name);
    const config::Job job = config::resolve(job_of_config(model.config.dump(), model.name), 1, {});
    EXPECT_EQ(model::describe(job).parameters(), model.parameters);
    EXPECT_EQ(job.model.rope_scaling, model.rope);
    EXPECT_EQ(job.model.attention_layers, model.layers);
    const Json written = Json::parse(hugging_face_config(job));
    EXPECT_EQ(written.at("model_type"),
              model.written != nullptr ? Json(model.written) : model.config.at("model_type"));
    const config::Job back = config::resolve(job_of_config(written.dump(), ""), 1, {});
    EXPECT_EQ(back.model, job.model);
    EXPECT_EQ(back.neox, job.neox);
    EXPECT_EQ(back.llama, job.llama);
    if (model.rope.starts_with("llama3")) {
      EXPECT_EQ(unordered(written.at("rope_scaling")), unordered(model.config.at("rope_scaling")));
    }
  }
}

inline Json tiny(const char* type, const Json& more) {
  return config(type, {64, 4, 96, 4, 2, 128}, more);
}

inline config::Model read(const Json& json) {
  return job_of_config(json.dump(), "config.json").model;
}

inline std::string refused(const char* type, const Json& more) {
  return formats::refusal([&] { read(tiny(type, more)); });
}

}  // namespace trireme::convert::published_classes
