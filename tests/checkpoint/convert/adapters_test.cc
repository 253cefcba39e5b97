// Adapters as files of PEFT, and merged into the weights.
#include "trireme/checkpoint/convert/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/peft_weights.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/formats/safetensors.h"
#include "trireme/model/training.h"

namespace trireme::convert::adapters_test {
namespace {

using config::Family;
using testing::HasSubstr;

class Adapters : public testing::TestWithParam<Family> {
 protected:
  void begin(const Layout& more = {}) {
    Layout layout = {"lora.rank=2", "lora.alpha=3"};
    layout.insert(layout.end(), more.begin(), more.end());
    one_ = target_of(decoder(GetParam(), 17), layout);
    write_seed(one_, scratch_ / "seed");
  }
  Path seed() const { return scratch_ / "seed/step-3"; }
  // Of the seed.
  std::vector<float> ours(const std::string& name) const {
    const StateReader stored(seed(), one_.model.units);
    for (std::size_t unit = 0; unit < one_.model.units.size(); ++unit)
      for (std::size_t p = 0; p < one_.model.units[unit].params.size(); ++p)
        if (one_.model.units[unit].params[p].name == name)
          return floats(stored.read_whole(unit, p, {.name = "param"}));
    ADD_FAILURE() << name;
    return {};
  }
  static std::vector<float> floats(std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  formats::Scratch scratch_;
  Target one_;
};

TEST_P(Adapters, HavePeftsNamesAndOurBits) {
  begin();
  to_peft(seed(), one_.job, one_.model, scratch_ / "peft");
  const formats::SafetensorsFile file(scratch_ / "peft/adapter_model.safetensors");
  std::size_t adapters = 0;
  for (const model::UnitSpec& unit : one_.model.units)
    for (const model::ParamSpec& param : unit.params) {
      if (param.name.find(".lora_") == param.name.npos) continue;
      ++adapters;
      const formats::Tensor* tensor = file.find("base_model.model." + param.name);
      ASSERT_NE(tensor, nullptr) << param.name;
      EXPECT_EQ(tensor->shape, param.shape);
      EXPECT_EQ(floats(tensor->bytes), ours(param.name)) << param.name;
    }
  EXPECT_EQ(file.tensors().size(), adapters);
  EXPECT_EQ(peft_tensors(one_.job, one_.model).size(), adapters);
  for (const formats::TensorInfo& info : peft_tensors(seed(), one_.job, one_.model))
    EXPECT_EQ(file.find(info.name)->shape, info.shape);
  const Json config = parse_json(read_file(scratch_ / "peft/adapter_config.json"), "config");
  const bool gpt = GetParam() == Family::kGpt;
  EXPECT_EQ(config["fan_in_fan_out"], gpt);
  EXPECT_EQ(config["lora_alpha"], 3);
  EXPECT_EQ(
      config["target_modules"],
      gpt ? Json({"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"})
          : Json({"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"}));
}

TEST_P(Adapters, AreAddedToTheirWeightsAlone) {
  begin();
  merged_to_hugging_face(seed(), one_.job, one_.model, scratch_ / "merged");
  const formats::SafetensorsFile file(scratch_ / "merged/model.safetensors");
  for (const formats::Tensor& tensor : file.tensors()) {
    const std::size_t last = tensor.name.rfind('.');
    const std::string layer = tensor.name.substr(0, last), word = tensor.name.substr(last);
    const std::vector<float> found = floats(tensor.bytes);
    std::vector<float> expected = ours(tensor.name);
    const bool adapted = word == ".weight" && tensor.shape.size() == 2 &&
                         (layer.find(".attn.") != layer.npos || layer.find("mlp") != layer.npos ||
                          layer.find("self_attn") != layer.npos) &&
                         layer.find("_norm") == layer.npos;
    if (!adapted) {
      EXPECT_EQ(found, expected) << tensor.name;
      continue;
    }
    const std::vector<float> a = ours(layer + ".lora_A" + word), b = ours(layer + ".lora_B" + word);
    const std::size_t columns = a.size() / 2, rows = b.size() / 2;
    const bool turned = GetParam() == Family::kGpt;  // [in, out]
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column) {
        const double sum = static_cast<double>(b[2 * row]) * a[column] +
                           static_cast<double>(b[2 * row + 1]) * a[columns + column];
        const double value = expected[row * columns + column] + 1.5 * sum;
        EXPECT_NEAR(found[turned ? column * rows + row : row * columns + column], value,
                    1e-6 * std::abs(value))
            << tensor.name;
      }
  }
}

// m / |W + s B A| * (W + s B A), with s = alpha / sqrt(rank) (DoRA, Liu et al. 2024).
TEST_P(Adapters, RowsOfMergedWeightsHaveTheirMagnitudes) {
  begin({"lora.dora=true", "lora.scaling=root_rank"});
  to_peft(seed(), one_.job, one_.model, scratch_ / "peft");
  const formats::SafetensorsFile peft(scratch_ / "peft/adapter_model.safetensors");
  const Json config = parse_json(read_file(scratch_ / "peft/adapter_config.json"), "config");
  EXPECT_EQ(config["use_dora"], true);
  EXPECT_EQ(config["use_rslora"], true);
  EXPECT_EQ(config["lora_alpha"], 3);
  merged_to_hugging_face(seed(), one_.job, one_.model, scratch_ / "merged");
  const formats::SafetensorsFile file(scratch_ / "merged/model.safetensors");
  int scaled = 0;
  for (const formats::Tensor& tensor : file.tensors()) {
    const std::string layer = tensor.name.substr(0, tensor.name.rfind('.'));
    const formats::Tensor* const there =
        peft.find("base_model.model." + layer + ".lora_magnitude_vector");
    if (there == nullptr || !tensor.name.ends_with(".weight")) continue;
    ++scaled;
    const std::vector<float> m = floats(there->bytes), found = floats(tensor.bytes),
                             w = ours(tensor.name), a = ours(layer + ".lora_A.weight"),
                             b = ours(layer + ".lora_B.weight");
    EXPECT_EQ(m, ours(layer + ".lora_magnitude_vector.weight"));
    const std::size_t rows = b.size() / 2, columns = a.size() / 2;
    const bool turned = GetParam() == Family::kGpt;  // [in, out]
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double> whole(columns);
      double squares = 0;
      for (std::size_t column = 0; column < columns; ++column) {
        const double sum = static_cast<double>(b[2 * row]) * a[column] +
                           static_cast<double>(b[2 * row + 1]) * a[columns + column];
        whole[column] = w[row * columns + column] + 3 / std::sqrt(2.0) * sum;
        squares += whole[column] * whole[column];
      }
      for (std::size_t column = 0; column < columns; ++column) {
        const double value = m[row] / std::sqrt(squares) * whole[column];
        ASSERT_NEAR(found[turned ? column * rows + row : row * columns + column], value,
                    2e-6 * std::abs(m[row]))
            << tensor.name;
      }
    }
  }
  EXPECT_EQ(scaled, GetParam() == Family::kGpt ? 8 : 14);
}

TEST_P(Adapters, OtherUnitsThatTrainedNeedAMerge) {
  begin({"lora.also=head"});
  EXPECT_THAT(formats::refusal([&] { to_peft(seed(), one_.job, one_.model, scratch_ / "peft"); },
                               ErrorKind::kUsage),
              HasSubstr("unit head trained too (lora.also=head), which adapters cannot hold"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "peft"));
  merged_to_hugging_face(seed(), one_.job, one_.model, scratch_ / "merged");
}

TEST_P(Adapters, ComeBackFromPeftWithTheirBits) {
  for (const char* targets : {"all", "attention", "mlp"}) {
    begin({std::string("lora.targets=") + targets, "lora.scaling=root_rank", "lora.dora=true"});
    const Path peft = scratch_ / targets / "peft", base = scratch_ / targets / "base";
    to_peft(seed(), one_.job, one_.model, peft);
    const Target plain = target_of(decoder(GetParam(), 17), {});
    write_seed(plain, scratch_ / targets / "plain");
    to_hugging_face(scratch_ / targets / "plain/step-3", plain.job, plain.model, base);
    const PeftWeights back(peft, base);
    EXPECT_EQ(back.job().lora, one_.job.lora);
    const HuggingFaceWeights model(base);
    const StateReader whole(scratch_ / targets / "plain/step-3", plain.model.units);
    for (const model::UnitSpec& unit : back.model().units)
      for (const model::ParamSpec& param : unit.params)
        EXPECT_EQ(floats(back.read(param)),
                  model::holds_adapters(unit.name) ? ours(param.name) : floats(model.read(param)))
            << param.name;
    std::filesystem::remove_all(scratch_ / "seed");
  }
}

TEST_P(Adapters, OtherTensorsThanThoseOfTheTargetsAreRefused) {
  begin({"lora.targets=attention"});
  to_peft(seed(), one_.job, one_.model, scratch_ / "peft");
  const Target plain = target_of(decoder(GetParam(), 17), {});
  write_seed(plain, scratch_ / "plain");
  to_hugging_face(scratch_ / "plain/step-3", plain.job, plain.model, scratch_ / "base");
  const Path file = scratch_ / "peft" / kAdapterModelName;
  const formats::SafetensorsFile read(file);
  const auto write = [&](const std::function<void(std::vector<formats::TensorInfo>&)>& change) {
    std::vector<formats::TensorInfo> infos;
    for (const formats::Tensor& tensor : read.tensors())
      infos.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
    change(infos);
    std::vector<std::byte> zeros;
    std::filesystem::remove_all(scratch_ / "other");
    std::filesystem::create_directories(scratch_ / "other");
    std::filesystem::copy(scratch_ / "peft" / kAdapterConfigName, scratch_ / "other");
    formats::stream_safetensors(scratch_ / "other" / kAdapterModelName, infos, {},
                                formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                  std::size_t count = 1;
                                  for (const std::int64_t size : infos[index].shape)
                                    count *= static_cast<std::size_t>(size);
                                  zeros.resize(count * size_of(infos[index].dtype));
                                  return std::span<const std::byte>(zeros);
                                });
    return formats::refusal([&] { PeftWeights(scratch_ / "other", scratch_ / "base"); },
                            ErrorKind::kData);
  };
  EXPECT_THAT(write([](auto& infos) { infos.pop_back(); }), HasSubstr("has no base_model.model."));
  EXPECT_THAT(write([](auto& infos) {
                infos.push_back({.name = "lm_head.lora_A.weight", .shape = {2, 2}});
              }),
              HasSubstr("lm_head.lora_A.weight\" is no adapter of a linear layer of this model"));
  EXPECT_THAT(write([](auto& infos) { infos[0].shape[0] += 1; }),
              HasSubstr("rank 2 of this model needs ["));
  EXPECT_THAT(write([](auto& infos) { infos[0].dtype = DType::kI64; }),
              HasSubstr("is I64; needs F32"));
}

TEST(PeftConfig, WhatNoJobSaysIsRefused) {
  const std::string start = R"({"peft_type":"LORA","r":4,"lora_alpha":8)";
  const auto read = [&](const std::string& more) {
    return peft_config(start + more + "}", "a.json");
  };
  EXPECT_EQ(read("").lora.rank, 4);
  EXPECT_EQ(read("").lora.scaling, config::LoraScaling::kRank);
  const config::Lora by_root = read(R"(,"use_rslora":true,"use_dora":true)").lora;
  EXPECT_EQ(by_root,
            (config::Lora{
                .rank = 4, .alpha = 8, .scaling = config::LoraScaling::kRootRank, .dora = true}));
  EXPECT_EQ(config::lora_scale(by_root), 4);
  EXPECT_EQ(config::lora_scale(read("").lora), 2);
  EXPECT_EQ(read(R"(,"lora_dropout":0.1,"base_model_name_or_path":"a/b")").base, "a/b");
  EXPECT_EQ(read(R"(,"base_model_name_or_path":null,"use_dora":false,"rank_pattern":{})").base, "");
  for (const char* more :
       {R"("bias":"all")", R"("modules_to_save":["lm_head"])", R"("lora_bias":true)",
        R"("layer_replication":[[0,1]])", R"("target_parameters":["x"])"}) {
    const std::string key = std::string(more).substr(1, std::string(more).find(':') - 2);
    EXPECT_THAT(formats::refusal([&] { read(std::string(",") + more); }, ErrorKind::kData),
                testing::AllOf(HasSubstr("a.json: " + key + "="), HasSubstr("PEFT")))
        << more;
  }
  for (const char* text :
       {R"({"peft_type":"IA3","r":4,"lora_alpha":8})", R"({"r":4,"lora_alpha":8})",
        R"({"peft_type":"LORA","lora_alpha":8})", R"({"peft_type":"LORA","r":0,"lora_alpha":8})",
        R"({"peft_type":"LORA","r":4})", R"({"peft_type":"LORA","r":4,"lora_alpha":"8"})", "[]",
        "{"})
    EXPECT_THAT(formats::refusal([&] { peft_config(text, "a.json"); }, ErrorKind::kData),
                HasSubstr("a.json"))
        << text;
}

INSTANTIATE_TEST_SUITE_P(Families, Adapters, testing::Values(Family::kGpt, Family::kLlama));

}  // namespace
}  // namespace trireme::convert::adapters_test
