// config.json of published directories, broken: each refusal names the file, the key, the value seen and what is needed.
#include "tests/checkpoint/convert/broken.h"

namespace trireme::convert::broken_config_test {
namespace {

Damage in_config(const char* at, const Json& value) { return set(kConfig, at, value); }

TEST(BrokenConfig, File) {
  const Broken cases[] = {
      {"config is missing", "llama", drop(kConfig), {kConfig, "No such file"}},
      {"config is empty", "llama", put(kConfig, ""), {kConfig, "not valid JSON", "empty"}},
      {"config is HTML",
       "llama",
       put(kConfig, "<html>not found</html>"),
       {kConfig, "not valid JSON", "line 1, column 1"}},
      {"config is cut", "llama", cut(kConfig, 3), {kConfig, "not valid JSON", "ends"}},
      {"config is a pointer",
       "llama",
       put(kConfig, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
       {kConfig, "Git LFS pointer", "git lfs pull"}},
      {"config is a list", "llama", put(kConfig, "[]"), {kConfig, "is []", "an object is needed"}},
      {"config has a key twice",
       "llama",
       put(kConfig, R"({"model_type": "llama", "model_type": "llama"})"),
       {kConfig, "\"model_type\"", "twice"}},
      {"config has a strange key twice",
       "llama",
       put(kConfig, R"({"a\nb": 1, "a\nb": 2})"),
       {kConfig, "a\\nb", "twice"}},
      {"a number overflows",
       "llama",
       put(kConfig, R"({"model_type": "llama", "rope_theta": 1e999})"),
       {kConfig, "not valid JSON"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, Class) {
  const Broken cases[] = {
      {"no type", "llama", remove(kConfig, "model_type"), {kConfig, "model_type", "missing"}},
      {"type is a number", "llama", in_config("/model_type", 5), {kConfig, "model_type", "5"}},
      {"unknown type",
       "llama",
       in_config("/model_type", "bert"),
       {kConfig, "model_type", "\"bert\"", "llama, mistral"}},
      {"unknown class",
       "llama",
       in_config("/architectures", {"LlamaForSequenceClassification"}),
       {kConfig, "architectures", "LlamaForSequenceClassification", "LlamaForCausalLM"}},
      {"two classes",
       "llama",
       in_config("/architectures", {"LlamaForCausalLM", "MistralForCausalLM"}),
       {kConfig, "architectures", "MistralForCausalLM", "LlamaForCausalLM"}},
      {"class is no list",
       "llama",
       in_config("/architectures", "LlamaForCausalLM"),
       {kConfig, "architectures", "a list is needed"}},
      {"quantized",
       "llama",
       in_config("/quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}),
       {kConfig, "quantization_config", "gptq", "not quantized"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, Sizes) {
  const Broken cases[] = {
      {"size is text",
       "llama",
       in_config("/hidden_size", "16"),
       {kConfig, "hidden_size", "\"16\""}},
      {"size is null",
       "llama",
       in_config("/hidden_size", nullptr),
       {kConfig, "hidden_size", "null"}},
      {"size is missing", "llama", remove(kConfig, "vocab_size"), {kConfig, "\"vocab_size\""}},
      {"size is a fraction",
       "llama",
       in_config("/intermediate_size", 32.5),
       {kConfig, "intermediate_size", "32.5"}},
      {"size is negative",
       "qwen2",
       in_config("/hidden_size", -16),
       {kConfig, "hidden_size", "-16", "[1, "}},
      {"no layer",
       "mistral",
       in_config("/num_hidden_layers", 0),
       {kConfig, "num_hidden_layers", "is 0", "[1, "}},
      {"far too many layers",
       "mistral",
       in_config("/num_hidden_layers", 1000000000),
       {kConfig, "num_hidden_layers", "1000000000"}},
      {"many layers of a GPT",
       "gpt2",
       in_config("/n_layer", 1000000000),
       {kConfig, "n_layer", "1000000000"}},
      {"a thousand layers too many",
       "llama",
       in_config("/num_hidden_layers", 1002),
       {kModel, "no tensor"}},
      {"wide as a galaxy", "llama", in_config("/hidden_size", 1000000000), {kConfig, "1000000000"}},
      {"size beyond 64 bits",
       "llama",
       in_config("/vocab_size", 18446744073709551615ULL),
       {kConfig, "vocab_size", "18446744073709551615"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, Heads) {
  const Broken cases[] = {
      {"heads of uneven width",
       "olmo2",
       both(in_config("/hidden_size", 18), remove(kConfig, "head_dim")),
       {kConfig, "hidden_size", "18", "num_attention_heads", "4"}},
      {"GPT's heads", "gpt2", in_config("/n_head", 3), {kConfig, "n_embd", "16", "n_head", "3"}},
      {"NeoX's heads",
       "gpt_neox",
       in_config("/num_attention_heads", 3),
       {kConfig, "hidden_size", "16", "num_attention_heads", "3"}},
      {"key-value heads",
       "qwen3",
       in_config("/num_key_value_heads", 3),
       {kConfig, "num_key_value_heads", "3", "num_attention_heads", "4"}},
      {"more key-value heads than heads",
       "llama",
       in_config("/num_key_value_heads", 8),
       {kConfig, "num_key_value_heads", "8", "num_attention_heads", "4"}},
      {"odd heads", "llama", in_config("/head_dim", 5), {kConfig, "head_dim", "5"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, Functions) {
  const Broken cases[] = {
      {"activation",
       "llama",
       in_config("/hidden_act", "gelu"),
       {kConfig, "hidden_act", "gelu", "silu"}},
      {"activation is a number",
       "qwen2",
       in_config("/hidden_act", 3),
       {kConfig, "hidden_act", "3"}},
      {"GPT's activation",
       "gpt2",
       in_config("/activation_function", "swish"),
       {kConfig, "activation_function", "swish", "gelu_new"}},
      {"NeoX's activation",
       "gpt_neox",
       in_config("/hidden_act", "mish"),
       {kConfig, "hidden_act", "mish", "gelu_new"}},
      {"Gemma's activation",
       "gemma3_text",
       in_config("/hidden_activation", "gelu"),
       {kConfig, "hidden_activation", "gelu_pytorch_tanh"}},
      {"soft caps",
       "gemma3_text",
       in_config("/attn_logit_softcapping", 50.0),
       {kConfig, "attn_logit_softcapping", "50"}},
      {"cap is text",
       "gemma2",
       in_config("/final_logit_softcapping", "30"),
       {kConfig, "final_logit_softcapping", "\"30\""}},
      {"cap is negative",
       "gemma2",
       in_config("/attn_logit_softcapping", -50.0),
       {kConfig, "attention_cap", "-50"}},
      {"bias is text", "llama", in_config("/mlp_bias", "no"), {kConfig, "mlp_bias", "no"}},
      {"epsilon is text",
       "llama",
       in_config("/rms_norm_eps", "1e-5"),
       {kConfig, "rms_norm_eps", "1e-5"}},
      {"epsilon is negative",
       "llama",
       in_config("/rms_norm_eps", -1.0),
       {kConfig, "norm_eps", "-1"}},
      {"tied is a number",
       "llama",
       in_config("/tie_word_embeddings", 1),
       {kConfig, "tie_word_embeddings", "1", "true or false"}},
      {"no channel turns",
       "phi3",
       in_config("/partial_rotary_factor", 0.0),
       {kConfig, "rotary_fraction", "0"}},
      {"more channels turn than there are",
       "gpt_neox",
       in_config("/rotary_pct", 3.0),
       {kConfig, "rotary", "3"}},
      {"dropout", "phi3", in_config("/resid_pdrop", 0.1), {kConfig, "resid_pdrop", "0.1"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, PositionsAndWindows) {
  const Json sliding{"sliding_attention", "full_attention"};
  const Broken cases[] = {
      {"rope type",
       "llama",
       in_config("/rope_scaling", {{"rope_type", "spiral"}, {"factor", 2.0}}),
       {kConfig, "rope_scaling", "rope_type", "spiral", "llama3"}},
      {"rope without factor",
       "llama",
       in_config("/rope_scaling", {{"type", "linear"}}),
       {kConfig, "rope_scaling", "\"factor\""}},
      {"rope's factor is zero",
       "llama",
       in_config("/rope_scaling", {{"type", "linear"}, {"factor", 0}}),
       {kConfig, "rope_scaling", "factor"}},
      {"rope's factor is text",
       "qwen2",
       in_config("/rope_scaling", {{"type", "linear"}, {"factor", "2"}}),
       {kConfig, "rope_scaling", "factor", "\"2\""}},
      {"rope is text",
       "llama",
       in_config("/rope_scaling", "linear"),
       {kConfig, "rope_scaling", "linear", "an object"}},
      {"theta is zero", "llama", in_config("/rope_theta", 0), {kConfig, "rope_theta", "0"}},
      {"NeoX's rope",
       "gpt_neox",
       in_config("/rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
       {kConfig, "rope_scaling", "linear"}},
      {"layers slide without a window",
       "qwen3",
       in_config("/layer_types", sliding),
       {kConfig, "layer_types", "sliding_attention", "sliding_window"}},
      {"layers of other number",
       "mistral",
       in_config("/layer_types", {"full_attention"}),
       {kConfig, "layer_types", "1", "2 layers"}},
      {"layers are numbers",
       "mistral",
       in_config("/layer_types", {1, 2}),
       {kConfig, "layer_types", "1"}},
      {"window is negative",
       "mistral",
       in_config("/sliding_window", -1),
       {kConfig, "sliding_window", "-1"}},
      {"no position",
       "olmo2",
       in_config("/max_position_embeddings", 0),
       {kConfig, "max_position_embeddings", "is 0"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, LongRope) {
  const Broken cases[] = {
      {"long rope without lists",
       "phi3",
       in_config("/rope_scaling", {{"type", "longrope"}}),
       {kConfig, "rope_scaling", "short_factor"}},
      {"long rope with few factors",
       "phi3",
       in_config("/rope_scaling",
                 {{"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {2.0}}}),
       {kConfig, "longrope", "1 numbers for"}},
      {"long rope with a text",
       "phi3",
       in_config("/rope_scaling",
                 {{"type", "su"}, {"short_factor", {"1"}}, {"long_factor", {2.0}}}),
       {kConfig, "rope_scaling", "short_factor", "\"1\"", "numbers"}},
      {"long rope of a class without it",
       "llama",
       in_config("/rope_scaling", {{"type", "longrope"}}),
       {kConfig, "rope_scaling", "longrope", "llama3"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, Hnet) {
  const Broken cases[] = {
      {"layout",
       "hnet",
       in_config("/arch_layout", {"m1", "T1", "m1"}),
       {kConfig, "arch_layout", "needs"}},
      {"layers of an unknown kind",
       "hnet",
       in_config("/arch_layout", {"x1", {"T1"}, "m1"}),
       {kConfig, "x1"}},
      {"a width is missing",
       "hnet",
       in_config("/d_model", {64}),
       {kConfig, "d_model", "1", "2 stages"}},
      {"no attention", "hnet", remove(kConfig, "attn_cfg"), {kConfig, "attn_cfg"}},
      {"other states",
       "hnet",
       in_config("/ssm_cfg/d_state", 64),
       {kConfig, "ssm_cfg", "d_state", "64"}},
      {"rotary width",
       "hnet",
       in_config("/attn_cfg/rotary_emb_dim", {8, 12}),
       {kConfig, "rotary_emb_dim", "12", "16"}},
      {"tied", "hnet", in_config("/tie_embeddings", true), {kConfig, "tie_embeddings", "true"}},
      {"no head", "hnet", in_config("/attn_cfg/num_heads", {0, 0}), {kConfig, "num_heads", "0"}},
      {"uneven heads", "hnet", in_config("/attn_cfg/num_heads", {4, 3}), {kConfig, "3", "128"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenConfig, TheClassOfAModelWithoutItsHeadIsRead) {
  const formats::Scratch scratch;
  Files files = published("gpt2");
  set(kConfig, "/architectures", {"GPT2Model"})(files);
  write(files, scratch / "bare");
  EXPECT_EQ(refusal_of(scratch / "bare", scratch / "out"), "");
}

}  // namespace
}  // namespace trireme::convert::broken_config_test
