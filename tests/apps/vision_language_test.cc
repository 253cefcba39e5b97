// From a downloaded LLaVA and questions about pictures to an answer and back, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"
#include "tests/apps/run_files.h"

#if TRIREME_HAS_WORKER

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/text/tokenizer_json.h"
#include "trireme/formats/safetensors.h"

namespace trireme::app::vision_language_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kImage = 260, kEnd = 258, kRows = 320;

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

void add_layer(Shapes& shapes, const std::string& name, std::int64_t out, std::int64_t in) {
  shapes[name + ".weight"] = {out, in};
  shapes[name + ".bias"] = {out};
}

// The tensors of LlavaForConditionalGeneration as published files name them: a tower of two layers of width 24, of
// which the first is read, and a decoder of two layers of width 32.
Shapes published_shapes() {
  const std::string tower = "vision_tower.vision_model.", decoder = "language_model.model.";
  Shapes shapes = {{tower + "embeddings.class_embedding", {24}},
                   {tower + "embeddings.patch_embedding.weight", {24, 3, 16, 16}},
                   {tower + "embeddings.position_embedding.weight", {5, 24}},
                   {decoder + "embed_tokens.weight", {kRows, 32}},
                   {decoder + "norm.weight", {32}},
                   {"language_model.lm_head.weight", {kRows, 32}}};
  for (const char* norm : {"pre_layrnorm", "post_layernorm", "encoder.layers.0.layer_norm1",
                           "encoder.layers.0.layer_norm2", "encoder.layers.1.layer_norm1",
                           "encoder.layers.1.layer_norm2"})
    for (const char* word : {".weight", ".bias"}) shapes[tower + norm + word] = {24};
  for (const char* layer : {"0.", "1."}) {
    const std::string own = tower + "encoder.layers." + layer;
    for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
      add_layer(shapes, own + "self_attn." + name, 24, 24);
    add_layer(shapes, own + "mlp.fc1", 48, 24);
    add_layer(shapes, own + "mlp.fc2", 24, 48);
    const std::string block = decoder + "layers." + layer;
    for (const auto& [name, out, in] :
         {std::tuple("self_attn.q_proj", 32, 32), std::tuple("self_attn.k_proj", 16, 32),
          std::tuple("self_attn.v_proj", 16, 32), std::tuple("self_attn.o_proj", 32, 32),
          std::tuple("mlp.gate_proj", 48, 32), std::tuple("mlp.up_proj", 48, 32),
          std::tuple("mlp.down_proj", 32, 48)})
      shapes[block + name + ".weight"] = {out, in};
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      shapes[block + norm + ".weight"] = {32};
  }
  add_layer(shapes, "multi_modal_projector.linear_1", 32, 24);
  add_layer(shapes, "multi_modal_projector.linear_2", 32, 32);
  return shapes;
}

// As transformers 4.52 and later name them.
std::string later(const std::string& name) {
  const std::string decoder = "language_model.model.", head = "language_model.";
  if (name.starts_with(decoder)) return "model.language_model." + name.substr(decoder.size());
  return name.starts_with(head) ? name.substr(head.size()) : "model." + name;
}

void write_tensors(const Path& file, const Shapes& shapes) {
  std::vector<formats::TensorInfo> infos;
  for (const auto& [name, shape] : shapes) infos.push_back({.name = name, .shape = shape});
  std::vector<float> values;
  formats::stream_safetensors(
      file, infos, {{"format", "pt"}}, formats::TensorOrder::kOfficial, [&](std::size_t index) {
        std::mt19937 random(static_cast<std::uint32_t>(index));
        std::normal_distribution<float> normal(infos[index].shape.size() == 1 ? 1.0F : 0.0F, 0.1F);
        std::size_t count = 1;
        for (const std::int64_t size : infos[index].shape) count *= static_cast<std::size_t>(size);
        values.resize(count);
        for (float& value : values) value = normal(random);
        return std::as_bytes(std::span(values));
      });
}

const Json kConfig = {{"architectures", {"LlavaForConditionalGeneration"}},
                      {"model_type", "llava"},
                      {"image_token_index", kImage},
                      {"projector_hidden_act", "gelu"},
                      {"vision_feature_layer", -2},
                      {"vision_feature_select_strategy", "default"},
                      {"text_config",
                       {{"model_type", "llama"},
                        {"hidden_size", 32},
                        {"intermediate_size", 48},
                        {"num_hidden_layers", 2},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"max_position_embeddings", 256},
                        {"rms_norm_eps", 1e-5},
                        {"vocab_size", kRows}}},
                      {"vision_config",
                       {{"model_type", "clip_vision_model"},
                        {"hidden_size", 24},
                        {"intermediate_size", 48},
                        {"num_hidden_layers", 2},
                        {"num_attention_heads", 2},
                        {"image_size", 32},
                        {"patch_size", 16}}}};

// Bytes, one merge, and special tokens: 260 is a picture's place, 258 the end of a text, 257 what every prompt begins with.
Json tokenizer(const std::vector<std::string>& special) {
  text::ByteLevelBpe bpe{.merges = {{'r', 'g'}}, .special = special};
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.emplace_back(1, static_cast<char>(byte));
  bpe.tokens.emplace_back("rg");
  Json json = Json::parse(text::print_tokenizer_json(bpe));
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", Json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {257}}, {"tokens", {"<s>"}}}}}}};
  return json;
}

const std::vector<std::string> kSpecial = {"<s>", "</s>", "<pad>", "<image>"};

class VisionLanguage : public ::testing::Test {
 protected:
  VisionLanguage() {
    std::filesystem::create_directories(desk_ / "llava");
    write_tensors(desk_ / "llava/model.safetensors", published_shapes());
    desk_.write("llava/config.json", kConfig.dump());
    desk_.write("llava/tokenizer.json", tokenizer(kSpecial).dump());
    desk_.write("llava/generation_config.json", Json{{"eos_token_id", kEnd}}.dump());
    desk_.write("job.yaml",
                "model: {weights: llava}\ndata: {source: pairs, path: scenes}\n"
                "lora: {rank: 4, also: projector}\noptim: {lr: 1e-2}\n"
                "run: {steps: 4, global_batch: 4}\ncheckpoint: {every: 2}\n");
  }
  void SetUp() override {
    done({"data", "synth", "vlm", "scenes", "--count", "12", "--size", "32:48", "--format", "png",
          "--validation", "4"});
    const std::string file = read_file(Path(TRIREME_SOURCE_DIR) / "examples/blocks.png");
    desk_.write("blocks.png", file);
  }

  std::string done(const std::vector<std::string>& arguments) const {
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    return result.out;
  }
  std::string train(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", "job.yaml", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return done(arguments);
  }
  std::string answer(const std::string& checkpoint, const std::string& prompt = "code?") const {
    return done({"generate", "--checkpoint", checkpoint, "--image", "blocks.png", "--prompt",
                 prompt, "--temperature", "0", "--tokens", "6"});
  }
  // Refused with one line that has all of these parts.
  void refused(const std::vector<std::string>& arguments, const std::vector<std::string>& why) {
    const Result result = desk_.run(arguments);
    EXPECT_NE(result.exit_code, 0) << result.out;
    expect_one_line(result.err);
    for (const std::string& part : why) EXPECT_THAT(result.err, HasSubstr(part));
  }
  // Tensors of one file that another has too have its bits. Returns how many.
  int same_tensors(const std::string& a, const std::string& b) const {
    const formats::SafetensorsFile one(desk_ / a), other(desk_ / b);
    int same = 0;
    for (const formats::Tensor& tensor : one.tensors()) {
      const formats::Tensor* found = other.find(tensor.name);
      if (found == nullptr) continue;
      EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << tensor.name;
      ++same;
    }
    return same;
  }

  Desk desk_;
};

TEST_F(VisionLanguage, TrainsAdaptersInItsOwnTokensAndAnswers) {
  const std::string out = train("run", {"--ranks", "2"});
  EXPECT_THAT(out, HasSubstr("bpe of 261 ids"));
  const config::Job job = config::load_job(desk_ / "run/job.lock.yaml");
  EXPECT_EQ(job.vlm.tokens, (std::array<std::int64_t, 2>{kImage, kEnd}));
  EXPECT_EQ(job.model.vocab, kRows);
  EXPECT_EQ(job.data.tokenizer, (desk_ / "llava/tokenizer.json").string());
  // A run that stopped early and resumed has the same steps, also where the tokenizer has gone.
  train("again", {"--ranks", "2", "--steps", "2"});
  std::filesystem::rename(desk_ / "llava/tokenizer.json", desk_ / "moved.json");
  done({"train", "--out", "again", "--steps", "4"});
  std::filesystem::rename(desk_ / "moved.json", desk_ / "llava/tokenizer.json");
  EXPECT_EQ(trace(desk_ / "again"), trace(desk_ / "run"));

  EXPECT_THAT(answer("run"), HasSubstr("code?"));
  EXPECT_EQ(answer("run", "<image>code?"), "<image>" + answer("run"));
  EXPECT_THAT(done({"evaluate", "run"}), HasSubstr("exact"));
  EXPECT_THAT(done({"predict", "run", "blocks.png", "--embed"}), HasSubstr("blocks.png"));
  refused({"train", "job.yaml", "--out", "other", "--set", "data.tokenizer=bytes"},
          {"its vocabulary has digest", "leave data.tokenizer out"});
}

// Questions are asked in the template of the weights, in training and afterwards.
TEST_F(VisionLanguage, AsksInTheChatTemplateOfItsWeights) {
  desk_.write("llava/chat_template.json",
              Json{{"chat_template", "{{ m.role.upper() }}: <image>\n{{ t }} ASSISTANT:"}}.dump());
  EXPECT_THAT(train("run", {"--set", "data.chat=auto"}), HasSubstr("template llava"));
  EXPECT_EQ(config::load_job(desk_ / "run/job.lock.yaml").data.chat, "llava");
  done({"checkpoint", "convert", "run", "merged", "--merge"});
  const std::string written = "USER: <image>\ncode? ASSISTANT:", said = answer("run");
  ASSERT_THAT(said, testing::StartsWith("code?\n"));
  EXPECT_EQ(answer("merged", written), written + said.substr(std::string("code?\n").size()));
  EXPECT_EQ(done({"generate", "--checkpoint", "merged", "--image", "blocks.png", "--prompt",
                  "code?", "--temperature", "0", "--tokens", "6", "--chat", "llava"}),
            said);
  refused({"train", "job.yaml", "--out", "o", "--set", "data.chat=mistral_v3"},
          {"data.chat=mistral_v3", "use llava_mistral"});
  refused({"train", "job.yaml", "--out", "o", "--set", "model.weights=", "model.family=vlm",
           "data.tokenizer=bytes", "data.chat=llava"},
          {"data.chat=llava", "data.tokenizer=bytes", "special tokens"});
  refused({"generate", "--checkpoint", "run", "--chat", "llava"}, {"without --prompt"});
}

TEST_F(VisionLanguage, LeavesInTheFormThatItCameInAndComesBack) {
  train("run");
  done({"checkpoint", "convert", "run", "merged", "--merge"});
  for (const char* file : {"tokenizer.json", "generation_config.json", "preprocessor_config.json"})
    EXPECT_TRUE(std::filesystem::exists(desk_ / "merged" / file)) << file;
  const Json config = parse_json(read_file(desk_ / "merged/config.json"), "config");
  EXPECT_EQ(config["image_token_index"], kImage);
  EXPECT_EQ(config["text_config"]["eos_token_id"], kEnd);
  EXPECT_EQ(answer("merged"), answer("run"));

  // Without a step the published bits return: all but the tower's last layer, which is not read.
  done({"checkpoint", "convert", "llava", "ours"});
  EXPECT_EQ(answer("ours"), answer("llava"));
  done({"checkpoint", "convert", "ours", "theirs"});
  EXPECT_EQ(same_tensors("theirs/model.safetensors", "llava/model.safetensors"),
            static_cast<int>(published_shapes().size()) - 16 - 2);
  EXPECT_EQ(parse_json(read_file(desk_ / "theirs/tokenizer.json"), "t"), tokenizer(kSpecial));

  // What trained beside adapters needs a merge; adapters alone are PEFT's.
  refused({"checkpoint", "convert", "run", "peft"}, {"unit projector trained too", "--merge"});
  train("alone", {"--set", "lora.also="});
  done({"checkpoint", "convert", "alone", "peft"});
  const Json peft = parse_json(read_file(desk_ / "peft/adapter_config.json"), "config");
  EXPECT_EQ(
      peft["target_modules"],
      R"((.*\.)?language_model\..*\.(down_proj|gate_proj|k_proj|o_proj|q_proj|up_proj|v_proj))");
  const formats::SafetensorsFile adapters(desk_ / "peft/adapter_model.safetensors");
  EXPECT_EQ(adapters.tensors().size(), 2 * 2 * 7U);
  EXPECT_NE(adapters.find("base_model.model.language_model.model.layers.1.self_attn.q_proj.lora_A."
                          "weight"),
            nullptr);
  done({"checkpoint", "convert", "peft", "tuned"});
  EXPECT_EQ(answer("tuned"), answer("alone"));
}

// Files of later releases of transformers, and adapters of these.
TEST_F(VisionLanguage, ReadsTheNamesOfLaterReleases) {
  Shapes shapes;
  for (const auto& [name, shape] : published_shapes()) shapes[later(name)] = shape;
  std::filesystem::create_directories(desk_ / "later");
  write_tensors(desk_ / "later/model.safetensors", shapes);
  for (const char* file : {"config.json", "tokenizer.json", "generation_config.json"})
    std::filesystem::copy(desk_ / "llava" / file, desk_ / "later" / file);
  train("run", {"--set", "model.weights=later", "lora.also="});
  done({"checkpoint", "convert", "run", "peft"});
  EXPECT_NE(formats::SafetensorsFile(desk_ / "peft/adapter_model.safetensors")
                .find("base_model.model.model.language_model.layers.0.mlp.up_proj.lora_B.weight"),
            nullptr);
  done({"checkpoint", "convert", "peft", "tuned"});
  EXPECT_EQ(answer("tuned"), answer("run"));
}

TEST_F(VisionLanguage, WhatATokenizerCannotSayIsRefused) {
  const auto with = [&](const std::vector<std::string>& special) {
    desk_.write("other/tokenizer.json", tokenizer(special).dump());
  };
  const std::vector<std::string> words = {
      "train",   "job.yaml",       "--out", "other-run",
      "--allow", "data.tokenizer", "--set", "data.tokenizer=other/tokenizer.json"};
  const auto refused_with = [&](std::vector<std::string> more,
                                const std::vector<std::string>& why) {
    more.insert(more.begin(), words.begin(), words.end());
    refused(more, why);
  };
  with({"<s>", "</s>", "<pad>"});
  refused_with({"model.weights=", "model.family=vlm"},
               {"other/tokenizer.json", "has no image token (<image>"});
  refused_with({}, {"vlm.tokens=[260, 258]", "is no special token"});
  with(kSpecial);
  refused_with({"model.weights=", "model.family=vlm"},
               {"has no end of text", "generation_config.json"});
  std::vector<std::string> many = kSpecial;
  for (int i = 0; i < 80; ++i) many.push_back("<extra" + std::to_string(i) + ">");
  with(many);
  refused_with({}, {"model.vocab=320 is smaller than the 341 ids of data.tokenizer="});
  refused({"train", "job.yaml", "--out", "o", "--set", "data.tokenizer=bpe:300"},
          {"no vocabulary is learned from questions"});
  desk_.write("text/a.txt", "the oars of a trireme\n");
  done({"data", "prepare", "text", "--out", "tokens", "--validation", "tail:0.1"});
  refused(
      {"train", "job.yaml", "--out", "o", "--set", "data.path=scenes,tokens", "data.weights=1,1"},
      {"tokens is a data set of prepared tokens", "data.source=pairs"});
  refused({"generate", "--checkpoint", "llava", "--image", "blocks.png", "--prompt",
           "<image> and <image>?"},
          {"the prompt: <image> in its question 2 times, for 1 pictures"});
}

}  // namespace
}  // namespace trireme::app::vision_language_test

#endif
