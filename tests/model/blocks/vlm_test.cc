// Blocks of vision-language models against closed forms: what queries see, where rows go, how positions turn.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/harness/bound_model.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vit/blocks_tower.h"
#include "trireme/families/vlm/blocks.h"
#include "trireme/families/vlm/blocks_projector.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/blocks/generate.h"
#include "trireme/model/families/describe.h"

namespace trireme::blocks::vlm_test {
namespace {

using Tensors = std::vector<at::Tensor>;

config::Job job_of(const std::vector<std::string>& sets) {
  config::Job job;
  for (const char* set :
       {"model.family=vlm", "data.source=scenes", "precision.compute=fp64", "vision.hidden=24",
        "vision.heads=2", "vision.layers=2", "model.hidden=32", "model.heads=2", "model.layers=1",
        "model.ffn=48", "model.seq_len=128"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

// Parameters of a node, drawn from N(0, 0.3^2) but for gains of about 1.
Tensors params_of(const model::ModelSpec& spec, const std::string& node) {
  for (std::size_t n = 0; n < spec.program.nodes.size(); ++n) {
    if (spec.program.nodes[n].name != node) continue;
    Tensors params;
    for (const model::ParamRef& ref : spec.node_params[n]) {
      const model::ParamSpec& param = spec.units[ref.unit].params[ref.param];
      at::Tensor values = at::randn(param.shape, at::kDouble) * 0.3;
      if (param.init.kind == model::Init::Kind::kOnes) values = 1 + values;
      params.push_back(values);
    }
    return params;
  }
  ADD_FAILURE() << node;
  return {};
}

TEST(Projector, APerceiverWhoseAttentionWritesNothingDoesNotSee) {
  const config::Job job = job_of({"projector.kind=perceiver", "projector.queries=1",
                                  "projector.layers=2", "projector.heads=2"});
  const model::ModelSpec spec = model::describe(job);
  Tensors params = params_of(spec, "projector");
  const auto zero = [&](std::string_view ending) {
    std::size_t i = 0, found = 0;
    for (const model::UnitSpec& unit : spec.units)
      if (unit.name == "projector")
        for (const model::ParamSpec& param : unit.params) {
          if (param.name.ends_with(ending)) found += 1, params[i].zero_();
          ++i;
        }
    EXPECT_EQ(found, 2u) << ending;
  };
  Projector projector(job, false, std::make_shared<Across>(job.model));
  projector.bind(params);
  const at::Tensor a = at::randn({3, 16, 24}, at::kDouble), b = at::randn({3, 16, 24}, at::kDouble);
  const at::Tensor seen = projector.forward({a}, {})[0];
  EXPECT_EQ(seen.sizes(), at::IntArrayRef({3, 1, 32}));
  EXPECT_FALSE(at::equal(seen, projector.forward({b}, {})[0]));
  zero("proj.weight");
  EXPECT_TRUE(at::equal(projector.forward({a}, {})[0], projector.forward({b}, {})[0]));
  // Without the feed-forward layers either, it is the norm of the latent.
  zero("fc2.weight");
  const std::size_t n = params.size();
  const at::Tensor latent = at::layer_norm(params[0], {24}, params[n - 4], params[n - 3], 1e-6);
  const at::Tensor wanted = at::matmul(latent, params[n - 2].t()) + params[n - 1];
  EXPECT_LT((projector.forward({a}, {})[0] - wanted).abs().max().item<double>(), 1e-12);
}

TEST(Projector, QueriesOfAQFormerSeeTheirOwnTileAlone) {
  const config::Job job =
      job_of({"projector.kind=qformer", "projector.queries=3", "projector.layers=3",
              "projector.heads=2", "projector.hidden=16"});
  Projector projector(job, false, std::make_shared<Across>(job.model));
  projector.bind(params_of(model::describe(job), "projector"));
  const at::Tensor tiles = at::randn({4, 16, 24}, at::kDouble);
  const at::Tensor all = projector.forward({tiles}, {})[0];
  EXPECT_EQ(all.sizes(), at::IntArrayRef({4, 3, 32}));
  const at::Tensor one = projector.forward({tiles.narrow(0, 2, 1)}, {})[0];
  EXPECT_LT((all[2] - one[0]).abs().max().item<double>(), 1e-12);
  EXPECT_GT((all[1] - one[0]).abs().max().item<double>(), 1e-3);
}

// Of all pairs of rows of x [n, d].
double mean_cosine(const at::Tensor& x) {
  const at::Tensor rows = x / x.norm(2, 1, true);
  const auto n = static_cast<double>(x.size(0));
  return (at::matmul(rows, rows.t()).sum().item<double>() - n) / (n * (n - 1));
}

// Features share a vector of deviation 0.5, which every query reads.
TEST(Projector, QueriesOfANewPerceiverDiffer) {
  const config::Job job =
      job_of({"vision.hidden=1024", "vision.heads=16", "vlm.cross=[1, 8]", "vlm.max_tiles=0",
              "projector.kind=perceiver", "projector.queries=64", "projector.layers=6",
              "projector.heads=8", "projector.hidden=1024"});
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  const auto normal = [&](at::IntArrayRef shape, double std) {
    return at::randn(shape, generator, at::kFloat) * std;
  };
  Tensors params;
  for (const model::UnitSpec& unit : model::describe(job).units)
    for (const model::ParamSpec& param : unit.params)
      if (unit.name == "projector")
        params.push_back(param.init.kind == model::Init::Kind::kOnes
                             ? at::ones(param.shape, at::kFloat)
                             : normal(param.shape, param.init.std));
  Projector projector(job, false, std::make_shared<Across>(job.model));
  projector.bind(params);
  const at::Tensor features = normal({1, 256, 1024}, 1) + normal({1, 1, 1024}, 0.5);
  const at::NoGradGuard no_grad;
  const at::Tensor queries = projector.forward({features}, {})[0][0];
  ASSERT_EQ(queries.sizes(), at::IntArrayRef({64, 1024}));
  EXPECT_LT(mean_cosine(queries), 0.2);
}

at::Tensor linear_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::matmul(x, weight.t()) + bias;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(Projector, AMergerJoinsTwoByTwoAndDeepstacksNormsBehind) {
  const config::Job job = job_of(
      {"projector.kind=merger", "vlm.layer=-1", "vlm.deepstack=0"});  // 4 x 4 features a tile
  const model::ModelSpec spec = model::describe(job);
  const at::Tensor tiles = at::randn({3, 16, 24}, at::kDouble);
  const auto squares = [](const at::Tensor& x) {  // [3, 4, 96], written down
    std::vector<at::Tensor> tokens;
    for (const std::int64_t first : {0, 2, 8, 10})
      tokens.push_back(at::cat({x.select(1, first), x.select(1, first + 1), x.select(1, first + 4),
                                x.select(1, first + 5)},
                               1));
    return at::stack(tokens, 1);
  };
  for (const bool deepstack : {false, true}) {
    const Tensors params = params_of(spec, deepstack ? "deepstack.0" : "projector");
    ASSERT_EQ(params.size(), 6u);
    Projector merger(job, false, std::make_shared<Across>(job.model), deepstack);
    merger.bind(params);
    const auto normed = [&](const at::Tensor& x, std::int64_t width) {
      return at::layer_norm(x, {width}, params[0], params[1], job.vision.norm_eps);
    };
    const at::Tensor rows = deepstack ? normed(squares(tiles), 96) : squares(normed(tiles, 24));
    const at::Tensor wanted =
        linear_of(at::gelu(linear_of(rows, params[2], params[3])), params[4], params[5]);
    EXPECT_LT(distance(merger.forward({tiles}, {})[0], wanted), 1e-12) << deepstack;
  }
}

TEST(Positions, ATableIsResampledFromCornerToCorner) {
  const at::Tensor table = at::randn({36, 5}, at::kDouble);
  for (const std::int64_t to : {1, 2, 4, 6, 9}) {
    const at::Tensor wanted =
        at::upsample_bilinear2d(table.view({6, 6, 5}).permute({2, 0, 1}).unsqueeze(0), {to, to},
                                true)[0]
            .permute({1, 2, 0})
            .flatten(0, 1);
    EXPECT_LT(distance(resampled(table, 6, to), wanted), 1e-13) << to;
  }
  EXPECT_TRUE(at::equal(resampled(table, 6, 6), table));
}

TEST(Positions, RowAndColumnTurnHalvesOfAHead) {
  const at::Tensor places = at::tensor({0, 0, 3, 0, 0, 5, 2, 7}, at::kLong).view({4, 2});
  const at::Tensor x = at::randn({1, 4, 2 * 8}, at::kDouble);  // two heads of 8 channels
  const at::Tensor turned = rotate(x, plane_rotary(places, 8, at::kDouble));
  for (std::int64_t token = 0; token < 4; ++token)
    for (std::int64_t head = 0; head < 2; ++head)
      for (std::int64_t i = 0; i < 4; ++i) {  // row: 1, 1/100; column: 1, 1/100
        const double place = static_cast<double>(places[token][i / 2].item<std::int64_t>());
        const double angle = place * (i % 2 == 0 ? 1 : 0.01);
        const double a = x[0][token][head * 8 + i].item<double>(),
                     b = x[0][token][head * 8 + i + 4].item<double>();
        EXPECT_NEAR(turned[0][token][head * 8 + i].item<double>(),
                    a * std::cos(angle) - b * std::sin(angle), 1e-13);
        EXPECT_NEAR(turned[0][token][head * 8 + i + 4].item<double>(),
                    b * std::cos(angle) + a * std::sin(angle), 1e-13);
      }
}

// Images fill a tubelet: as a convolution over two frames that are the same.
TEST(PatchEmbed, AnImageIsRepeatedToFillATubelet) {
  const config::Job job = job_of({"vision.frames=2", "vision.tubelet=2", "vision.position_grid=6"});
  const Tensors params = params_of(model::describe(job), "vision.embed");
  ASSERT_EQ(params.size(), 3u);
  PatchEmbed embed(job.vision, std::make_shared<Across>(job.model));
  embed.bind(params);
  const at::Tensor tiles = at::randn({2, 3, 32, 32}, at::kDouble);
  const at::Tensor wanted = at::conv3d(tiles.unsqueeze(2).repeat({1, 1, 2, 1, 1}),
                                       params[0].view({24, 3, 2, 8, 8}), params[1], {2, 8, 8})
                                .flatten(2)
                                .transpose(1, 2) +
                            resampled(params[2], 6, 4);
  EXPECT_LT(distance(embed.forward({tiles}, {})[0], wanted), 1e-12);
}

TEST(Splice, PutsRowsNewlinesAndTokensWhereTheyStand) {
  const config::Job job = job_of({});
  Splice splice(std::make_shared<Across>(job.model));
  const at::Tensor table = at::randn({job.model.vocab, 32}, at::kDouble);
  const at::Tensor newline = at::randn({1, 32}, at::kDouble);
  splice.bind({table, newline});
  const at::Tensor rows = at::randn({2, 16, 32}, at::kDouble).set_requires_grad(true);
  const at::Tensor tokens = at::tensor({7, 256, 256, 9}, at::kLong).view({1, 4});
  const at::Tensor visual = at::tensor({-1, 17, -2, -1}, at::kLong).view({1, 4});
  const at::Tensor x = splice.forward({tokens, visual, rows}, {})[0];
  EXPECT_TRUE(at::equal(x[0][0], table[7]));
  EXPECT_TRUE(at::equal(x[0][1], rows[1][1]));
  EXPECT_TRUE(at::equal(x[0][2], newline[0]));
  EXPECT_TRUE(at::equal(x[0][3], table[9]));
  x.sum().backward();
  EXPECT_EQ(rows.grad().sum().item<double>(), 32);  // the one row that stands somewhere
  EXPECT_EQ(rows.grad()[1][1].sum().item<double>(), 32);
}

// A decoder block at these positions, int64 [1, tokens, 3] or undefined.
at::Tensor block_at(const config::Job& job, const Tensors& params, const at::Tensor& x,
                    const at::Tensor& positions) {
  const exec::Model model = build(job);
  std::size_t node = 0;
  while (model.spec.program.nodes[node].name != "block.0") ++node;
  model.blocks[node]->bind(params);
  return model.blocks[node]->forward(positions.defined() ? Tensors{x, positions} : Tensors{x},
                                     {})[0];
}

TEST(Mrope, PureTextIsTurnedAsByOnePosition) {
  for (const char* sections : {"vlm.mrope=4,2,2", "vlm.mrope=4,2,2 interleaved"}) {
    const config::Job plain = job_of({"model.qk_norm=true"});
    const config::Job mrope = job_of({"model.qk_norm=true", sections});
    const Tensors params = params_of(model::describe(plain), "block.0");
    const at::Tensor x = at::randn({1, 12, 32}, at::kDouble);
    const at::Tensor text =
        at::arange(12, at::kLong).view({1, 12, 1}).expand({1, 12, 3}).contiguous();
    const at::Tensor wanted = block_at(plain, params, x, {});
    EXPECT_LT((block_at(mrope, params, x, text) - wanted).abs().max().item<double>(), 1e-13);
    at::Tensor image = text.clone();
    image.select(2, 1).slice(1, 4, 8).fill_(4);  // a row of an image
    EXPECT_GT((block_at(mrope, params, x, image) - wanted).abs().max().item<double>(), 1e-6);
  }
}

TEST(QkNorm, ScalingQueriesAndKeysChangesNothing) {
  const config::Job job = job_of({"model.qk_norm=true", "model.norm_eps=1e-12"});
  Tensors params = params_of(model::describe(job), "block.0");
  const at::Tensor x = at::randn({1, 12, 32}, at::kDouble);
  const at::Tensor before = block_at(job, params, x, {});
  params[1] = params[1] * 5;
  params[2] = params[2] * 0.2;
  EXPECT_LT((block_at(job, params, x, {}) - before).abs().max().item<double>(), 1e-9);
  params[9] = params[9] * 2;  // the gain of queries
  EXPECT_GT((block_at(job, params, x, {}) - before).abs().max().item<double>(), 1e-6);
}

// Neither text nor the tokens that end rows have a row to add.
TEST(Seen, AddsRowsWhereTheyStand) {
  Seen seen(std::make_shared<Across>(config::Model{}));
  const at::Tensor x = at::randn({1, 4, 8}, at::kDouble), rows = at::randn({2, 3, 8}, at::kDouble);
  const at::Tensor visual = at::tensor({kEmbedded, std::int64_t{4}, kNewline, std::int64_t{0}});
  const at::Tensor y = seen.forward({x, visual.view({1, 4}), rows}, {})[0];
  const at::Tensor wanted = x.clone();
  wanted[0][1] += rows[1][1];
  wanted[0][3] += rows[0][0];
  EXPECT_TRUE(at::equal(y, wanted));
}

TEST(AnswerHead, CountsAnswersOfWhichAllTokensAreRight) {
  const config::Job job = job_of({"model.tied=false"});
  AnswerHead head(job.model, model::describe(job).program.nodes.back(),
                  std::make_shared<Across>(job.model), config::kEndToken);
  // A vocabulary whose first tokens are the axes: a row along axis i says token i, along 0 that the answer ends.
  at::Tensor table = at::zeros({job.model.vocab, 32}, at::kDouble);
  table.narrow(0, 1, 31).narrow(1, 1, 31).diagonal().fill_(1);
  table[config::kEndToken][0] = 1;
  head.bind({at::ones({32}, at::kDouble), table});
  at::Tensor x = at::zeros({3, 4, 32}, at::kDouble);
  const auto say = [&](int sample, int token, int id) { x[sample][token][id] = 1.0; };
  const at::Tensor targets = at::full({3, 4}, ops::kNoTarget, at::kLong);
  const auto want = [&](int sample, int token, std::int64_t id) { targets[sample][token] = id; };
  say(0, 1, 5), want(0, 1, 5);
  say(0, 2, 6), want(0, 2, 6);
  say(0, 3, 0), want(0, 3, config::kEndToken);  // all right
  say(1, 1, 5), want(1, 1, 7);
  say(1, 2, 0), want(1, 2, config::kEndToken);  // one of two
  say(2, 0, 9), want(2, 0, 9);                  // all of one without an end
  exec::Counts counts(2);
  head.forward({x, targets}, {.counts = &counts});
  EXPECT_EQ(counts.all()[0].sum, 2);
  EXPECT_EQ(counts.all()[0].of, 3);
  EXPECT_EQ(counts.all()[1].sum, 5);
  EXPECT_EQ(counts.all()[1].of, 6);
}

TEST(Generate, TilesChangeWhatIsSaidBehindThem) {
  const at::Tensor tokens = at::tensor({3, 1, 4, 1, 5}, at::kLong).view({1, 5});
  const harness::BoundModel sees(build(job_of({})), at::kDouble);
  const at::Tensor visual = at::tensor({-1, 0, 17, -2, -1}, at::kLong).view({1, 5});
  const auto behind = [&](const at::Tensor& tiles) {
    return next_logits(sees.model(), {tokens, tokens, visual, tiles});
  };
  const at::Tensor tiles = at::randn({2, 3, 32, 32}, at::kFloat);
  EXPECT_TRUE(at::equal(behind(tiles), behind(tiles)));
  EXPECT_FALSE(at::equal(behind(tiles), behind(-tiles)));
}

}  // namespace
}  // namespace trireme::blocks::vlm_test
