// A model family: the parallel block of PaLM as a list of layers. docs/extending.md quotes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/extending/accounts.h"
#include "tests/extending/exchanges.h"
#include "tests/extending/runs.h"
#include "tests/harness/small_jobs.h"
#include "trireme/families/llama/blocks.h"
#include "trireme/model/blocks/decoder.h"
#include "trireme/model/blocks/mrope.h"
#include "trireme/model/families/decoders/chain.h"
#include "trireme/model/layers/decoder_params.h"

namespace trireme::extending::family_test {
namespace {

using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

// [family]
// PaLM's block (Chowdhery et al. 2022) with RMS norms: attention and feed-forward layers read one norm of x, and x
// plus both is the result.
model::BlockLayers palm_block(const config::Job& job, const model::PerRank& rank,
                              std::int64_t layer) {
  constexpr auto kNoBias = model::LayerList::Bias::kNone;
  model::LayerList list(job.model, rank, fmt::format("layers.{}.", layer));
  const auto [x, normed] = list.rms_norm("norm", 0);
  const std::vector<int> qkv =
      list.heads(normed, {"attention.q", "attention.k", "attention.v"}, kNoBias);
  const int attended = list.attention_output("attention.out", list.attention(qkv, {}), kNoBias);
  const std::vector<int> wide = list.widen_gated({"mlp.gate", "mlp.up"}, normed);
  const int fed = list.narrow_gated("mlp.down", wide, config::GateActivation::kSilu, 1);
  list.add(list.add(x, attended), fed);
  return std::move(list).finish();
}

model::ModelSpec palm_spec(const config::Job& job, const model::PerRank& rank,
                           const model::Training& training) {
  const model::Sizes sizes(job.model, rank);
  model::Graph graph("palm", rank, training);
  model::Chain chain(graph, job.model, sizes);
  chain.embed({model::token_table("embed.weight", job.model)}, 0);
  for (std::int64_t layer = 0; layer < job.model.layers; ++layer)
    chain.block(palm_block(job, rank, layer));
  const model::Cut& whole = model::Cuts(job.model, rank).whole;
  std::vector<model::ParamSpec> head = {model::gain("norm.weight", job.model.hidden, whole)};
  if (!job.model.tied) head.push_back(model::token_table("head.weight", job.model));
  chain.head(std::move(head), 1);
  model::ModelSpec spec = std::move(graph).build();
  spec.sample_tokens = job.model.seq_len;
  return spec;
}

blocks::Blocks palm_blocks(const config::Job& job, const model::ModelSpec& spec,
                           const blocks::Ranks& ranks) {
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  const ops::RotaryTable rotary = blocks::decoder_rotary(job, ranks->device());
  blocks::Blocks blocks;
  blocks.push_back(std::make_unique<blocks::LlamaEmbed>(ranks));
  for (std::size_t node = 1; node + 1 < nodes.size(); ++node)
    blocks.push_back(std::make_unique<blocks::DecoderBlock>(job, spec.layers[node], nodes[node],
                                                            rotary, spec.adapted[node], ranks));
  blocks.push_back(std::make_unique<blocks::LlamaHead>(job.model, nodes.back(), ranks));
  return blocks;
}

constexpr blocks::OwnModel kPalm{palm_spec, palm_blocks};
// [end]

const Sets kUntied = {"model.tied=false"};

config::Job job_of(const Sets& sets) { return harness::small_llama(DType::kF64, sets); }

const std::vector<NamedLayout> kLayouts = harness::named(
    {{"parallel.dp_shard=4", "parallel.zero=3"},
     {"parallel.tp=2"},
     {"parallel.tp=4", "parallel.sequence_parallel=false"},
     {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=2", "recompute.policy=full"},
     {"recompute.policy=selective", "recompute.parts=norms,attention,mlp"},
     {"parallel.cp=2"},
     {"parallel.cp=2", "parallel.context=ulysses", "parallel.zero=3"},
     {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}});

TEST(OwnFamily, TrainsTheSameModelUnderEveryLayout) {
  constexpr int kSteps = 2;
  for (const Sets& own :
       {Sets{}, Sets{"lora.rank=3", "lora.targets=query_value"},
        Sets{"model.frozen=embed,block.0", "model.tied=false"}, Sets{"data.documents=true"}}) {
    const harness::JobTrace one = harness::run_job(job_of(own), kSteps, built(kPalm));
    EXPECT_GT(one.grad_norms[0], 0);
    for (const NamedLayout& layout : kLayouts) {
      SCOPED_TRACE(harness::print(own) + layout.name);
      const harness::JobTrace other =
          harness::run_job(job_of(own + layout.sets), kSteps, built(kPalm));
      EXPECT_LT(harness::distance(one, other), 1e-12);
    }
  }
}

TEST(OwnFamily, HasTheBitsOfOneRankWithoutTensorRanks) {
  const auto run = [](const Sets& layout) {
    return harness::run_job(harness::small_llama(DType::kBF16, kUntied + layout), 2, built(kPalm));
  };
  const harness::JobTrace one = run({});
  for (const Sets& layout : {Sets{"parallel.dp_shard=4", "parallel.zero=3"},
                             Sets{"parallel.pp=2", "parallel.dp_shard=2"}}) {
    SCOPED_TRACE(harness::print(layout));
    harness::expect_same(one, run(layout));
  }
}

TEST(OwnFamily, KeepsAndExchangesWhatItsListSays) {
  for (const Sets& layout : {Sets{}, Sets{"recompute.policy=selective", "recompute.parts=mlp"},
                             Sets{"recompute.policy=selective", "recompute.parts=norms"}}) {
    SCOPED_TRACE(harness::print(layout));
    expect_kept(harness::small_llama(DType::kF32, layout), kPalm);
  }
  for (const Sets& layout :
       {Sets{"parallel.tp=2"}, Sets{"parallel.tp=2", "parallel.sequence_parallel=false"},
        Sets{"parallel.cp=2"}}) {
    SCOPED_TRACE(harness::print(layout));
    expect_exchanged(harness::small_llama(DType::kF32, layout), kPalm);
  }
}

TEST(OwnFamily, TheTrainerSavesItAndResumesUnderAnotherLayout) {
  const Sets words = {"data.source=words", "data.samples=16",    "data.validation=4",
                      "model.vocab=256",   "checkpoint.every=2", "run.steps=4"};
  OwnRun whole{.job = job_of(words), .model = built(kPalm)};
  whole.train();
  OwnRun resumed{.job = job_of(words + Sets{"parallel.tp=2"}), .model = built(kPalm)};
  resumed.resume = whole.checkpoint(2);
  resumed.train();
  ASSERT_EQ(resumed.losses.size(), 2u);
  for (const auto& [step, loss] : resumed.losses) EXPECT_NEAR(loss, whole.losses[step], 1e-10);
  // The family whose keys it uses has other parameters.
  OwnRun other{.job = job_of(words)};
  other.resume = whole.checkpoint(2);
  EXPECT_THAT(formats::refusal([&] { other.train(); }),
              testing::HasSubstr("is not the model's unit embed"));
}

}  // namespace
}  // namespace trireme::extending::family_test
