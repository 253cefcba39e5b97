// Families that several classes of Hugging Face's belong to: Llama and Qwen, towers alone, LLaVA, Qwen3-VL. Files there
// and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/convert/seeing_jobs.h"
#include "tests/formats/scratch.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/config/families.h"

namespace trireme::convert::several_classes_test {
namespace {

using formats::Scratch;
using testing::HasSubstr;

config::Job qwen(bool bias, bool norm) {
  config::Job job = decoder(config::Family::kLlama, 17);
  job.model.head_dim = 6;  // hidden / heads is 4
  job.model.qkv_bias = bias;
  job.model.qk_norm = norm;
  return job;
}

// With scaled rotary frequencies, and layers that attend each in its way.
config::Job scaled(config::Job job, const std::string& rope, const std::string& layers) {
  job.model.rope_scaling = rope;
  job.model.attention_layers = layers;
  return job;
}

config::Job smollm() {
  config::Job job = scaled(decoder(config::Family::kLlama, 17), "", "full,nope");
  job.model.tied = true;
  job.model.qkv_bias = job.llama.output_bias = job.llama.feed_forward_bias = true;
  return job;
}

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

struct Case {
  const char* type;
  config::Job job;
  Shapes shapes;
  std::string left_out;  // the parameter that begins at 0, if any
  // Tensors of other files that are passed over.
  std::vector<std::string> idle;
};

// Half of each head's channels turn, and they lie elsewhere than there.
Case neox() {
  config::Job job = decoder(config::Family::kNeox, 17);
  job.model.hidden = 48;
  job.neox.rotary_fraction = 0.5;
  return {"gpt_neox",
          job,
          {{"gpt_neox.layers.0.attention.query_key_value.bias", {144}},
           {"gpt_neox.layers.1.attention.dense.weight", {48, 48}},
           {"gpt_neox.layers.1.attention.query_key_value.weight", {144, 48}}},
          "",
          {"gpt_neox.layers.0.attention.bias", "gpt_neox.layers.1.attention.masked_bias"}};
}

Case gemma2() {
  config::Job job = scaled(qwen(false, false), "", "sliding:5,full");
  job.model.tied = true;
  job.llama = {.norms = config::NormPlaces::kBoth,
               .gains_from_one = true,
               .gate = config::GateActivation::kGeluTanh,
               .embedding_multiplier = std::sqrt(24.0),
               .attention_cap = 50,
               .logits_cap = 30};
  return {"gemma2",
          job,
          {{"model.layers.0.pre_feedforward_layernorm.weight", {24}},
           {"model.layers.1.self_attn.o_proj.weight", {24, 36}}},
          "",
          {"lm_head.weight"}};
}

// Four channels of six turn, in two pairs.
Case phi3() {
  config::Job job = scaled(qwen(false, false),
                           "longrope factor=4 original=6 short=1,1.25 long=1.5,3", "sliding:5");
  job.llama.rotary_fraction = 0.75;
  return {"phi3",
          job,
          {{"model.layers.0.mlp.gate_up_proj.weight", {100, 24}},
           {"model.layers.0.self_attn.o_proj.weight", {24, 36}},
           {"model.layers.1.self_attn.qkv_proj.weight", {72, 24}}},
          "",
          {"model.layers.0.self_attn.rotary_emb.inv_freq"}};
}

std::vector<Case> of_siglip() {
  const std::string head = "vision_model.head.", tower = "vision_tower.vision_model.";
  return {{"siglip_vision_model",
           siglip_tower(config::Pooling::kAttention),
           {{"vision_model.embeddings.patch_embedding.bias", {24}},
            {"vision_model.embeddings.position_embedding.weight", {16, 24}},
            {head + "probe", {1, 1, 24}},
            {head + "attention.in_proj_weight", {72, 24}},
            {head + "attention.in_proj_bias", {72}},
            {head + "attention.out_proj.weight", {24, 24}},
            {head + "layernorm.weight", {24}},
            {head + "mlp.fc2.weight", {24, 50}},
            {"vision_model.post_layernorm.weight", {24}}},
           "head.",
           {"text_model.head.bias", "logit_bias"}},
          {"siglip",
           siglip_tower(config::Pooling::kMean),
           {{"classifier.weight", {5, 24}}, {"vision_model.post_layernorm.bias", {24}}},
           "",
           {"vision_model.head.probe"}},
          {"llava",
           llava_siglip(),
           {{tower + "embeddings.patch_embedding.weight", {24, 3, 2, 2}},
            {tower + "encoder.layers.1.self_attn.v_proj.bias", {24}}},
           "model.image_newline",
           {tower + "head.probe", tower + "post_layernorm.weight",
            tower + "encoder.layers.2.mlp.fc1.bias"}},
          {"qwen3_vl",
           qwen3_vl(),
           {{"lm_head.weight", {260, 24}},
            {"model.language_model.layers.1.self_attn.q_norm.weight", {6}},
            {"model.language_model.embed_tokens.weight", {260, 24}},
            {"model.visual.patch_embed.proj.weight", {24, 3, 2, 2, 2}},
            {"model.visual.pos_embed.weight", {16, 24}},
            {"model.visual.blocks.2.attn.qkv.weight", {72, 24}},
            {"model.visual.blocks.2.mlp.linear_fc1.bias", {50}},
            {"model.visual.merger.norm.weight", {24}},
            {"model.visual.merger.linear_fc1.weight", {96, 96}},
            {"model.visual.deepstack_merger_list.1.norm.bias", {96}},
            {"model.visual.deepstack_merger_list.0.linear_fc2.weight", {24, 96}}}}};
}

std::vector<Case> of_llava() {
  const Shapes decoder = {{"language_model.model.embed_tokens.weight", {260, 24}},
                          {"language_model.model.layers.1.self_attn.o_proj.weight", {24, 36}},
                          {"language_model.lm_head.weight", {260, 24}},
                          {"multi_modal_projector.linear_1.weight", {24, 24}},
                          {"multi_modal_projector.linear_2.bias", {24}},
                          {"vision_tower.vision_model.embeddings.class_embedding", {24}},
                          {"vision_tower.vision_model.encoder.layers.1.mlp.fc1.weight", {50, 24}},
                          {"vision_tower.vision_model.pre_layrnorm.weight", {24}}};
  Shapes next = decoder;
  next["image_newline"] = {24};
  next["language_model.model.layers.1.self_attn.v_proj.bias"] = {18};
  const std::vector<std::string> unread = {
      "vision_tower.vision_model.encoder.layers.2.self_attn.q_proj.weight",
      "vision_tower.vision_model.post_layernorm.bias",
      "vision_tower.vision_model.embeddings.position_ids"};
  return {{"llava", llava(0, false), decoder, "model.image_newline", unread},
          {"llava_next", llava(4, true), next, "", unread}};
}

std::vector<Case> cases() {
  std::vector<Case> all = of_siglip();
  const std::vector<Case> others = {
      {"llama",
       scaled(qwen(false, false), "llama3 factor=8 original=16 low=1 high=4", ""),
       {{"model.layers.0.self_attn.q_proj.weight", {36, 24}},
        {"model.layers.0.self_attn.o_proj.weight", {24, 36}}}},
      {"mistral",
       scaled(qwen(false, false), "", "sliding:5"),
       {{"model.layers.0.self_attn.q_proj.weight", {36, 24}}, {"lm_head.weight", {17, 24}}}},
      {"smollm3",
       smollm(),
       {{"model.layers.1.self_attn.k_proj.weight", {12, 24}},
        {"model.layers.0.mlp.up_proj.bias", {50}},
        {"model.layers.1.self_attn.o_proj.bias", {24}},
        {"model.norm.weight", {24}}},
       "",
       {"lm_head.weight"}},
      {"qwen2",
       scaled(qwen(true, false), "yarn factor=4 original=8", "full,sliding:5"),
       {{"model.layers.0.self_attn.q_proj.bias", {36}},
        {"model.layers.1.self_attn.k_proj.bias", {18}},
        {"model.layers.1.self_attn.v_proj.bias", {18}}},
       "",
       {"model.layers.0.self_attn.rotary_emb.inv_freq"}},
      {"qwen3",
       qwen(false, true),
       {{"model.layers.0.self_attn.q_norm.weight", {6}},
        {"model.layers.1.self_attn.k_norm.weight", {6}},
        {"model.layers.1.self_attn.k_proj.weight", {18, 24}}}},
      gemma2(),
      phi3(),
      neox(),
      {"clip_vision_model",
       clip_tower(),
       {{"vision_model.embeddings.class_embedding", {24}},
        {"vision_model.embeddings.patch_embedding.weight", {24, 3, 2, 2}},
        {"vision_model.embeddings.position_embedding.weight", {17, 24}},
        {"vision_model.pre_layrnorm.bias", {24}},
        {"vision_model.encoder.layers.1.self_attn.k_proj.weight", {24, 24}},
        {"vision_model.encoder.layers.0.layer_norm2.weight", {24}},
        {"vision_model.post_layernorm.weight", {24}}},
       "head.",
       {"vision_model.embeddings.position_ids"}}};
  for (const std::vector<Case>& more : {others, of_llava()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

class SeveralClasses : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    one_ = target_of(GetParam().job, {});
    write_seed(one_, scratch_ / "seed");
    left_out_ = to_hugging_face(seed(), one_.job, one_.model, scratch_ / "hf");
  }
  Path seed() const { return scratch_ / "seed/step-3"; }
  Path back(const std::string& directory, const std::string& out) {
    return from_hugging_face(HuggingFaceWeights(scratch_ / directory, one_.job), "", "test",
                             scratch_ / out);
  }
  std::string refused(const std::string& directory) {
    return formats::refusal([&] { back(directory, directory + "-back"); });
  }
  // model.safetensors without one tensor, or with others beside the rest.
  void rewrite(const std::string& to, const std::string& without,
               const std::vector<std::string>& more) {
    const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
    std::filesystem::create_directories(scratch_ / to);
    std::vector<formats::Tensor> tensors;
    for (const formats::Tensor& tensor : file.tensors())
      if (tensor.name != without) tensors.push_back(tensor);
    for (const std::string& name : more) {
      tensors.push_back(tensors.front());
      tensors.back().name = name;
    }
    harness::write_safetensors(scratch_ / to / "model.safetensors", tensors, {});
  }

  Scratch scratch_;
  Target one_;
  std::vector<std::string> left_out_;
};

TEST_P(SeveralClasses, ParametersComeBackToTheBit) {
  const StateReader before(seed(), one_.model.units), after(back("hf", "back"), one_.model.units);
  const Kind kind{.name = "param"};
  const std::string& zero = GetParam().left_out;
  std::size_t zeros = 0;
  for (std::size_t unit = 0; unit < one_.model.units.size(); ++unit)
    for (std::size_t p = 0; p < one_.model.units[unit].params.size(); ++p) {
      const std::string& name = one_.model.units[unit].params[p].name;
      const std::vector<std::byte> read = after.read_whole(unit, p, kind);
      if (!zero.empty() && name.starts_with(zero)) {
        ++zeros;
        EXPECT_EQ(read, std::vector<std::byte>(read.size())) << name;
      } else {
        EXPECT_EQ(read, before.read_whole(unit, p, kind)) << name;
      }
    }
  EXPECT_EQ(left_out_.size(), zeros);
  EXPECT_EQ(zeros > 0, !zero.empty());
  to_hugging_face(scratch_ / "back/step-0", one_.job, one_.model, scratch_ / "again");
  EXPECT_EQ(read_file(scratch_ / "again/model.safetensors"),
            read_file(scratch_ / "hf/model.safetensors"));
}

TEST_P(SeveralClasses, LayoutsDoNotShow) {
  const Target two = target_of(GetParam().job, {"parallel.tp=3", "parallel.pp=2"});
  to_hugging_face(reshard(seed(), two, scratch_ / "cut"), two.job, two.model, scratch_ / "other");
  for (const char* file : {"model.safetensors", "config.json"})
    EXPECT_EQ(read_file(scratch_ / "other" / file), read_file(scratch_ / "hf" / file));
}

TEST_P(SeveralClasses, NamesAndShapesAreTheirs) {
  const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
  for (const auto& [name, shape] : GetParam().shapes) {
    ASSERT_NE(file.find(name), nullptr) << name;
    EXPECT_EQ(file.find(name)->shape, shape) << name;
  }
}

TEST_P(SeveralClasses, ConfigDescribesTheModel) {
  const std::string text = read_file(scratch_ / "hf/config.json");
  EXPECT_EQ(Json::parse(text).at("model_type"), GetParam().type);
  const config::Job read = config::resolve(job_of_config(text, "config.json"), 1, {});
  EXPECT_EQ(read.model, one_.job.model);
  EXPECT_EQ(read.vision, one_.job.vision);
  EXPECT_EQ(read.projector, one_.job.projector);
  EXPECT_EQ(read.vlm, one_.job.vlm);
  EXPECT_EQ(read.neox, one_.job.neox);
  EXPECT_EQ(read.llama, one_.job.llama);
  EXPECT_EQ(read.data, one_.job.data);
}

// Pixels have a file of their own, which counts more than what a class is known for.
TEST_P(SeveralClasses, MeanAndDeviationOfPixelsComeBack) {
  const Path file = scratch_ / "hf" / kPreprocessorName;
  if (!config::uses(one_.job.model.family, "vision.pixels")) {
    EXPECT_FALSE(std::filesystem::exists(file));
    return;
  }
  const Json written = Json::parse(read_file(file));
  const std::string& pixels = one_.job.vision.pixels;
  const bool clip = pixels == "clip";
  EXPECT_EQ(written.at("image_mean"),
            clip ? Json({0.48145466, 0.4578275, 0.40821073}) : Json({0.5, 0.5, 0.5}));
  EXPECT_EQ(written.at("image_std"),
            clip ? Json({0.26862954, 0.26130258, 0.27577711}) : Json({0.5, 0.5, 0.5}));
  EXPECT_EQ(HuggingFaceWeights(scratch_ / "hf").job().vision.pixels, pixels);
  config::Job other = one_.job;
  other.vision.pixels = "0.25,0.5,0.125/0.229,0.224,0.225";
  to_hugging_face(seed(), other, one_.model, scratch_ / "other");
  const HuggingFaceWeights read(scratch_ / "other");
  EXPECT_EQ(read.job().vision.pixels, other.vision.pixels);
  EXPECT_EQ(
      config::parse_job(
          formats::read_manifest(from_hugging_face(read, "", "test", scratch_ / "from")).job, "")
          .vision.pixels,
      other.vision.pixels);
  const auto refused_pixels = [&](const char* key, const Json& value) {
    Json json = written;
    json[key] = value;
    replace_file(file, json.dump());
    return formats::refusal([&] { HuggingFaceWeights(scratch_ / "hf"); });
  };
  EXPECT_THAT(refused_pixels("image_mean", {0.5, 0.5}),
              HasSubstr("image_mean is [0.5,0.5]; needs three numbers from 0 to 1"));
  EXPECT_THAT(refused_pixels("image_std", {0, 1, 1}), HasSubstr("above 0 and up to 1"));
  EXPECT_THAT(refused_pixels("do_normalize", false), HasSubstr("do_normalize is false"));
  EXPECT_THAT(refused_pixels("rescale_factor", 1), HasSubstr("divided by 255"));
}

TEST_P(SeveralClasses, MissingAndExtraTensorsAreNamed) {
  rewrite("idle", "", GetParam().idle);
  back("idle", "idle-back");
  const std::string one = GetParam().shapes.rbegin()->first;
  rewrite("missing", one, {});
  EXPECT_THAT(refused("missing"), HasSubstr("has no tensor " + one));
  rewrite("more", "", {"unheard.of"});
  EXPECT_THAT(refused("more"), HasSubstr("no place for, such as \"unheard.of\""));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "missing-back")) << "nothing was begun";
}

INSTANTIATE_TEST_SUITE_P(Classes, SeveralClasses, testing::ValuesIn(cases()), [](const auto& info) {
  const config::Job& job = info.param.job;
  const bool other =
      job.model.family == config::Family::kVlm && job.vision.pooling == config::Pooling::kMean;
  return fmt::format("{}{}", info.param.type, other ? "_siglip" : "");
});

TEST(SeveralClassesConfig, NamesTheKeyThatNoClassHas) {
  const auto unsaid = [](config::Job job) {
    return formats::refusal([&] { hugging_face_config(target_of(std::move(job), {}).job); },
                            ErrorKind::kUsage);
  };
  EXPECT_THAT(
      unsaid(qwen(true, true)),
      HasSubstr("model.qk_norm=true: config.json of a Qwen2ForCausalLM cannot describe this;"));
  EXPECT_THAT(unsaid(llava(2, false)), HasSubstr("vlm.max_tiles=2: config.json of a Llava"));
  config::Job last = llava(4, false);
  last.vlm.layer = -1;
  EXPECT_THAT(unsaid(last),
              HasSubstr("vlm.layer=-1: family vlm has a norm after the tower's last block"));
  config::Job turned = llava(4, false);
  turned.vlm.mrope = "1,1,1";
  EXPECT_THAT(unsaid(turned), HasSubstr("vlm.mrope="));
  config::Job crossing = llava(0, false);
  crossing.vlm.cross = {1, 8};
  EXPECT_THAT(unsaid(crossing), HasSubstr("vlm.cross=[1, 8]: config.json of a Llava"));
}

}  // namespace
}  // namespace trireme::convert::several_classes_test
