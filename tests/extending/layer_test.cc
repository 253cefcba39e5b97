// A layer that tensor-parallel ranks share, written by hand. docs/extending.md quotes it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/extending/accounts.h"
#include "tests/extending/exchanges.h"
#include "tests/harness/small_jobs.h"
#include "trireme/families/llama/blocks.h"
#include "trireme/model/families/decoders/chain.h"
#include "trireme/model/layers/decoder_params.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"

namespace trireme::extending::layer_test {
namespace {

using harness::Sets;
using harness::operator+;
using model::Cuts;
using plan::Exchange;

constexpr std::int64_t kWidth = 12;

// [block]
// x + down(gelu(up(x))), the adapter of Houlsby et al. (2019), whose features tp ranks share.
class Bottleneck : public blocks::BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const auto& gradients = context.weight_gradients;
    const ops::Operand features = ops::column_linear(inputs[0], param(0), {}, tp(), gradients);
    return {inputs[0] + ops::gelu_linear(features, param(1), param(2), tp(), gradients)};
  }
};
// [end]

// [node]
// One activation opens the region and one closes it: in forward as it is, in backward as a gradient.
std::vector<plan::NodeExchange> region(const model::Sizes& sizes, const model::PerRank& rank) {
  if (rank.tp == 1) return {};
  const auto over_tp = [&](Exchange kind, std::int64_t rows, int weight) {
    return plan::NodeExchange{.kind = kind,
                              .axes = mesh::Axis::kTp,
                              .bytes = rows * sizes.d * sizes.element,
                              .forward = 1,
                              .backward = 1,
                              .weight = weight};
  };
  if (!rank.sequence) return {over_tp(Exchange::kAllReduce, sizes.tokens, 0)};
  return {over_tp(Exchange::kAllGather, sizes.rows * rank.tp, 1),
          over_tp(Exchange::kReduceScatter, sizes.rows * rank.tp, 0)};
}

plan::ValueId add_bottleneck(model::Graph& graph, const config::Job& job, std::int64_t number,
                             plan::ValueId x) {
  const model::PerRank& rank = graph.rank();
  const model::Sizes sizes(job.model, rank);
  const model::Initial init(job.model);
  const std::string name = fmt::format("bottleneck.{}", number);
  const model::CutSegment features{.granules = kWidth};  // a feature is never cut
  const plan::UnitId unit = graph.unit(
      {.name = name,
       .params = {
           model::matrix(name + ".up.weight", kWidth, sizes.d, init.matrix, Cuts::rows({features})),
           model::matrix(name + ".down.weight", sizes.d, kWidth, init.residual,
                         Cuts::columns({features})),
           model::bias(name + ".down.bias", sizes.d, Cuts(job.model, rank).whole)}});
  const std::int64_t here = (kWidth + rank.tp - 1) / rank.tp;  // on the rank with most
  const std::int64_t inner = sizes.tokens * here * sizes.element;
  const std::int64_t row = sizes.rows * sizes.d * sizes.element;
  plan::Value sum = graph.spec().program.values[x];
  sum.name = name + ".x";
  return graph.node(
      {.name = name,
       .reads = {x},
       // The sum, or gelu's result; in backward the sum of gradients, or gelu's result and gradient.
       .work = {.forward = std::max(row, inner),
                .passing = std::max(row, inner) + inner,
                .backward = std::max(row - inner, 2 * inner - row)},
       .exchanges = region(sizes, rank)},
      {.saved_bytes = inner, .flops = 4.0 * static_cast<double>(sizes.tokens * sizes.d * here)},
      {unit}, {std::move(sum)})[0];
}
// [end]

// Bottlenecks between an embedding and a head.
model::ModelSpec spec_of(const config::Job& job, const model::PerRank& rank,
                         const model::Training& training) {
  const model::Sizes sizes(job.model, rank);
  model::Graph graph("bottlenecks", rank, training);
  model::Chain chain(graph, job.model, sizes);
  chain.embed({model::token_table("embed.weight", job.model)}, 0);
  for (std::int64_t layer = 0; layer < job.model.layers; ++layer)
    chain.then(add_bottleneck(graph, job, layer, chain.written()));
  const model::Cut& whole = Cuts(job.model, rank).whole;
  chain.head({model::gain("norm.weight", job.model.hidden, whole),
              model::token_table("head.weight", job.model)},
             1);
  model::ModelSpec spec = std::move(graph).build();
  spec.sample_tokens = job.model.seq_len;
  return spec;
}

blocks::Blocks blocks_of(const config::Job& job, const model::ModelSpec& spec,
                         const blocks::Ranks& ranks) {
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  blocks::Blocks blocks;
  blocks.push_back(std::make_unique<blocks::LlamaEmbed>(ranks));
  for (std::size_t node = 1; node + 1 < nodes.size(); ++node)
    blocks.push_back(std::make_unique<Bottleneck>(ranks));
  blocks.push_back(std::make_unique<blocks::LlamaHead>(job.model, nodes.back(), ranks));
  return blocks;
}

constexpr blocks::OwnModel kBottlenecks{spec_of, blocks_of};

config::Job job_of(DType compute, const Sets& sets) {
  return harness::small_llama(compute, Sets{"model.tied=false"} + sets);
}

TEST(OwnLayer, TrainsTheSameModelOnTensorRanks) {
  constexpr int kSteps = 2;
  const harness::JobTrace one =
      harness::run_job(job_of(DType::kF64, {}), kSteps, built(kBottlenecks));
  EXPECT_GT(one.grad_norms[0], 0);
  for (const Sets& layout :
       {Sets{"parallel.tp=2"}, Sets{"parallel.tp=4", "parallel.sequence_parallel=false"},
        Sets{"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"},
        Sets{"parallel.tp=2", "recompute.policy=full"},
        Sets{"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}) {
    SCOPED_TRACE(harness::print(layout));
    EXPECT_LT(harness::distance(
                  one, harness::run_job(job_of(DType::kF64, layout), kSteps, built(kBottlenecks))),
              1e-12);
  }
}

TEST(OwnLayer, KeepsAndHoldsWhatItsNodeSays) {
  expect_kept(job_of(DType::kF32, {}), kBottlenecks);
  for (const char* hidden : {"model.hidden=64", "model.hidden=8"})
    expect_held(job_of(DType::kF32, {"run.micro_batch=4", hidden}), kBottlenecks);
}

TEST(OwnLayer, ExchangesWhatItsNodeSays) {
  for (const Sets& layout :
       {Sets{"parallel.tp=2"}, Sets{"parallel.tp=4", "parallel.sequence_parallel=false"}})
    expect_exchanged(job_of(DType::kF32, layout), kBottlenecks);
}

}  // namespace
}  // namespace trireme::extending::layer_test
