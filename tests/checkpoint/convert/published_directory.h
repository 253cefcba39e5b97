// Small directories as models are published, held as bytes by name, so that a test can break any file of them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/checkpoint/convert/safetensors_bytes.h"
#include "tests/checkpoint/convert/seeds.h"
#include "tests/data/text/tokenizer_files.h"
#include "trireme/checkpoint/convert/adapters.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/data/text/tokenizer_json.h"

namespace trireme::convert {

using Files = std::map<std::string, std::string>;

inline constexpr const char *kConfig = "config.json", *kModel = "model.safetensors",
                            *kIndex = "model.safetensors.index.json",
                            *kTokenizer = "tokenizer.json",
                            *kTokenizerConfig = "tokenizer_config.json",
                            *kGeneration = "generation_config.json";

inline Json published_config(const std::string& type) {
  if (type == "gpt2")
    return {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"n_embd", 16},
            {"n_layer", 2},
            {"n_head", 4},
            {"n_positions", 64},
            {"vocab_size", 260},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", 1e-5}};
  if (type == "hnet")
    return {{"arch_layout", {"m1", {"T1"}, "m1"}},
            {"d_model", {64, 128}},
            {"d_intermediate", {0, 256}},
            {"vocab_size", 256},
            {"ssm_cfg", {{"chunk_size", 256}, {"d_conv", 4}, {"d_state", 128}, {"expand", 2}}},
            {"attn_cfg",
             {{"num_heads", {4, 4}}, {"rotary_emb_dim", {8, 16}}, {"window_size", {-1, -1}}}},
            {"tie_embeddings", false}};
  const std::map<std::string, const char*> classes = {
      {"llama", "LlamaForCausalLM"},  {"mistral", "MistralForCausalLM"},
      {"qwen2", "Qwen2ForCausalLM"},  {"qwen3", "Qwen3ForCausalLM"},
      {"phi3", "Phi3ForCausalLM"},    {"gemma3_text", "Gemma3ForCausalLM"},
      {"olmo2", "Olmo2ForCausalLM"},  {"gpt_neox", "GPTNeoXForCausalLM"},
      {"gemma2", "Gemma2ForCausalLM"}};
  Json json{{"architectures", {classes.at(type)}},
            {"model_type", type},
            {"hidden_size", 16},
            {"num_hidden_layers", 2},
            {"num_attention_heads", 4},
            {"intermediate_size", 32},
            {"max_position_embeddings", 64},
            {"vocab_size", 260},
            {"torch_dtype", "float32"}};
  if (type == "gpt_neox") {
    json.update({{"hidden_act", "gelu"}, {"rotary_pct", 0.5}, {"layer_norm_eps", 1e-5}});
    return json;
  }
  const bool gemma = type.starts_with("gemma");
  json[gemma ? "hidden_activation" : "hidden_act"] = gemma ? "gelu_pytorch_tanh" : "silu";
  json.update({{"num_key_value_heads", 2},
               {"head_dim", 4},
               {"rms_norm_eps", 1e-5},
               {"rope_theta", 10000.0},
               {"tie_word_embeddings", gemma}});
  return json;
}

inline config::Job resolved(config::Job job) {
  const config::DatasetFacts facts{.vocab = job.model.vocab, .classes = job.vision.classes};
  return config::resolve(std::move(job), 1, facts);
}

// Queries, keys and values, and gates and what they gate, are one tensor each.
inline void fuse_layers(Json& header) {
  Json fused = Json::object();
  for (const auto& [name, entry] : header.items())
    if (name.find(".mlp.") == name.npos && name.find("_proj.") == name.npos)
      add_tensor(fused, name, entry["shape"]);
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    add_tensor(fused, std::string(layer) + "self_attn.qkv_proj.weight", {32, 16});
    add_tensor(fused, std::string(layer) + "self_attn.o_proj.weight", {16, 16});
    add_tensor(fused, std::string(layer) + "mlp.gate_up_proj.weight", {64, 16});
    add_tensor(fused, std::string(layer) + "mlp.down_proj.weight", {16, 32});
  }
  header = fused;
}

// A decoder of this model_type with vocabulary and chat template, or hnet.
inline Files published(const std::string& type) {
  const Json config = published_config(type);
  const config::Job job = resolved(job_of_config(config.dump(), kConfig));
  Json header = header_of(hugging_face_tensors(job, model::describe(job)));
  if (type == "phi3") fuse_layers(header);
  Files files = {{kConfig, config.dump(2)}, {kModel, safetensors(header)}};
  if (type == "hnet") return files;
  text::ByteLevelBpe bpe{.merges = {{'a', 'b'}}, .special = {"<|im_start|>", "<|im_end|>"}};
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.emplace_back(1, static_cast<char>(byte));
  bpe.tokens.emplace_back("ab");
  files[kTokenizer] = text::print_tokenizer_json(bpe);
  files[kTokenizerConfig] = Json{{"chat_template",
                                  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content "
                                  "}}<|im_end|>\n{% endfor %}"}}
                                .dump();
  files[kGeneration] = Json{{"eos_token_id", 258}}.dump();
  return files;
}

// A model that sees, in the first class of its family.
inline Files published(config::Job job) {
  job = resolved(std::move(job));
  return {{kConfig, hugging_face_config(job)},
          {kModel, safetensors(header_of(hugging_face_tensors(job, model::describe(job))))}};
}

}  // namespace trireme::convert
