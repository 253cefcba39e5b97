// A small random Qwen3-VL in files with their names: what its tower gives the decoder, in fp64, against the operators of
// its description.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/formats/scratch.h"
#include "tests/harness/bound_model.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/families/describe.h"

namespace trireme::train::qwen3_vl_files_test {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr std::int64_t kWidth = 16, kHeads = 2, kPatch = 2, kSide = 4, kTable = 5;
constexpr double kEps = 1e-6;

Json config() {
  return {
      {"architectures", {"Qwen3VLForConditionalGeneration"}},
      {"model_type", "qwen3_vl"},
      {"image_token_id", 256},
      {"vision_config",
       {{"depth", 2},
        {"hidden_size", kWidth},
        {"intermediate_size", 24},
        {"num_heads", kHeads},
        {"patch_size", kPatch},
        {"num_position_embeddings", kTable * kTable},
        {"out_hidden_size", 12},
        {"deepstack_visual_indexes", {0}}}},
      {"text_config",
       {{"model_type", "qwen3_vl_text"},
        {"eos_token_id", 257},
        {"head_dim", 8},
        {"hidden_size", 12},
        {"intermediate_size", 20},
        {"max_position_embeddings", 32},
        {"num_attention_heads", 2},
        {"num_key_value_heads", 1},
        {"num_hidden_layers", 1},
        {"vocab_size", 258},
        {"tie_word_embeddings", true},
        {"rope_scaling",
         {{"rope_type", "default"}, {"mrope_interleaved", true}, {"mrope_section", {2, 1, 1}}}}}}};
}

// Writes the directory; its tensors in fp64.
Tensors write_directory(const Path& directory) {
  make_directories(directory);
  write_file_synced(directory / "config.json", config().dump());
  const std::int64_t area = kSide * kPatch * kSide * kPatch;
  write_file_synced(
      directory / "preprocessor_config.json",
      Json{{"size", {{"shortest_edge", area}, {"longest_edge", area}}}, {"patch_size", kPatch}}
          .dump());
  const config::Job job =
      config::resolve(convert::job_of_config(config().dump(), "config.json"), 1, {});
  std::mt19937 random(5);
  Tensors all;
  std::vector<at::Tensor> held;
  std::vector<formats::Tensor> files;
  for (const formats::TensorInfo& info : convert::hugging_face_tensors(job, model::describe(job))) {
    at::Tensor values = at::empty(info.shape, at::kFloat);
    const bool gain = info.name.ends_with("norm.weight") || info.name.ends_with("norm1.weight") ||
                      info.name.ends_with("norm2.weight");
    for (std::int64_t i = 0; i < values.numel(); ++i)
      values.data_ptr<float>()[i] =
          (gain ? 1.0F : 0.0F) + static_cast<float>(random() % 1000) / 1000.0F - 0.5F;
    held.push_back(values);
    all[info.name] = values.to(at::kDouble);
    files.push_back({.name = info.name, .dtype = DType::kF32, .shape = info.shape});
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].bytes = {static_cast<const std::byte*>(held[i].data_ptr()), held[i].nbytes()};
  harness::write_safetensors(directory / "model.safetensors", files, {});
  return all;
}

// The tower in the words of its description. A still is doubled in time; all patches of an image see each other.
class Described {
 public:
  explicit Described(Tensors tensors) : tensors_(std::move(tensors)) {}

  // What the decoder's first block adds, then the image's tokens.
  std::vector<at::Tensor> operator()(const at::Tensor& pixels) const {
    at::Tensor x = embedded(pixels);
    x = block(x, "blocks.0.");
    const at::Tensor deep =
        merged(normed(squares(x), "deepstack_merger_list.0.norm"), "deepstack_merger_list.0.");
    x = block(x, "blocks.1.");
    return {deep, merged(squares(normed(x, "merger.norm")), "merger.")};
  }

 private:
  const at::Tensor& of(const std::string& name) const {
    return tensors_.at("model.visual." + name);
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return at::matmul(x, of(name + ".weight").t()) + of(name + ".bias");
  }
  at::Tensor normed(const at::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {x.size(-1)}, of(name + ".weight"), of(name + ".bias"), kEps);
  }
  at::Tensor embedded(const at::Tensor& pixels) const {
    const at::Tensor twice = at::stack({pixels, pixels}, 1).unsqueeze(0);  // [1, 3, 2, h, w]
    const at::Tensor patches = at::conv3d(twice, of("patch_embed.proj.weight"),
                                          of("patch_embed.proj.bias"), {2, kPatch, kPatch});
    const at::Tensor table = of("pos_embed.weight").view({kTable, kTable, kWidth});
    return (patches.view({kWidth, kSide * kSide}).t() +
            at::upsample_bilinear2d(table.permute({2, 0, 1}).unsqueeze(0), {kSide, kSide}, true)
                .view({kWidth, kSide * kSide})
                .t())
        .contiguous();
  }
  // Channel i turns with i + width / 2, first by the row, then by the column.
  static at::Tensor turned(const at::Tensor& x) {  // [heads, tokens, width]
    const std::int64_t width = x.size(2), quarter = width / 4;
    const at::Tensor angles = at::empty({kSide * kSide, 2 * quarter}, at::kDouble);
    for (std::int64_t token = 0; token < kSide * kSide; ++token)
      for (std::int64_t i = 0; i < quarter; ++i) {
        const double frequency =
            std::pow(1e4, -static_cast<double>(i) / static_cast<double>(quarter));
        double* row = angles.data_ptr<double>() + token * 2 * quarter;
        row[i] = static_cast<double>(token / kSide) * frequency;
        row[quarter + i] = static_cast<double>(token % kSide) * frequency;
      }
    const at::Tensor both = at::cat({angles, angles}, 1);
    const at::Tensor half =
        at::cat({-x.narrow(2, width / 2, width / 2), x.narrow(2, 0, width / 2)}, 2);
    return x * both.cos() + half * both.sin();
  }
  at::Tensor attended(const at::Tensor& x, const std::string& name) const {
    const at::Tensor qkv =
        linear(x, name + "qkv").view({x.size(0), 3, kHeads, kWidth / kHeads}).permute({1, 2, 0, 3});
    const at::Tensor scores = at::matmul(turned(qkv[0]), turned(qkv[1]).transpose(1, 2)) /
                              std::sqrt(static_cast<double>(kWidth / kHeads));
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), qkv[2]);
    return linear(mixed.permute({1, 0, 2}).reshape({x.size(0), kWidth}), name + "proj");
  }
  at::Tensor block(const at::Tensor& x, const std::string& name) const {
    const at::Tensor y = x + attended(normed(x, name + "norm1"), name + "attn.");
    return y + linear(at::gelu(linear(normed(y, name + "norm2"), name + "mlp.linear_fc1"), "tanh"),
                      name + "mlp.linear_fc2");
  }
  static at::Tensor squares(const at::Tensor& x) {
    std::vector<at::Tensor> rows;
    for (std::int64_t row = 0; row < kSide; row += 2)
      for (std::int64_t column = 0; column < kSide; column += 2) {
        const std::int64_t first = row * kSide + column;
        rows.push_back(at::cat({x[first], x[first + 1], x[first + kSide], x[first + kSide + 1]}));
      }
    return at::stack(rows);
  }
  at::Tensor merged(const at::Tensor& x, const std::string& name) const {
    return linear(at::gelu(linear(x, name + "linear_fc1")), name + "linear_fc2");
  }

  Tensors tensors_;
};

// Of the nodes of tower and projectors, in the order of the program.
std::vector<at::Tensor> projected(harness::BoundModel& model, const at::Tensor& tiles) {
  const plan::Program& program = model.model().spec.program;
  std::vector<at::Tensor> values(program.values.size()), outputs;
  for (std::size_t id = 0; id < values.size(); ++id)
    if (program.values[id].name == "tiles") values[id] = tiles;
  for (std::size_t n = 0; n < program.nodes.size() && program.nodes[n].name != "embed"; ++n) {
    std::vector<at::Tensor> reads;
    for (const plan::ValueId id : program.nodes[n].reads) reads.push_back(values[id]);
    values[program.nodes[n].writes[0]] = model.block(n).forward(reads, {})[0];
    if (!program.nodes[n].name.starts_with("vision."))
      outputs.push_back(values[program.nodes[n].writes[0]]);
  }
  return outputs;
}

TEST(Qwen3VlFiles, TheTowerIsThatOfItsDescription) {
  const at::NoGradGuard no_grad;
  const formats::Scratch scratch;
  const Described described(write_directory(scratch / "hf"));
  const convert::HuggingFaceWeights weights(scratch / "hf");
  config::Job job = weights.job();
  EXPECT_EQ(job.vision.image, kSide * kPatch);
  job.precision.compute = DType::kF64;
  job.run.micro_batch = job.run.global_batch = 2;
  harness::BoundModel model(blocks::build(job), at::kDouble);
  std::size_t next = 0;
  for (const model::UnitSpec& unit : weights.model().units)
    for (const model::ParamSpec& param : unit.params) {
      const auto& [name, values] = model.params()[next++];
      ASSERT_EQ(name, param.name);
      std::vector<std::byte> bytes = weights.read(param);
      at::Tensor(values).copy_(at::from_blob(bytes.data(), values.sizes(), at::kFloat));
    }
  const at::Tensor tiles = at::rand({2, 3, kSide * kPatch, kSide * kPatch}, at::kDouble) * 2 - 1;
  const std::vector<at::Tensor> given = projected(model, tiles);
  ASSERT_EQ(given.size(), 2u);
  for (std::int64_t tile = 0; tile < 2; ++tile) {
    const std::vector<at::Tensor> wanted = described(tiles[tile]);
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(given[i][tile].sizes(), wanted[i].sizes());
      EXPECT_LT((given[i][tile] - wanted[i]).abs().max().item<double>(), 1e-10)
          << (i == 0 ? "DeepStack" : "merger");
    }
  }
}

}  // namespace
}  // namespace trireme::train::qwen3_vl_files_test
