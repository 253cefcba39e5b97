// To Hugging Face's files and back: names, turned, split and stacked tensors, and files that do not fit.
#include "trireme/checkpoint/convert/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/compare.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::convert::hugging_face_test {
namespace {

using config::Family;
using formats::Scratch;
using testing::HasSubstr;

class HuggingFace : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    one_ = target(GetParam(), 17, {});
    write_seed(one_, scratch_ / "seed");
    to_hugging_face(seed(), one_.job, one_.model, scratch_ / "hf");
  }
  Path seed() const { return scratch_ / "seed/step-3"; }
  Path back(const std::string& directory = "hf", const std::string& out = "back") {
    return from_hugging_face(HuggingFaceWeights(scratch_ / directory, one_.job), "", "test",
                             scratch_ / out);
  }
  // model.safetensors with each tensor changed, or left out where `change` says so.
  void rewrite(const std::string& to,
               const std::function<bool(formats::TensorInfo&, std::vector<std::byte>&)>& change) {
    const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
    std::filesystem::create_directories(scratch_ / to);
    std::vector<std::vector<std::byte>> contents;
    std::vector<formats::TensorInfo> infos;
    for (const formats::Tensor& tensor : file.tensors()) {
      formats::TensorInfo info{tensor.name, tensor.dtype, tensor.shape};
      std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
      if (!change(info, bytes)) continue;
      infos.push_back(info);
      contents.push_back(std::move(bytes));
    }
    formats::stream_safetensors(
        scratch_ / to / "model.safetensors", infos, {}, formats::TensorOrder::kOfficial,
        [&](std::size_t i) { return std::span<const std::byte>(contents[i]); });
  }
  void each(const std::function<void(std::size_t, std::size_t, const std::string&)>& visit) const {
    for (std::size_t unit = 0; unit < one_.model.units.size(); ++unit)
      for (std::size_t p = 0; p < one_.model.units[unit].params.size(); ++p)
        visit(unit, p, one_.model.units[unit].params[p].name);
  }
  // Of the seed.
  std::vector<std::byte> ours(const std::string& name) const {
    std::vector<std::byte> bytes;
    each([&](std::size_t unit, std::size_t p, const std::string& here) {
      if (here == name)
        bytes = StateReader(seed(), one_.model.units).read_whole(unit, p, {.name = "param"});
    });
    return bytes;
  }
  std::string refused(const std::string& directory) {
    return formats::refusal([&] { back(directory, directory + "-back"); });
  }

  Scratch scratch_;
  Target one_;
};

// Where theirs have no place for a parameter, another comes back in its stead.
std::string stand_in(const std::string& name) {
  return name.starts_with("encoder.") ? "target_" + name : name;
}

TEST_P(HuggingFace, ParametersComeBackToTheBit) {
  const StateReader before(seed(), one_.model.units), after(back(), one_.model.units);
  const Kind kind{.name = "param"};
  std::map<std::string, std::vector<std::byte>> wanted;
  each([&](std::size_t unit, std::size_t p, const std::string& name) {
    wanted[name] = before.read_whole(unit, p, kind);
  });
  each([&](std::size_t unit, std::size_t p, const std::string& name) {
    EXPECT_EQ(after.read_whole(unit, p, kind), wanted.at(stand_in(name))) << name;
  });
  const Comparison found = compare(before, after, one_.model.units);
  EXPECT_EQ(found.only_a.size(), 2 * one_.model.units.size()) << "moments stay behind";
  EXPECT_TRUE(found.only_b.empty());
  to_hugging_face(scratch_ / "back/step-0", one_.job, one_.model, scratch_ / "again");
  EXPECT_EQ(read_file(scratch_ / "again/model.safetensors"),
            read_file(scratch_ / "hf/model.safetensors"));
}

// Pixels have a file of their own, whose name is that of what the class reads.
TEST_P(HuggingFace, MeanOfPixelsComesBack) {
  const char* name = preprocessor_name(one_.job);
  if (name == nullptr) return;
  const bool clips = GetParam() == Family::kJepa || GetParam() == Family::kProbe;
  EXPECT_STREQ(name, clips ? kVideoPreprocessorName : kPreprocessorName);
  config::Job other = one_.job;
  other.vision.pixels = "0.25,0.5,0.125/0.5,0.5,0.5";
  to_hugging_face(seed(), other, one_.model, scratch_ / "grey");
  EXPECT_EQ(Json::parse(read_file(scratch_ / "grey" / name)).contains("video_processor_type"),
            clips);
  EXPECT_EQ(HuggingFaceWeights(scratch_ / "grey").job().vision.pixels, other.vision.pixels);
}

// Of a checkpoint that other ranks wrote the files are the same.
TEST_P(HuggingFace, LayoutsDoNotShow) {
  const Target two = target(GetParam(), 17, {"parallel.tp=3", "parallel.pp=2"});
  const Path cut = reshard(seed(), two, scratch_ / "cut");
  to_hugging_face(cut, two.job, two.model, scratch_ / "other");
  for (const char* file : {"model.safetensors", "config.json"})
    EXPECT_EQ(read_file(scratch_ / "other" / file), read_file(scratch_ / "hf" / file));
}

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

Shapes shapes(Family family) {
  switch (family) {
    case Family::kGpt:
      return {{"transformer.wte.weight", {17, 24}},
              {"transformer.h.1.attn.c_attn.weight", {24, 72}},  // [in, out]
              {"transformer.h.1.mlp.c_proj.weight", {50, 24}},
              {"transformer.h.1.mlp.c_proj.bias", {24}}};
    case Family::kLlama:
      return {{"model.embed_tokens.weight", {17, 24}},
              {"model.layers.0.self_attn.k_proj.weight", {12, 24}},
              {"model.layers.1.mlp.down_proj.weight", {24, 50}},
              {"lm_head.weight", {17, 24}}};
    case Family::kVit:
      return {{"vit.embeddings.cls_token", {1, 1, 24}},
              {"vit.embeddings.position_embeddings", {1, 17, 24}},
              {"vit.embeddings.patch_embeddings.projection.weight", {24, 3, 2, 2}},
              {"vit.embeddings.patch_embeddings.projection.bias", {24}},
              {"vit.encoder.layer.1.attention.attention.value.bias", {24}},
              {"vit.encoder.layer.0.attention.output.dense.weight", {24, 24}},
              {"vit.encoder.layer.1.layernorm_before.weight", {24}},
              {"vit.encoder.layer.1.layernorm_after.bias", {24}},
              {"vit.encoder.layer.1.intermediate.dense.weight", {50, 24}},
              {"vit.encoder.layer.1.output.dense.weight", {24, 50}},
              {"vit.layernorm.weight", {24}},
              {"classifier.weight", {5, 24}}};
    case Family::kClip:
      return {{"logit_scale", {}},
              {"vision_model.embeddings.class_embedding", {24}},
              {"vision_model.embeddings.patch_embedding.weight", {24, 3, 2, 2}},
              {"vision_model.embeddings.position_embedding.weight", {17, 24}},
              {"vision_model.pre_layrnorm.bias", {24}},
              {"vision_model.encoder.layers.1.self_attn.k_proj.weight", {24, 24}},
              {"vision_model.encoder.layers.1.self_attn.out_proj.bias", {24}},
              {"vision_model.encoder.layers.0.layer_norm1.weight", {24}},
              {"vision_model.encoder.layers.0.layer_norm2.weight", {24}},
              {"vision_model.encoder.layers.0.mlp.fc2.weight", {24, 50}},
              {"vision_model.post_layernorm.weight", {24}},
              {"visual_projection.weight", {10, 24}},
              {"text_model.embeddings.token_embedding.weight", {257, 12}},
              {"text_model.embeddings.position_embedding.weight", {55, 12}},
              {"text_model.encoder.layers.0.self_attn.q_proj.bias", {12}},
              {"text_model.encoder.layers.0.mlp.fc1.weight", {20, 12}},
              {"text_model.final_layer_norm.bias", {12}},
              {"text_projection.weight", {10, 12}}};
    case Family::kProbe:
      return {{"vjepa2.encoder.embeddings.patch_embeddings.proj.weight", {24, 3, 2, 2, 2}},
              {"vjepa2.encoder.layer.1.attention.query.weight", {24, 24}},
              {"vjepa2.encoder.layer.0.mlp.fc1.bias", {50}},
              {"vjepa2.encoder.layernorm.weight", {24}},
              {"pooler.query_tokens", {1, 1, 24}},
              {"pooler.self_attention_layers.1.layer_norm1.weight", {24}},
              {"pooler.self_attention_layers.1.self_attn.k_proj.weight", {24, 24}},
              {"pooler.self_attention_layers.0.self_attn.out_proj.bias", {24}},
              {"pooler.self_attention_layers.0.mlp.fc1.weight", {96, 24}},
              {"pooler.cross_attention_layer.layer_norm2.bias", {24}},
              {"pooler.cross_attention_layer.cross_attn.q_proj.weight", {24, 24}},
              {"pooler.cross_attention_layer.cross_attn.v_proj.bias", {24}},
              {"pooler.cross_attention_layer.mlp.fc2.weight", {24, 96}},
              {"classifier.weight", {9, 24}}};
    default:
      return {{"encoder.embeddings.patch_embeddings.proj.weight", {24, 3, 2, 2, 2}},
              {"encoder.layer.1.attention.query.weight", {24, 24}},
              {"encoder.layer.1.attention.proj.bias", {24}},
              {"encoder.layer.0.norm2.weight", {24}},
              {"encoder.layer.0.mlp.fc1.bias", {50}},
              {"encoder.layernorm.weight", {24}},
              {"predictor.embeddings.predictor_embeddings.weight", {12, 24}},
              {"predictor.embeddings.mask_tokens", {10, 1, 1, 12}},
              {"predictor.layer.1.attention.value.bias", {12}},
              {"predictor.layer.0.mlp.fc2.weight", {12, 48}},
              {"predictor.layernorm.bias", {12}},
              {"predictor.proj.weight", {24, 12}}};
  }
}

TEST_P(HuggingFace, NamesAndShapesAreTheirs) {
  const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
  for (const auto& [name, shape] : shapes(GetParam())) {
    ASSERT_NE(file.find(name), nullptr) << name;
    EXPECT_EQ(file.find(name)->shape, shape) << name;
  }
  EXPECT_EQ(file.find("lm_head.weight") != nullptr, GetParam() == Family::kLlama) << "tied";
}

// Element by element: what is turned, split in three, or stacked.
TEST_P(HuggingFace, ElementsAreWhereTheyBelong) {
  const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
  const auto thirds = [&](const std::string& fused, std::vector<std::string> names) {
    std::vector<std::byte> joined;
    for (const std::string& name : names) {
      const auto part = file.find(name)->bytes;
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, ours(fused)) << fused;
  };
  switch (GetParam()) {
    case Family::kGpt: {
      const auto turned = file.find("transformer.h.0.attn.c_attn.weight")->bytes;
      const auto own = ours("transformer.h.0.attn.c_attn.weight");
      for (std::size_t i = 0; i < 24; ++i)
        for (std::size_t o = 0; o < 72; ++o)
          ASSERT_EQ(std::memcmp(&own[4 * (o * 24 + i)], &turned[4 * (i * 72 + o)], 4), 0);
      break;
    }
    case Family::kLlama:
      thirds("model.layers.0.mlp.up_proj.weight", {"model.layers.0.mlp.up_proj.weight"});
      break;
    case Family::kVit: {
      const std::string attention = "vit.encoder.layer.1.attention.attention.";
      thirds("blocks.1.attn.qkv.weight",
             {attention + "query.weight", attention + "key.weight", attention + "value.weight"});
      thirds("patch_embed.proj.weight", {"vit.embeddings.patch_embeddings.projection.weight"});
      break;
    }
    case Family::kClip: {
      const std::string attention = "text_model.encoder.layers.0.self_attn.";
      thirds("text.blocks.0.attn.qkv.bias",
             {attention + "q_proj.bias", attention + "k_proj.bias", attention + "v_proj.bias"});
      break;
    }
    case Family::kProbe: {
      const std::string attention = "pooler.self_attention_layers.1.self_attn.";
      thirds(
          "pooler.blocks.1.attn.qkv.weight",
          {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"});
      const std::string cross = "pooler.cross_attention_layer.cross_attn.";
      thirds("pooler.cross_attention_block.xattn.kv.bias",
             {cross + "k_proj.bias", cross + "v_proj.bias"});
      thirds("target_encoder.norm.bias", {"vjepa2.encoder.layernorm.bias"});
      break;
    }
    default: {
      const std::string attention = "predictor.layer.1.attention.";
      thirds("predictor.predictor_blocks.1.attn.qkv.weight",
             {attention + "query.weight", attention + "key.weight", attention + "value.weight"});
      thirds("target_encoder.norm.bias", {"encoder.layernorm.bias"});
      std::vector<std::byte> stacked;
      for (int copy = 0; copy < 10; ++copy)
        for (const std::byte byte : ours("predictor.mask_tokens.0")) stacked.push_back(byte);
      const auto tokens = file.find("predictor.embeddings.mask_tokens")->bytes;
      EXPECT_EQ(stacked, std::vector(tokens.begin(), tokens.end()));
    }
  }
}

TEST_P(HuggingFace, ReadsBareNamesMasksAndSeveralFiles) {
  std::filesystem::create_directories(scratch_ / "two");
  const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
  Json map = Json::object();
  std::vector<formats::Tensor> halves[2];
  constexpr std::string_view kPrefix = "transformer.";
  for (formats::Tensor tensor : file.tensors()) {
    if (tensor.name.starts_with(kPrefix)) tensor.name = tensor.name.substr(kPrefix.size());
    const std::size_t half = halves[0].size() > halves[1].size() ? 1 : 0;
    map[tensor.name] = fmt::format("part-{}.safetensors", half);
    halves[half].push_back(tensor);
  }
  formats::Tensor mask = file.tensors()[0];
  const std::map<Family, std::string> idle = {
      {Family::kGpt, "h.0.attn.bias"},
      {Family::kLlama, "model.layers.0.self_attn.rotary_emb.inv_freq"},
      {Family::kClip, "text_model.embeddings.position_ids"},
      {Family::kProbe, "vjepa2.predictor.layernorm.weight"}};
  if (idle.contains(GetParam())) {
    mask.name = idle.at(GetParam());
    halves[1].push_back(mask);
  }
  for (int i = 0; i < 2; ++i)
    harness::write_safetensors(scratch_ / fmt::format("two/part-{}.safetensors", i), halves[i], {});
  scratch_.write("two/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  const Comparison found =
      compare(StateReader(back(), one_.model.units),
              StateReader(back("two", "two-back"), one_.model.units), one_.model.units);
  EXPECT_FALSE(found.first);
  EXPECT_EQ(found.elements, one_.model.parameters());
  map.begin().value() = "../part-0.safetensors";
  scratch_.write("two/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  EXPECT_THAT(refused("two"), HasSubstr("may not name a file"));
  map.begin().value() = 5;
  scratch_.write("two/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  EXPECT_THAT(refused("two"), HasSubstr("is said to be in 5"));
}

TEST_P(HuggingFace, ReadsOtherTypes) {
  rewrite("bf16", [](formats::TensorInfo& info, std::vector<std::byte>& bytes) {
    info.dtype = DType::kBF16;
    std::vector<std::byte> upper;
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      upper.push_back(bytes[i + 2]);
      upper.push_back(bytes[i + 3]);
    }
    bytes = upper;
    return true;
  });
  const StateReader exact(back(), one_.model.units);
  const StateReader read(back("bf16", "bf16-back"), one_.model.units);
  const Kind kind{.name = "param"};
  const auto wide = exact.read_whole(0, 0, kind), narrow = read.read_whole(0, 0, kind);
  for (std::size_t i = 0; i < wide.size(); i += 4) {
    EXPECT_EQ(narrow[i], std::byte{0});
    EXPECT_EQ(narrow[i + 3], wide[i + 3]);
  }
}

TEST_P(HuggingFace, RefusesWhatDoesNotFit) {
  const Shapes all = shapes(GetParam());
  const auto& [one, shape] = *all.rbegin();
  rewrite("missing", [&](formats::TensorInfo& info, auto&) { return info.name != one; });
  EXPECT_THAT(refused("missing"), HasSubstr("has no tensor " + one));
  rewrite("shape", [&](formats::TensorInfo& info, std::vector<std::byte>& bytes) {
    if (info.name != one) return true;
    bytes.resize(bytes.size() - bytes.size() / static_cast<std::size_t>(info.shape[0]));
    info.shape[0] -= 1;
    return true;
  });
  EXPECT_THAT(refused("shape"),
              AllOf(HasSubstr(fmt::format("{} is [{}", one, shape[0] - 1)),
                    HasSubstr(fmt::format("the model of its config.json needs [{}", shape[0]))));
  rewrite("more", [&](formats::TensorInfo& info, auto&) {
    if (info.name == one) info.name = "unheard.of";
    return true;
  });
  EXPECT_THAT(refused("more"), HasSubstr("has 1 tensor that the model of its config.json has no "
                                         "place for, such as \"unheard.of\""));
  rewrite("whole", [&](formats::TensorInfo& info, auto&) {
    if (info.name == one) info.dtype = DType::kI32;
    return true;
  });
  EXPECT_THAT(refused("whole"), HasSubstr("needs F64, F32, BF16 or F16"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "missing-back")) << "nothing was begun";
  EXPECT_THAT(
      formats::refusal([&] { to_hugging_face(seed(), one_.job, one_.model, scratch_ / "hf"); },
                       ErrorKind::kUsage),
      HasSubstr("is not empty"));
  config::Job adapted = one_.job;
  adapted.lora.rank = 2;
  EXPECT_THAT(
      formats::refusal([&] { to_hugging_face(seed(), adapted, one_.model, scratch_ / "lora"); },
                       ErrorKind::kUsage),
      HasSubstr("has adapters (lora.rank=2)"));
}

INSTANTIATE_TEST_SUITE_P(Families, HuggingFace,
                         testing::Values(Family::kGpt, Family::kLlama, Family::kVit, Family::kClip,
                                         Family::kJepa, Family::kProbe));

// What a checkpoint would be written as, without one.
TEST(HuggingFaceTensors, AreThoseThatAreWritten) {
  for (const Family family : {Family::kGpt, Family::kClip, Family::kJepa, Family::kProbe}) {
    const Scratch scratch;
    const Target one = target(family, 17, {});
    write_seed(one, scratch / "seed");
    to_hugging_face(scratch / "seed/step-3", one.job, one.model, scratch / "hf");
    const formats::SafetensorsFile file(scratch / "hf/model.safetensors");
    const auto listed = hugging_face_tensors(one.job, one.model);
    EXPECT_EQ(listed.size(), file.tensors().size());
    for (const formats::TensorInfo& tensor : listed) {
      ASSERT_NE(file.find(tensor.name), nullptr) << tensor.name;
      EXPECT_EQ(file.find(tensor.name)->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(file.find(tensor.name)->dtype, tensor.dtype) << tensor.name;
    }
    EXPECT_EQ(hugging_face_tensors(scratch / "seed/step-3", one.job, one.model).size(),
              listed.size());
  }
}

// The masters of bf16 are fp32, and so are teachers; frozen towers are kept as they are computed with.
TEST(HuggingFaceTensors, HaveTheTypesOfCheckpoints) {
  const auto types = [](Family family) {
    const Target one = target(family, 17, {"precision.compute=bf16"});
    std::map<std::string, DType> types;
    for (const formats::TensorInfo& tensor : hugging_face_tensors(one.job, one.model))
      types[tensor.name] = tensor.dtype;
    return types;
  };
  EXPECT_EQ(types(Family::kJepa).at("encoder.layernorm.weight"), DType::kF32);
  EXPECT_EQ(types(Family::kProbe).at("vjepa2.encoder.layernorm.weight"), DType::kBF16);
  EXPECT_EQ(types(Family::kProbe).at("classifier.weight"), DType::kF32);
}

}  // namespace
}  // namespace trireme::convert::hugging_face_test
