// Files in which several of our layers are one: Phi-3's of Llama's layers, GPT-NeoX's of queries, keys and values; adapters
// of such layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/adapters.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/peft_weights.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/model/training.h"

namespace trireme::convert::fused_layers_test {
namespace {

using formats::Scratch;

config::Job neox() {
  config::Job job = decoder(config::Family::kNeox, 17);
  job.model.hidden = 48;
  job.neox.rotary_fraction = 0.5;
  return job;
}

std::vector<std::byte> joined(const formats::SafetensorsFile& file, const std::string& prefix,
                              const std::vector<std::string>& layers) {
  std::vector<std::byte> bytes;
  for (const std::string& layer : layers) {
    const formats::Tensor* tensor = file.find(prefix + layer + ".weight");
    bytes.insert(bytes.end(), tensor->bytes.begin(), tensor->bytes.end());
  }
  return bytes;
}

TEST(FusedLayers, OfPhiAreLlamas) {
  const Scratch scratch;
  const Target one = target_of(decoder(config::Family::kLlama, 17), {});
  write_seed(one, scratch / "seed");
  to_hugging_face(scratch / "seed/step-3", one.job, one.model, scratch / "llama");
  const formats::SafetensorsFile file(scratch / "llama/model.safetensors");
  std::vector<std::vector<std::byte>> fused;
  std::vector<formats::Tensor> tensors;
  fused.reserve(4);
  for (const formats::Tensor& tensor : file.tensors()) {
    const bool first =
        tensor.name.ends_with(".q_proj.weight") || tensor.name.ends_with(".gate_proj.weight");
    const bool later = tensor.name.ends_with(".k_proj.weight") ||
                       tensor.name.ends_with(".v_proj.weight") ||
                       tensor.name.ends_with(".up_proj.weight");
    if (later) continue;
    tensors.push_back(tensor);
    if (!first) continue;
    const bool attends = tensor.name.ends_with(".q_proj.weight");
    const std::string prefix =
        tensor.name.substr(0, tensor.name.find(attends ? "q_proj" : "gate_proj"));
    fused.push_back(joined(file, prefix,
                           attends ? std::vector<std::string>{"q_proj", "k_proj", "v_proj"}
                                   : std::vector<std::string>{"gate_proj", "up_proj"}));
    tensors.back().name = prefix + (attends ? "qkv_proj.weight" : "gate_up_proj.weight");
    tensors.back().shape[0] = static_cast<std::int64_t>(fused.back().size()) / 4 / tensor.shape[1];
    tensors.back().bytes = fused.back();
  }
  std::filesystem::create_directories(scratch / "phi");
  harness::write_safetensors(scratch / "phi/model.safetensors", tensors, {});
  Json config = Json::parse(read_file(scratch / "llama/config.json"));
  config["model_type"] = "phi3";
  config["architectures"] = {"Phi3ForCausalLM"};
  replace_file(scratch / "phi/config.json", config.dump());
  const HuggingFaceWeights phi(scratch / "phi"), llama(scratch / "llama");
  EXPECT_EQ(phi.job(), llama.job());
  for (const model::UnitSpec& unit : one.model.units)
    for (const model::ParamSpec& param : unit.params)
      EXPECT_EQ(phi.read(param), llama.read(param)) << param.name;
  Target adapted = target_of(decoder(config::Family::kLlama, 17), {"lora.rank=2"});
  write_seed(adapted, scratch / "adapted");
  const auto export_of = [&](const char* base) {
    adapted.job.model.weights = scratch / base;
    to_peft(scratch / "adapted/step-3", adapted.job, adapted.model, scratch / "peft");
  };
  EXPECT_THAT(formats::refusal([&] { export_of("phi"); }, ErrorKind::kUsage),
              testing::HasSubstr("has the layers of a Phi3ForCausalLM, which PEFT would not find"));
  export_of("llama");
}

// A head that is tied may lie in the file as well, and a bare model's names have no prefix.
TEST(FusedLayers, OfNeoxAreReadFromTiedAndBareFiles) {
  const Scratch scratch;
  config::Job job = neox();
  job.model.tied = true;
  const Target one = target_of(job, {});
  write_seed(one, scratch / "seed");
  to_hugging_face(scratch / "seed/step-3", one.job, one.model, scratch / "hf");
  const formats::SafetensorsFile file(scratch / "hf/model.safetensors");
  std::vector<formats::Tensor> tensors(file.tensors().begin(), file.tensors().end());
  constexpr std::string_view kPrefix = "gpt_neox.";
  for (formats::Tensor& tensor : tensors) tensor.name = tensor.name.substr(kPrefix.size());
  tensors.push_back(*file.find("gpt_neox.embed_in.weight"));
  tensors.back().name = "embed_out.weight";
  std::filesystem::create_directories(scratch / "bare");
  harness::write_safetensors(scratch / "bare/model.safetensors", tensors, {});
  std::filesystem::copy(scratch / "hf/config.json", scratch / "bare");
  const HuggingFaceWeights bare(scratch / "bare"), whole(scratch / "hf");
  for (const model::UnitSpec& unit : one.model.units)
    for (const model::ParamSpec& param : unit.params)
      EXPECT_EQ(bare.read(param), whole.read(param)) << param.name;
}

using Values = std::map<std::string, std::vector<float>>;

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// All parameters of a checkpoint by name.
Values stored(const Path& checkpoint, const model::ModelSpec& model) {
  const StateReader reader(checkpoint, model.units);
  Values all;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    for (std::size_t p = 0; p < model.units[unit].params.size(); ++p)
      all[model.units[unit].params[p].name] = floats(reader.read_whole(unit, p, {.name = "param"}));
  return all;
}

// Of each of our layers, also where they are a part of a tensor there.
TEST(FusedLayers, OfNeoxGetWhatAdaptersAdd) {
  const Scratch scratch;
  const Target one = target_of(neox(), {"lora.rank=2", "lora.alpha=3"});
  write_seed(one, scratch / "seed");
  merged_to_hugging_face(scratch / "seed/step-3", one.job, one.model, scratch / "merged");
  const HuggingFaceWeights merged(scratch / "merged");
  const Values ours = stored(scratch / "seed/step-3", one.model);
  int adapted = 0;
  for (const model::UnitSpec& unit : merged.model().units)
    for (const model::ParamSpec& param : unit.params) {
      const std::vector<float> found = floats(merged.read(param));
      const std::vector<float>& before = ours.at(param.name);
      const std::string layer = param.name.substr(0, param.name.rfind('.'));
      const auto a = ours.find(layer + ".lora_A.weight");
      if (a == ours.end() || param.shape.size() == 1) {
        EXPECT_EQ(found, before) << param.name;
        continue;
      }
      ++adapted;
      const std::vector<float>& b = ours.at(layer + ".lora_B.weight");
      const auto columns = static_cast<std::size_t>(param.shape[1]);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t row = i / columns, column = i % columns;
        const double value =
            before[i] + 1.5 * (static_cast<double>(b[2 * row]) * a->second[column] +
                               static_cast<double>(b[2 * row + 1]) * a->second[columns + column]);
        ASSERT_NEAR(found[i], value, 1e-6 * std::abs(value)) << param.name;
      }
    }
  EXPECT_EQ(adapted, 12);
}

TEST(FusedLayers, OfNeoxHaveNoAdaptersOfTheirPartsThere) {
  const Scratch scratch;
  const Target all = target_of(neox(), {"lora.rank=2"});
  write_seed(all, scratch / "all");
  EXPECT_THAT(
      formats::refusal(
          [&] { to_peft(scratch / "all/step-3", all.job, all.model, scratch / "peft"); },
          ErrorKind::kUsage),
      testing::HasSubstr("is a part of gpt_neox.layers.0.attention.query_key_value.weight"));
  const Target mlp = target_of(neox(), {"lora.rank=2", "lora.targets=mlp"}),
               plain = target_of(neox(), {});
  write_seed(mlp, scratch / "mlp");
  write_seed(plain, scratch / "plain");
  to_peft(scratch / "mlp/step-3", mlp.job, mlp.model, scratch / "peft");
  to_hugging_face(scratch / "plain/step-3", plain.job, plain.model, scratch / "base");
  const PeftWeights back(scratch / "peft", scratch / "base");
  EXPECT_EQ(back.job().lora, mlp.job.lora);
  const Values ours = stored(scratch / "mlp/step-3", mlp.model);
  for (const model::UnitSpec& unit : back.model().units)
    for (const model::ParamSpec& param : unit.params)
      if (model::holds_adapters(unit.name)) {
        EXPECT_EQ(floats(back.read(param)), ours.at(param.name)) << param.name;
      }
  // Adapters of the fused layer.
  const std::vector<float> zeros(96);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(zeros));
  const std::string layer = "base_model.model.gpt_neox.layers.0.attention.query_key_value.";
  std::filesystem::create_directories(scratch / "fused");
  std::filesystem::copy(scratch / "peft/adapter_config.json", scratch / "fused");
  harness::write_safetensors(scratch / "fused/adapter_model.safetensors",
                             std::vector<formats::Tensor>{{.name = layer + "lora_A.weight",
                                                           .dtype = DType::kF32,
                                                           .shape = {2, 48},
                                                           .bytes = bytes}},
                             {});
  EXPECT_THAT(formats::refusal([&] { PeftWeights(scratch / "fused", scratch / "base"); }),
              testing::HasSubstr("whose queries, keys and values are one layer there"));
}

}  // namespace
}  // namespace trireme::convert::fused_layers_test
