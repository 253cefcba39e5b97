// To Hugging Face's files and back: names, turned matrices, config.json, and what neither side can say.
#include "trireme/convert/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/convert/compare.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::convert {
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
    return from_hugging_face(scratch_ / directory, one_.job, one_.model, "test", scratch_ / out);
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
  std::string refused(const std::string& directory) {
    return formats::refusal([&] { back(directory, directory + "-back"); });
  }

  Scratch scratch_;
  Target one_;
};

TEST_P(HuggingFace, ParametersComeBackToTheBit) {
  const Comparison found = compare(StateReader(seed(), one_.model.units),
                                   StateReader(back(), one_.model.units), one_.model.units);
  EXPECT_FALSE(found.first);
  EXPECT_EQ(found.elements, one_.model.parameters());
  EXPECT_EQ(found.only_a.size(), 2 * one_.model.units.size()) << "moments stay behind";
  EXPECT_TRUE(found.only_b.empty());
}

// Of a checkpoint that other ranks wrote the files are the same.
TEST_P(HuggingFace, LayoutsDoNotShow) {
  const Target two = target(GetParam(), 17, {"parallel.tp=3", "parallel.pp=2"});
  const Path cut = reshard(seed(), two, scratch_ / "cut");
  to_hugging_face(cut, two.job, two.model, scratch_ / "other");
  for (const char* file : {"model.safetensors", "config.json"})
    EXPECT_EQ(read_file(scratch_ / "other" / file), read_file(scratch_ / "hf" / file));
}

TEST_P(HuggingFace, NamesAndShapesAreTheirs) {
  const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
  const auto shape = [&](const char* name) {
    const formats::Tensor* tensor = file.find(name);
    return tensor == nullptr ? std::vector<std::int64_t>{} : tensor->shape;
  };
  using Shape = std::vector<std::int64_t>;
  if (GetParam() == Family::kGpt) {
    EXPECT_EQ(shape("transformer.wte.weight"), (Shape{17, 24}));
    EXPECT_EQ(shape("transformer.h.1.attn.c_attn.weight"), (Shape{24, 72})) << "[in, out]";
    EXPECT_EQ(shape("transformer.h.1.mlp.c_proj.weight"), (Shape{50, 24}));
    EXPECT_EQ(file.find("lm_head.weight"), nullptr) << "tied";
    // Turned, element by element: their [i, o] is our [o, i].
    const StateReader stored(seed(), one_.model.units);
    ASSERT_EQ(one_.model.units[1].params[2].name, "transformer.h.0.attn.c_attn.weight");
    const auto ours = stored.read_whole(1, 2, {.name = "param"});
    const auto theirs = file.find("transformer.h.0.attn.c_attn.weight")->bytes;
    for (std::size_t i = 0; i < 24; ++i)
      for (std::size_t o = 0; o < 72; ++o)
        ASSERT_EQ(std::memcmp(&ours[4 * (o * 24 + i)], &theirs[4 * (i * 72 + o)], 4), 0);
  } else {
    EXPECT_EQ(shape("model.embed_tokens.weight"), (Shape{17, 24}));
    EXPECT_EQ(shape("model.layers.0.self_attn.k_proj.weight"), (Shape{12, 24}));
    EXPECT_EQ(shape("model.layers.1.mlp.down_proj.weight"), (Shape{24, 50}));
    EXPECT_EQ(shape("lm_head.weight"), (Shape{17, 24}));
  }
}

TEST_P(HuggingFace, ConfigDescribesTheModel) {
  const std::string text = read_file(scratch_ / "hf/config.json");
  EXPECT_EQ(model_of_config(text, "config.json").norm_eps, 1e-6);
  config::Model model = model_of_config(text, "config.json");
  model.init_std = one_.job.model.init_std;
  if (GetParam() == Family::kGpt) model.rope_theta = one_.job.model.rope_theta;
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  EXPECT_EQ(model, one_.job.model);
  const auto refused = [&](const char* key, const Json& value) {
    Json json = Json::parse(text);
    json[key] = value;
    return formats::refusal([&] { model_of_config(json.dump(), "config.json"); });
  };
  EXPECT_THAT(refused("model_type", "mamba"), HasSubstr("gpt2 and llama can be read"));
  EXPECT_THAT(refused("vocab_size", -1), HasSubstr("vocab_size: is -1"));
  if (GetParam() == Family::kGpt) {
    EXPECT_THAT(refused("activation_function", "relu"), HasSubstr("has \"gelu_new\" only"));
    EXPECT_THAT(refused("scale_attn_by_inverse_layer_idx", true), HasSubstr("has false only"));
  } else {
    EXPECT_THAT(refused("rope_scaling", {{"type", "yarn"}}), HasSubstr("rope_scaling"));
    EXPECT_THAT(refused("attention_bias", true), HasSubstr("has false only"));
    EXPECT_THAT(refused("head_dim", 128), HasSubstr("head_dim"));
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
  mask.name = "h.0.attn.bias";
  halves[1].push_back(mask);
  for (int half = 0; half < 2; ++half)
    formats::write_safetensors(scratch_ / fmt::format("two/part-{}.safetensors", half),
                               halves[half], {});
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
  EXPECT_THAT(refused("two"), HasSubstr("is said to be in \"5\""));
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
  const std::string embed =
      GetParam() == Family::kGpt ? "transformer.wte.weight" : "model.embed_tokens.weight";
  rewrite("missing", [&](formats::TensorInfo& info, auto&) { return info.name != embed; });
  EXPECT_THAT(refused("missing"), HasSubstr("has no tensor " + embed));
  rewrite("shape", [&](formats::TensorInfo& info, std::vector<std::byte>& bytes) {
    if (info.name != embed) return true;
    info.shape[0] -= 1;
    bytes.resize(bytes.size() - 24 * sizeof(float));
    return true;
  });
  EXPECT_THAT(refused("shape"), HasSubstr("is [16, 24], the model of its config.json needs [17"));
  rewrite("more", [&](formats::TensorInfo& info, auto&) {
    if (info.name == embed) info.name = "unheard.of";
    return true;
  });
  EXPECT_THAT(refused("more"), HasSubstr("no place for, such as \"unheard.of\""));
  rewrite("whole", [&](formats::TensorInfo& info, auto&) {
    if (info.name == embed) info.dtype = DType::kI32;
    return true;
  });
  EXPECT_THAT(refused("whole"), HasSubstr("needs numbers with a fraction"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "missing-back/step-0"));
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

INSTANTIATE_TEST_SUITE_P(Families, HuggingFace, testing::Values(Family::kGpt, Family::kLlama));

}  // namespace
}  // namespace trireme::convert
