// Files in which several of our layers are one: Phi-3's of Llama's layers, GPT-NeoX's of queries, keys and values; adapters
// of such layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// Files of Llama as Phi-3 has them.
void write_phi(const Path& llama, const Path& phi) {
  const formats::SafetensorsFile file(llama / "model.safetensors");
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
  std::filesystem::create_directories(phi);
  harness::write_safetensors(phi / "model.safetensors", tensors, {});
  Json config = Json::parse(read_file(llama / "config.json"));
  config["model_type"] = "phi3";
  config["architectures"] = {"Phi3ForCausalLM"};
  replace_file(phi / "config.json", config.dump());
}

TEST(FusedLayers, OfPhiAreLlamas) {
  const Scratch scratch;
  const Target one = target_of(decoder(config::Family::kLlama, 17), {});
  write_seed(one, scratch / "seed");
  to_hugging_face(scratch / "seed/step-3", one.job, one.model, scratch / "llama");
  write_phi(scratch / "llama", scratch / "phi");
  const HuggingFaceWeights phi(scratch / "phi"), llama(scratch / "llama");
  EXPECT_EQ(phi.job(), llama.job());
  for (const model::UnitSpec& unit : one.model.units)
    for (const model::ParamSpec& param : unit.params)
      EXPECT_EQ(phi.read(param), llama.read(param)) << param.name;
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

// A model with adapters, and the files of its model in which several of its layers are one.
struct Adapted {
  Adapted(const char* kind, const Layout& layout) {
    const bool phi = kind == std::string_view("phi"), neox = kind == std::string_view("neox");
    config::Job plain = neox ? fused_layers_test::neox() : decoder(config::Family::kLlama, 17);
    // Two channels of four turn, so that rows of queries and keys are in another order there.
    if (!phi && !neox) plain.llama.rotary_fraction = 0.5;
    const Target base = target_of(plain, {});
    write_seed(base, scratch / "plain");
    to_hugging_face(scratch / "plain/step-3", base.job, base.model, scratch / "whole");
    if (phi) write_phi(scratch / "whole", scratch / "base");
    if (!phi) std::filesystem::rename(scratch / "whole", scratch / "base");
    one = target_of(plain, layout);
    one.job.model.weights = scratch / "base";
    write_seed(one, scratch / "seed");
    ours = stored(scratch / "seed/step-3", one.model);
    fused = neox ? std::vector<std::string>{"attention.query_key_value"}
                 : std::vector<std::string>{"self_attn.qkv_proj", "mlp.gate_up_proj"};
  }
  void write() { to_peft(scratch / "seed/step-3", one.job, one.model, scratch / "peft"); }
  // Our parameters of the base, in which tensors of these names and values take the place of weights.
  HuggingFaceWeights base_with(const std::map<std::string, std::vector<float>>& values,
                               const std::string& name) const {
    const formats::SafetensorsFile file(scratch / "base/model.safetensors");
    std::vector<formats::Tensor> tensors(file.tensors().begin(), file.tensors().end());
    for (formats::Tensor& tensor : tensors)
      if (const auto found = values.find(tensor.name); found != values.end())
        tensor.bytes = std::as_bytes(std::span(found->second));
    std::filesystem::create_directories(scratch / name);
    harness::write_safetensors(scratch / name / "model.safetensors", tensors, {});
    replace_file(scratch / name / "config.json", read_file(scratch / "base/config.json"));
    return HuggingFaceWeights(scratch / name);
  }

  Scratch scratch;
  Target one;
  Values ours;
  std::vector<std::string> fused;
};

std::vector<float> times(const std::vector<float>& b, const std::vector<float>& a, std::size_t rank,
                         double scale) {
  const std::size_t rows = b.size() / rank, columns = a.size() / rank;
  std::vector<float> product(rows * columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::size_t k = 0; k < rank; ++k)
        sum += static_cast<double>(b[row * rank + k]) * a[k * columns + column];
      product[row * columns + column] = static_cast<float>(scale * sum);
    }
  return product;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-5 * std::abs(expected[i]) + 1e-7) << what << " " << i;
}

const std::vector<Layout> kAdapters = {{"lora.rank=2", "lora.alpha=3"},
                                       {"lora.rank=2", "lora.alpha=3", "lora.scaling=root_rank"},
                                       {"lora.rank=2", "lora.alpha=3", "lora.dora=true"},
                                       {"lora.rank=2", "lora.alpha=3", "lora.scaling=root_rank",
                                        "lora.dora=true", "lora.targets=attention"}};

// What PEFT computes of such a file, by its own scale of the layer, is what our adapters add.
TEST(FusedAdapters, AreStackedWithTheirScale) {
  for (const char* kind : {"phi", "turned in part", "neox"})
    for (const Layout& layout : kAdapters) {
      Adapted model(kind, layout);
      model.write();
      const config::Lora& lora = model.one.job.lora;
      const bool by_root = lora.scaling == config::LoraScaling::kRootRank;
      const Json config = Json::parse(read_file(model.scratch / "peft/adapter_config.json"));
      EXPECT_EQ(config["use_rslora"], by_root);
      EXPECT_EQ(config["use_dora"], lora.dora);
      const formats::SafetensorsFile file(model.scratch / "peft/adapter_model.safetensors");
      std::map<std::string, std::vector<float>> sums, magnitudes;
      for (const formats::Tensor& tensor : file.tensors()) {
        const std::size_t at = tensor.name.find(".lora_A.weight");
        if (at == tensor.name.npos) continue;
        const std::string layer = tensor.name.substr(0, at);
        const bool fused = std::ranges::any_of(
            model.fused, [&](const std::string& name) { return layer.ends_with(name); });
        const std::string target = layer.substr(layer.rfind('.') + 1);
        EXPECT_EQ(config["rank_pattern"].contains(target), fused) << layer;
        const auto rank = fused ? config["rank_pattern"][target].get<std::size_t>() : 2;
        EXPECT_EQ(rank, fused ? (target == "gate_up_proj" ? 4u : 6u) : 2u);
        const double alpha = fused ? config["alpha_pattern"][target].get<double>() : 3;
        const std::string base = layer.substr(std::string("base_model.model.").size()) + ".weight";
        sums[base] = times(
            floats(file.find(layer + ".lora_B.weight")->bytes), floats(tensor.bytes), rank,
            alpha / (by_root ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank)));
        if (!lora.dora) continue;
        const std::vector<float> own = floats(file.find(layer + ".lora_magnitude_vector")->bytes);
        const std::size_t columns = sums[base].size() / own.size();
        for (const float value : own)
          magnitudes[base].insert(magnitudes[base].end(), columns, value);
      }
      const HuggingFaceWeights added = model.base_with(sums, "added"),
                               scaled = model.base_with(magnitudes, "scaled");
      int adapters = 0;
      for (const model::UnitSpec& unit : added.model().units)
        for (const model::ParamSpec& param : unit.params) {
          const std::string layer = param.name.substr(0, param.name.rfind('.'));
          const auto a = model.ours.find(layer + ".lora_A.weight");
          if (a == model.ours.end() || param.shape.size() == 1) continue;
          ++adapters;
          expect_near(floats(added.read(param)),
                      times(model.ours.at(layer + ".lora_B.weight"), a->second, 2,
                            3 / (by_root ? std::sqrt(2.0) : 2.0)),
                      param.name);
          if (!lora.dora) continue;
          const std::vector<float> rows = floats(scaled.read(param));
          const std::vector<float>& own = model.ours.at(layer + ".lora_magnitude_vector.weight");
          for (std::size_t i = 0; i < rows.size(); ++i)
            ASSERT_EQ(rows[i], own[i / (rows.size() / own.size())]) << param.name;
        }
      EXPECT_GE(adapters, 8);
    }
}

TEST(FusedAdapters, ComeBackWithTheirBits) {
  for (const char* kind : {"phi", "turned in part", "neox"})
    for (const Layout& layout : kAdapters) {
      Adapted model(kind, layout);
      model.write();
      const PeftWeights back(model.scratch / "peft");
      EXPECT_EQ(back.job().lora, model.one.job.lora);
      for (const model::UnitSpec& unit : back.model().units)
        for (const model::ParamSpec& param : unit.params)
          if (model::holds_adapters(unit.name)) {
            EXPECT_EQ(floats(back.read(param)), model.ours.at(param.name)) << param.name;
          }
    }
}

// As PEFT trains them: one A for all that the layer is made of.
TEST(FusedAdapters, WithOneAAreReadAsAdaptersOfEachLayer) {
  Adapted model("phi", {"lora.rank=2", "lora.targets=attention"});
  model.write();
  const formats::SafetensorsFile file(model.scratch / "peft/adapter_model.safetensors");
  std::vector<formats::Tensor> tensors(file.tensors().begin(), file.tensors().end());
  std::vector<std::vector<float>> values;
  for (formats::Tensor& tensor : tensors) {
    if (tensor.name.find("qkv_proj") == tensor.name.npos) continue;
    const bool down = tensor.name.find("lora_A") != tensor.name.npos;
    tensor.shape[down ? 0 : 1] = 2;
    values.emplace_back(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]));
    for (std::size_t i = 0; i < values.back().size(); ++i)
      values.back()[i] = static_cast<float>(i % 97) + (down ? 0.5F : 0.25F);
  }
  auto next = values.begin();
  for (formats::Tensor& tensor : tensors)
    if (tensor.name.find("qkv_proj") != tensor.name.npos)
      tensor.bytes = std::as_bytes(std::span(*next++));
  Json config = Json::parse(read_file(model.scratch / "peft/adapter_config.json"));
  config["rank_pattern"] = config["alpha_pattern"] = Json::object();
  std::filesystem::create_directories(model.scratch / "trained");
  replace_file(model.scratch / "trained/adapter_config.json", config.dump());
  harness::write_safetensors(model.scratch / "trained/adapter_model.safetensors", tensors, {});
  const PeftWeights read(model.scratch / "trained");
  std::vector<float> rows;
  for (const model::ParamSpec& param : read.model().units[2].params) {
    if (param.name.find("o_proj") != param.name.npos) continue;
    const std::vector<float> own = floats(read.read(param));
    if (param.name.find("lora_A") != param.name.npos) {
      EXPECT_EQ(own, values[0]) << param.name;
    } else {
      rows.insert(rows.end(), own.begin(), own.end());
    }
  }
  EXPECT_EQ(rows, values[1]);
}

TEST(FusedAdapters, ThatNoJobDescribesAreRefused) {
  Adapted model("phi", {"lora.rank=2", "lora.alpha=3"});
  model.write();
  const Path file = model.scratch / "peft/adapter_config.json";
  const std::string written = read_file(file);
  const auto refusal = [&](const std::function<void(Json&)>& change) {
    Json config = Json::parse(written);
    change(config);
    replace_file(file, config.dump());
    const std::string text =
        formats::refusal([&] { PeftWeights(model.scratch / "peft"); }, ErrorKind::kData);
    replace_file(file, written);
    return text;
  };
  EXPECT_THAT(refusal([](Json& config) { config["alpha_pattern"]["qkv_proj"] = 8; }),
              testing::AllOf(testing::HasSubstr("rank_pattern and alpha_pattern give"),
                             testing::HasSubstr("rank 6 and alpha 8"), testing::HasSubstr("PEFT")));
  EXPECT_THAT(refusal([](Json& config) { config["rank_pattern"]["o_proj"] = 4; }),
              testing::HasSubstr("o_proj\" rank 4"));
  EXPECT_THAT(refusal([](Json& config) { config["rank_pattern"] = Json::object(); }),
              testing::HasSubstr("rank_pattern and alpha_pattern give"));
  // Training in PEFT fills what is zero between blocks.
  const formats::SafetensorsFile tensors(model.scratch / "peft/adapter_model.safetensors");
  std::vector<formats::Tensor> all(tensors.tensors().begin(), tensors.tensors().end());
  std::vector<float> full;
  for (formats::Tensor& tensor : all)
    if (full.empty() && tensor.name.ends_with("qkv_proj.lora_B.weight")) {
      full = std::vector<float>(static_cast<std::size_t>(tensor.numel()), 1.0F);
      tensor.bytes = std::as_bytes(std::span(full));
    }
  std::filesystem::create_directories(model.scratch / "full");
  replace_file(model.scratch / "full/adapter_config.json", written);
  harness::write_safetensors(model.scratch / "full/adapter_model.safetensors", all, {});
  EXPECT_THAT(formats::refusal([&] { PeftWeights(model.scratch / "full"); }, ErrorKind::kData),
              testing::HasSubstr("is not zero outside of its 3 blocks"));
  // Magnitudes of queries and values alone do not fill the layer.
  Adapted some("phi", {"lora.rank=2", "lora.targets=query_value", "lora.dora=true"});
  EXPECT_THAT(formats::refusal([&] { some.write(); }, ErrorKind::kUsage),
              testing::HasSubstr("needs magnitudes of keys too"));
}

}  // namespace
}  // namespace trireme::convert::fused_layers_test
