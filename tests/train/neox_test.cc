// GPT-NeoX: against a few lines of plain operators on tensors as Hugging Face names and orders them; any layout trains the
// same model, in fp64 to 1e-12 and data-parallel to the bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/formats/scratch.h"
#include "tests/harness/model_directory.h"
#include "tests/harness/small_jobs.h"
#include "trireme/model/blocks/build.h"

namespace trireme::train::neox_test {
namespace {

using harness::expect_parity;
using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

// ---- the function -------------------------------------------------------------------------------------

constexpr std::int64_t kLayers = 2, kHidden = 32, kHeads = 4, kWidth = 8, kInner = 48, kVocab = 61,
                       kTokens = 12, kTurned = 4;  // channels of a head

// Tensors of a model directory, by name.
using Tensors = harness::NamedTensors;

Tensors drawn() {
  Tensors all;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(all.size());
    all[name] = at::empty(shape, at::kFloat).normal_(0, 0.3, generator);
  };
  const auto both = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", in == 0 ? std::vector{out} : std::vector{out, in});
    add(name + ".bias", {out});
  };
  add("gpt_neox.embed_in.weight", {kVocab, kHidden});
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("gpt_neox.layers.{}.", layer);
    both(name + "input_layernorm", kHidden, 0);
    both(name + "post_attention_layernorm", kHidden, 0);
    both(name + "attention.query_key_value", 3 * kHidden, kHidden);
    both(name + "attention.dense", kHidden, kHidden);
    both(name + "mlp.dense_h_to_4h", kInner, kHidden);
    both(name + "mlp.dense_4h_to_h", kHidden, kInner);
  }
  both("gpt_neox.final_layer_norm", kHidden, 0);
  add("embed_out.weight", {kVocab, kHidden});
  return all;
}

void write(const Tensors& tensors, bool parallel, const char* activation, const Path& directory) {
  harness::write_model(
      tensors,
      fmt::format(R"({{"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"],
      "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "intermediate_size": {},
      "vocab_size": {}, "max_position_embeddings": {}, "rotary_pct": {}, "rotary_emb_base": 1000,
      "layer_norm_eps": 0.001, "hidden_act": "{}", "use_parallel_residual": {},
      "tie_word_embeddings": false}})",
                  kHidden, kLayers, kHeads, kInner, kVocab, kTokens,
                  static_cast<double>(kTurned) / kWidth, activation, parallel),
      directory);
}

// [heads, tokens, width]: of the first channels i and i + half of them.
at::Tensor turned(const at::Tensor& x) {
  const std::int64_t half = kTurned / 2;
  const at::Tensor frequencies =
      at::pow(1000, at::arange(half, at::kDouble) * -2.0 / static_cast<double>(kTurned));
  const at::Tensor angles = at::arange(kTokens, at::kDouble).unsqueeze(1) * frequencies;
  const at::Tensor low = x.narrow(2, 0, half), high = x.narrow(2, half, half);
  return at::cat({low * angles.cos() - high * angles.sin(),
                  high * angles.cos() + low * angles.sin(), x.narrow(2, kTurned, kWidth - kTurned)},
                 2);
}

// Summed cross-entropy of one sequence, from the tensors of the directory.
double loss_of(const Tensors& tensors, bool parallel, const char* activation,
               const at::Tensor& tokens, const at::Tensor& targets) {
  const auto p = [&](const std::string& name) { return tensors.at(name).to(at::kDouble); };
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    return at::matmul(x, p(name + ".weight").t()) + p(name + ".bias");
  };
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    return at::layer_norm(x, {kHidden}, p(name + ".weight"), p(name + ".bias"), 0.001);
  };
  const auto attention = [&](const at::Tensor& x, const std::string& name) {
    const std::vector<at::Tensor> qkv = linear(x, name + "query_key_value")
                                            .view({kTokens, kHeads, 3 * kWidth})
                                            .transpose(0, 1)
                                            .chunk(3, 2);
    const at::Tensor hidden = at::ones({kTokens, kTokens}, at::kBool).triu(1);
    const at::Tensor scores = at::matmul(turned(qkv[0]), turned(qkv[1]).transpose(1, 2)) /
                              std::sqrt(static_cast<double>(kWidth));
    const at::Tensor weights =
        at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), 2);
    return linear(at::matmul(weights, qkv[2]).transpose(0, 1).reshape({kTokens, kHidden}),
                  name + "dense");
  };
  const auto feed_forward = [&](const at::Tensor& x, const std::string& name) {
    return linear(at::gelu(linear(x, name + "dense_h_to_4h"), activation), name + "dense_4h_to_h");
  };
  at::Tensor x = p("gpt_neox.embed_in.weight").index_select(0, tokens);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("gpt_neox.layers.{}.", layer);
    const at::Tensor attended = attention(norm(x, name + "input_layernorm"), name + "attention.");
    const at::Tensor read = parallel ? x : x + attended;
    x = x + attended + feed_forward(norm(read, name + "post_attention_layernorm"), name + "mlp.");
  }
  const at::Tensor logits =
      at::matmul(norm(x, "gpt_neox.final_layer_norm"), p("embed_out.weight").t());
  return -at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).sum().item<double>();
}

TEST(Neox, ComputesWhatItsFilesDescribe) {
  const formats::Scratch scratch;
  const Tensors tensors = drawn();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const auto options = at::TensorOptions().dtype(at::kLong);
  const at::Tensor tokens = at::randint(kVocab, {kTokens}, generator, options),
                   targets = at::randint(kVocab, {kTokens}, generator, options);
  for (const bool parallel : {true, false})
    for (const auto& [activation, operation] :
         {std::pair{"gelu", "none"}, std::pair{"gelu_new", "tanh"}}) {
      const Path directory = scratch / fmt::format("{}-{}", activation, parallel);
      write(tensors, parallel, activation, directory);
      const convert::HuggingFaceWeights weights(directory);
      config::Job job = weights.job();
      job.precision.compute = DType::kF64;
      harness::BoundModel model(blocks::build(job), at::kDouble);
      harness::read_weights(weights, model);
      const at::NoGradGuard no_grad;
      const double loss = model.loss(tokens.unsqueeze(0), targets.unsqueeze(0)).item<double>();
      EXPECT_NEAR(loss, loss_of(tensors, parallel, operation, tokens, targets), 1e-10)
          << activation << " " << parallel;
    }
}

// ---- layouts --------------------------------------------------------------------------------------------

config::Job job_of(DType compute, const Sets& sets) {
  config::Job job;
  job.model = {.family = config::Family::kNeox,
               .layers = 2,
               .hidden = 32,
               .heads = 4,
               .ffn = 48,
               .vocab = 64,
               .seq_len = 16};
  job.neox.rotary_fraction = 0.5;
  job.precision.compute = compute;
  job.run.global_batch = 4;
  job.parallel.dp_shard = 1;
  // Gradients of keys' biases are zero but for roundings, of which AdamW would make steps with a smaller epsilon.
  job.optim.eps = 1e-6;
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

const Sets kPlain = {}, kSerial = {"neox.parallel_residual=false", "neox.activation=gelu_tanh"};
const Sets kLora = {"lora.rank=3", "lora.dropout=0.1", "lora.targets=query_value"};
const Sets kFrozen = {"model.frozen=embed,block.0", "model.tied=false"};
const Sets kDocuments = {"data.documents=true"};

const std::vector<NamedLayout> kLayouts = {
    {"tp 2", {"parallel.tp=2"}},
    {"tp 3", {"parallel.tp=3"}},
    {"tp 4 without shared rows", {"parallel.tp=4", "parallel.sequence_parallel=false"}},
    {"tp 2, ZeRO-3", {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"}},
    {"tp 2, recompute",
     {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=2", "recompute.policy=full"}},
    {"parts computed again", {"recompute.policy=selective", "recompute.parts=norms,attention,mlp"}},
    {"cp 2", {"parallel.cp=2"}},
    {"cp 4 by all_gather", {"parallel.cp=4", "parallel.context=all_gather"}},
    {"Ulysses 2, ZeRO-3", {"parallel.cp=2", "parallel.context=ulysses", "parallel.zero=3"}},
    {"tp 2, cp 2", {"parallel.tp=2", "parallel.cp=2"}},
    {"pp 2, tp 2", {"parallel.pp=2", "parallel.tp=2"}},
    {"pp 2, weights later", {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}};

TEST(NeoxParity, EveryLayoutTrainsTheSameModel) {
  for (const Sets& family : {kPlain, kSerial, kLora, kFrozen, kDocuments}) {
    SCOPED_TRACE(harness::print(family));
    expect_parity([&](const Sets& layout) { return job_of(DType::kF64, family + layout); },
                  kLayouts);
  }
}

TEST(NeoxParity, LayoutsWithoutTensorRanksHaveTheBitsOfOneRank) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    // Stages add the two gradients of a tied embedding in another order.
    const Sets untied = {"model.tied=false"};
    const harness::JobTrace one = harness::run_job(job_of(compute, untied), 2);
    for (const Sets& layout :
         {Sets{"parallel.dp_shard=4"}, Sets{"parallel.dp_shard=2", "parallel.zero=3"},
          Sets{"parallel.pp=2"}, Sets{"recompute.policy=selective"}}) {
      SCOPED_TRACE(harness::print(layout));
      harness::expect_same(one, harness::run_job(job_of(compute, untied + layout), 2));
    }
  }
}

TEST(NeoxParity, WhatIsItsOwnChangesTheFunction) {
  const harness::JobTrace plain = harness::run_job(job_of(DType::kF64, {}), 1);
  for (const char* set : {"neox.parallel_residual=false", "neox.activation=gelu_tanh",
                          "neox.rotary_fraction=1", "model.rope_theta=50"})
    EXPECT_NE(plain.losses, harness::run_job(job_of(DType::kF64, {set}), 1).losses) << set;
}

}  // namespace
}  // namespace trireme::train::neox_test
