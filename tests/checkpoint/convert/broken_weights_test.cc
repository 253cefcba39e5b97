// Tensors of published directories, broken: each refusal names the file, the tensor, and what is needed.
#include "tests/checkpoint/convert/broken.h"

namespace trireme::convert::broken_weights_test {
namespace {

constexpr const char *kFirst = "model-00001-of-00002.safetensors",
                     *kSecond = "model-00002-of-00002.safetensors",
                     *kQuery = "model.layers.0.self_attn.q_proj.weight",
                     *kNorm = "model.norm.weight", *kHead = "lm_head.weight",
                     *kTable = "model.embed_tokens.weight";

Damage in_header(const std::function<void(Json&)>& change) { return header(kModel, change); }
Damage in_entry(const char* tensor, const char* field, const Json& value) {
  return in_header([=](Json& json) { json[tensor][field] = value; });
}

// Half of the tensors in each of two files, and an index.
Files sharded(const std::string& type) {
  Files files = published(type);
  Json map = Json::object(), halves[2] = {Json::object(), Json::object()};
  const Json header = header_of(files.at(kModel));
  for (const auto& [name, entry] : header.items()) {
    const std::size_t half = map.size() % 2;
    map[name] = half == 0 ? kFirst : kSecond;
    add_tensor(halves[half], name, entry["shape"]);
  }
  files.erase(kModel);
  files[kFirst] = safetensors(halves[0]);
  files[kSecond] = safetensors(halves[1]);
  files[kIndex] = Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump();
  return files;
}

TEST(BrokenWeights, Files) {
  const Broken cases[] = {
      {"no tensors", "llama", drop(kModel), {"no model.safetensors"}},
      {"a pickle alone",
       "llama",
       both(drop(kModel), put("pytorch_model.bin", "PK\x03\x04")),
       {"pytorch_model.bin", "pickle", "safetensors"}},
      {"pickles alone",
       "llama",
       both(drop(kModel), put("pytorch_model.bin.index.json", "{}")),
       {"pytorch_model.bin.index.json", "safetensors"}},
      {"a pickle by another name",
       "llama",
       put(kModel, "PK\x03\x04 and more of it"),
       {kModel, "zip"}},
      {"empty", "llama", put(kModel, ""), {kModel, "0 bytes"}},
      {"a pointer",
       "llama",
       put(kModel, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
       {kModel, "Git LFS pointer", "git lfs pull"}},
      {"an HTML page",
       "llama",
       put(kModel, "<!DOCTYPE html><html>no</html>"),
       {kModel, "not safetensors"}},
      {"cut", "llama", cut(kModel, 5), {kModel, "cut short"}},
      {"cut in the header",
       "llama",
       [](Files& files) { files[kModel].resize(40); },
       {kModel, "cut short"}},
      {"longer", "llama", [](Files& files) { files[kModel] += "xyz"; }, {kModel, "3 bytes follow"}},
      {"header beyond the file",
       "llama",
       [](Files& files) { files[kModel][5] = 1; },
       {kModel, "header length", "cut short or not safetensors"}},
      {"header is no JSON",
       "llama",
       [](Files& files) { files[kModel][9] = '\x01'; },
       {kModel, "header is not valid JSON"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenWeights, Headers) {
  const Broken cases[] = {
      {"overlap",
       "llama",
       in_entry(kNorm, "data_offsets", {0, 64}),
       {kModel, "begins at 0", "overlapping"}},
      {"backwards", "llama", in_entry(kNorm, "data_offsets", {64, 0}), {kModel, kNorm}},
      {"unknown type", "llama", in_entry(kNorm, "dtype", "I4"), {kModel, kNorm, "I4", "F32"}},
      {"eight bits",
       "qwen3",
       in_entry(kNorm, "dtype", "F8_E4M3"),
       {kModel, kNorm, "F8_E4M3", "convert it to F32, F16 or BF16"}},
      {"whole numbers", "llama", in_entry(kNorm, "dtype", "I32"), {kModel, kNorm, "I32"}},
      {"shape without bytes",
       "llama",
       in_entry(kNorm, "shape", {17}),
       {kModel, kNorm, "needs 68 bytes"}},
      {"impossible shape",
       "llama",
       in_entry(kNorm, "shape", {1LL << 40, 1LL << 40}),
       {kModel, kNorm, "2^56"}},
      {"negative shape", "llama", in_entry(kNorm, "shape", {-16}), {kModel, kNorm, "-16"}},
      {"no type",
       "llama",
       in_header([](Json& json) { json[kNorm].erase("dtype"); }),
       {kModel, kNorm, "dtype"}},
      {"field of its own", "llama", in_entry(kNorm, "scale", 1), {kModel, kNorm, "scale"}},
      {"name without end",
       "llama",
       in_header([](Json& json) { add_tensor(json, "a\nb", {1}); }),
       {kModel, "a\\x0ab"}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

Damage reshaped(const char* tensor, const std::vector<std::int64_t>& shape) {
  return in_header([=](Json& json) {
    json.erase(tensor);
    Json others = Json::object();
    for (const auto& [name, entry] : json.items()) add_tensor(others, name, entry["shape"]);
    add_tensor(others, tensor, shape);
    json = others;
  });
}
Damage without(const char* tensor) {
  return in_header([=](Json& json) {
    Json others = Json::object();
    for (const auto& [name, entry] : json.items())
      if (name != tensor) add_tensor(others, name, entry["shape"]);
    json = others;
  });
}
Damage with(const char* tensor, const std::vector<std::int64_t>& shape) {
  return in_header([=](Json& json) { add_tensor(json, tensor, shape); });
}

TEST(BrokenWeights, Tensors) {
  const Broken cases[] = {
      {"shape", "llama", reshaped(kQuery, {16, 8}), {kModel, kQuery, "[16, 8]", "[16, 16]"}},
      {"transposed",
       "gpt2",
       reshaped("transformer.h.0.attn.c_attn.weight", {48, 16}),
       {kModel, "transformer.h.0.attn.c_attn.weight", "[48, 16]", "[16, 48]"}},
      {"fused",
       "phi3",
       reshaped("model.layers.1.self_attn.qkv_proj.weight", {48, 16}),
       {kModel, "model.layers.1.self_attn.qkv_proj.weight", "[48, 16]", "[32, 16]"}},
      {"head by head",
       "gpt_neox",
       reshaped("gpt_neox.layers.0.attention.query_key_value.weight", {16, 48}),
       {kModel, "query_key_value.weight", "[16, 48]", "[48, 16]"}},
      {"vocabulary",
       "olmo2",
       reshaped(kTable, {100, 16}),
       {kModel, kTable, "[100, 16]", "[260, 16]"}},
      {"vector for a matrix",
       "llama",
       reshaped(kQuery, {256}),
       {kModel, kQuery, "[256]", "[16, 16]"}},
      {"missing", "llama", without(kQuery), {kModel, "no tensor", kQuery}},
      {"missing norm",
       "gemma3_text",
       without("model.layers.0.pre_feedforward_layernorm.weight"),
       {kModel, "no tensor", "pre_feedforward_layernorm"}},
      {"missing head", "llama", without(kHead), {kModel, kHead, "tie_word_embeddings"}},
      {"of a Mamba", "hnet", without("backbone.encoder.layers.0.mixer.A_log"), {kModel, "A_log"}},
      {"extra",
       "llama",
       with("model.layers.2.mlp.up_proj.weight", {4}),
       {kModel, "model.layers.2", "no place"}},
      {"extra bias",
       "mistral",
       with("model.layers.0.self_attn.q_proj.bias", {16}),
       {kModel, "q_proj.bias"}},
      {"head of a tied model",
       "qwen3",
       both(set(kConfig, "/tie_word_embeddings", true),
            [](Files& files) {
              std::string& bytes = files[kModel];
              const Json header = header_of(bytes);
              const auto end = header[kHead]["data_offsets"][1].get<std::size_t>();
              bytes[sizeof(std::uint64_t) + header.dump().size() + end - 1] = '\x40';
            }),
       {kConfig, "tie_word_embeddings", kHead, kTable}},
  };
  expect_refusals(cases, [](const std::string& type) { return published(type); });
}

TEST(BrokenWeights, Shards) {
  const auto in_index = [](const char* tensor, const Json& file) {
    return edit(kIndex, [=](Json& json) { json["weight_map"][tensor] = file; });
  };
  const Broken cases[] = {
      {"shard is missing", "llama", drop(kSecond), {kIndex, kSecond}},
      {"shard is cut", "llama", cut(kSecond, 9), {kSecond, "cut short"}},
      {"index is no JSON", "llama", put(kIndex, "{\"weight_map\""), {kIndex, "not valid JSON"}},
      {"index without map", "llama", put(kIndex, "{}"), {kIndex, "weight_map"}},
      {"index with an empty map",
       "llama",
       put(kIndex, R"({"weight_map": {}})"),
       {kIndex, "weight_map"}},
      {"index is a list", "llama", put(kIndex, "[]"), {kIndex, "an object"}},
      {"map of numbers", "llama", in_index(kNorm, 1), {kIndex, kNorm, "may not name a file"}},
      {"file elsewhere", "llama", in_index(kNorm, "../x"), {kIndex, kNorm, "../x"}},
      {"tensor is not in its shard",
       "llama",
       in_index("model.extra.weight", kFirst),
       {kIndex, "model.extra.weight", kFirst}},
      {"tensor is in the other shard", "llama", in_index(kHead, kSecond), {kIndex, kHead, kSecond}},
      {"tensor in two shards",
       "llama",
       [](Files& files) {
         Json json = header_of(files[kSecond]);
         add_tensor(json, kHead, {260, 16});
         files[kSecond] = safetensors(json);
       },
       {kHead, kFirst, kSecond}},
  };
  expect_refusals(cases, sharded);
}

}  // namespace
}  // namespace trireme::convert::broken_weights_test
