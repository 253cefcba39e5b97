// Broken adapters in PEFT's form: each refusal names the file and the key or tensor.
#include "tests/checkpoint/convert/broken.h"

namespace trireme::convert::broken_adapter_test {
namespace {

constexpr const char *kAdapter = "adapter_config.json", *kTensors = "adapter_model.safetensors",
                     *kA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";

const Path& base() {
  static const formats::Scratch scratch;
  static const Path path = [] {
    write(published("llama"), scratch / "base");
    return scratch / "base";
  }();
  return path;
}

// Adapters of queries and values.
Files adapter(const std::string&) {
  config::Job job = HuggingFaceWeights(base()).job();
  job.lora = {.rank = 2, .alpha = 4, .targets = config::LoraTargets::kQueryValue};
  job = resolved(job);
  const Json config{{"peft_type", "LORA"},
                    {"task_type", "CAUSAL_LM"},
                    {"base_model_name_or_path", base().string()},
                    {"r", 2},
                    {"lora_alpha", 4},
                    {"lora_dropout", 0.0},
                    {"target_modules", {"q_proj", "v_proj"}},
                    {"bias", "none"},
                    {"use_dora", false}};
  return {{kAdapter, config.dump()},
          {kTensors, safetensors(header_of(peft_tensors(job, model::describe(job))))}};
}

Damage in_adapter(const char* at, const Json& value) { return set(kAdapter, at, value); }

TEST(BrokenAdapter, Config) {
  const Broken cases[] = {
      {"no JSON", "llama", put(kAdapter, "r: 8"), {kAdapter, "not valid JSON"}},
      {"no type", "llama", remove(kAdapter, "peft_type"), {kAdapter, "peft_type", "missing"}},
      {"another type",
       "llama",
       in_adapter("/peft_type", "IA3"),
       {kAdapter, "peft_type", "IA3", "LORA"}},
      {"rank is zero", "llama", in_adapter("/r", 0), {kAdapter, "r: is 0"}},
      {"rank is text", "llama", in_adapter("/r", "2"), {kAdapter, "r: is \"2\""}},
      {"no rank", "llama", remove(kAdapter, "r"), {kAdapter, "\"r\""}},
      {"another rank", "llama", in_adapter("/r", 4), {kTensors, "[2, 16]", "rank 4", "[4, 16]"}},
      {"rank beyond the layers", "llama", in_adapter("/r", 100000), {kAdapter, "100000", "16"}},
      {"alpha is text", "llama", in_adapter("/lora_alpha", "4"), {kAdapter, "lora_alpha", "\"4\""}},
      {"alpha is zero", "llama", in_adapter("/lora_alpha", 0), {kAdapter, "alpha", "0"}},
      {"dropout is 2", "llama", in_adapter("/lora_dropout", 2), {kAdapter, "dropout", "2"}},
      {"no model",
       "llama",
       in_adapter("/base_model_name_or_path", nullptr),
       {kAdapter, "base_model_name_or_path", "--base"}},
      {"model elsewhere",
       "",
       in_adapter("/base_model_name_or_path", "meta-llama/Llama-3.2-1B"),
       {kAdapter, "meta-llama/Llama-3.2-1B", "--base"}},
      {"unknown target",
       "",
       in_adapter("/target_modules", {"q_proj", "v_proj", "gatekeeper"}),
       {kAdapter, "target_modules", "gatekeeper"}},
      {"DoRA",
       "llama",
       in_adapter("/use_dora", true),
       {kTensors, "has no lora_magnitude_vector", "use_dora"}},
      {"ranks by layer",
       "llama",
       in_adapter("/rank_pattern", {{"q_proj", 8}}),
       {kAdapter, "rank_pattern", "q_proj", "rank 8", "Merge"}},
      {"alphas by expression",
       "llama",
       in_adapter("/alpha_pattern", {{"layers.*.q_proj", 64}}),
       {kAdapter, "alpha_pattern", "layers.*.q_proj", "no adapted layer"}},
      {"biases", "llama", in_adapter("/bias", "all"), {kAdapter, "bias", "all"}},
      {"saved modules",
       "llama",
       in_adapter("/modules_to_save", {"lm_head"}),
       {kAdapter, "modules_to_save"}},
  };
  expect_refusals(cases, adapter);
}

TEST(BrokenAdapter, Tensors) {
  const auto in_header = [](const std::function<void(Json&)>& change) {
    return header(kTensors, change);
  };
  const Broken cases[] = {
      {"no tensors", "llama", drop(kTensors), {kTensors, "No such file"}},
      {"a pickle alone",
       "",
       both(drop(kTensors), put("adapter_model.bin", "PK\x03\x04")),
       {"adapter_model.bin", "pickle", "safetensors"}},
      {"cut", "llama", cut(kTensors, 4), {kTensors, "cut short"}},
      {"of another model",
       "",
       in_header([](Json& json) {
         add_tensor(json, "base_model.model.h.0.attn.c_attn.lora_A.weight", {2, 16});
       }),
       {kTensors, "h.0.attn.c_attn", "no adapter"}},
      {"of more layers",
       "",
       in_header([](Json& json) {
         add_tensor(json, "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight",
                    {2, 16});
       }),
       {kTensors, "layers.7", "no adapter"}},
      {"half an adapter",
       "",
       in_header([](Json& json) {
         Json others = Json::object();
         for (const auto& [name, entry] : json.items())
           if (name != kA) add_tensor(others, name, entry["shape"]);
         json = others;
       }),
       {kTensors, "has no", "lora_A"}},
      {"whole numbers",
       "llama",
       in_header([](Json& json) { json[kA]["dtype"] = "I32"; }),
       {kTensors, kA, "I32"}},
  };
  expect_refusals(cases, adapter);
}

// The base is another model than that of the adapters.
TEST(BrokenAdapter, Base) {
  const formats::Scratch scratch;
  write(published("gpt2"), scratch / "gpt2");
  write(adapter(""), scratch / "adapter");
  const std::string message =
      formats::refusal([&] { PeftWeights(scratch / "adapter", scratch / "gpt2"); });
  expect_clear(message);
  EXPECT_THAT(message, testing::HasSubstr(kTensors));
}

}  // namespace
}  // namespace trireme::convert::broken_adapter_test
