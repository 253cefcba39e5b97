// Operations that models state of their nodes: those of the list of layers, and as many FLOPs as the account has.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/model/account/work.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layers/operation.h"

namespace trireme::model::operations_test {
namespace {

using What = Operation::What;

config::Job recipe(const std::string& name, const std::vector<std::string>& sets = {}) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / (name + ".yaml"));
  for (const std::string& set : sets) config::apply_set(job, set);
  const config::SyntheticSource* source = config::synthetic_source(job.data.source);
  return config::resolve(job, job.parallel.tp,
                         source != nullptr ? source->facts : config::DatasetFacts{.vocab = 1024});
}

std::vector<Operation> operations_of(const config::Job& job, const std::string& name) {
  const ModelSpec model = describe(job);
  for (std::size_t n = 0; n < model.program.nodes.size(); ++n)
    if (model.program.nodes[n].name == name) return model.operations[n];
  ADD_FAILURE() << "no " << name;
  return {};
}

std::vector<What> kinds_of(const std::vector<Operation>& operations) {
  std::vector<What> kinds;
  for (const Operation& one : operations) kinds.push_back(one.what);
  return kinds;
}

double flops_of(const Operation& one) {
  switch (one.what) {
    case What::kProduct:
    case What::kLogits: return 2 * one.rows * one.in * one.out();
    case What::kAdapter: return 2 * one.rows * one.inner * (one.in + one.out());
    case What::kMagnitude: return 2 * one.out() * one.inner * one.in;
    case What::kAttention: {
      const double keys =
          one.keys > 0 ? one.keys : scored_tokens(one.tokens, one.window) * (one.causal ? 0.5 : 1);
      return 4 * one.rows * keys * one.heads * one.width;
    }
    default: return 0;
  }
}

TEST(Operations, OfABlockAreThoseOfItsList) {
  const std::vector<std::string> sets = {
      "model.layers=1", "model.hidden=32",  "model.heads=4",     "model.kv_heads=2",
      "model.ffn=88",   "model.seq_len=16", "run.micro_batch=2", "run.global_batch=2"};
  const std::vector<Operation> one = operations_of(recipe("llama_tiny", sets), "block.0");
  ASSERT_EQ(kinds_of(one),
            (std::vector{What::kRmsNorm, What::kProduct, What::kRotation, What::kAttention,
                         What::kProduct, What::kSum, What::kRmsNorm, What::kProduct, What::kGate,
                         What::kProduct, What::kSum}));
  EXPECT_EQ(
      one[1],
      (Operation{
          .what = What::kProduct, .rows = 32, .in = 32, .outs = {32, 16, 16}, .trains = true}));
  EXPECT_EQ(one[2], (Operation{.what = What::kRotation, .rows = 32, .in = 48}));
  EXPECT_EQ(one[3], (Operation{.what = What::kAttention,
                               .rows = 32,
                               .tokens = 16,
                               .heads = 4,
                               .width = 8,
                               .causal = true}));
  EXPECT_EQ(one[7], (Operation{.what = What::kProduct,
                               .rows = 32,
                               .in = 32,
                               .outs = {88, 88},
                               .trains = true,
                               .wide = true}));
  EXPECT_EQ(one[9].in, 88);
  std::vector<std::string> halved = sets;
  halved.emplace_back("parallel.tp=2");
  const std::vector<Operation> half = operations_of(recipe("llama_tiny", halved), "block.0");
  EXPECT_EQ(half[1].outs, (std::vector<double>{16, 8, 8}));
  EXPECT_EQ(half[3].heads, 2);
  EXPECT_EQ(half[9].in, 44);
}

TEST(Operations, FollowWhatALayerIs) {
  // One layer that two matrices as large adapt, a window, and no rotation.
  const std::vector<Operation> adapted = operations_of(
      recipe("llama_tiny",
             {"lora.rank=4", "lora.targets=query_value", "model.attention_layers=nope"}),
      "block.0");
  EXPECT_EQ(std::ranges::count(adapted, What::kAdapter, &Operation::what), 2);
  EXPECT_EQ(std::ranges::count(adapted, What::kRotation, &Operation::what), 0);
  EXPECT_FALSE(adapted[1].trains);
  const std::vector<Operation> gpt = operations_of(recipe("gpt_tiny"), "block.0");
  EXPECT_EQ(gpt[0].what, What::kLayerNorm);
  EXPECT_EQ(gpt[1].bias, gpt[1].rows * gpt[1].out());
  EXPECT_TRUE(gpt.back().drops);
  // Pictures are seen whole, and their activation is not fused.
  const std::vector<Operation> tower =
      operations_of(recipe("vit_tiny", {"vision.activation=quick_gelu"}), "block.0");
  const auto attention = std::ranges::find(tower, What::kAttention, &Operation::what);
  EXPECT_FALSE(attention->causal);
  EXPECT_EQ(std::ranges::count(tower, What::kQuickGelu, &Operation::what), 1);
  EXPECT_EQ(std::ranges::count(tower, What::kActivation, &Operation::what), 0);
}

// Of all nodes with operations, in whatever family.
TEST(Operations, HaveTheFlopsOfTheirNodes) {
  using Sets = std::vector<std::string>;
  std::vector<std::pair<std::string, Sets>> recipes = {{"vlm_tiny", {"lora.rank=4"}}};
  for (const char* name :
       {"gpt_tiny", "llama_tiny", "neox_tiny", "olmo2_1b", "vit_tiny", "clip_tiny", "vjepa_tiny",
        "hvjepa_tiny", "probe_tiny", "ac_tiny", "vlm_tiny", "arrcoc_tiny", "hnet_tiny"})
    recipes.emplace_back(name, Sets{});
  for (const auto& [name, sets] : recipes) {
    const ModelSpec model = describe(recipe(name, sets));
    int compared = 0;
    for (std::size_t n = 0; n < model.program.nodes.size(); ++n) {
      const plan::Node& node = model.program.nodes[n];
      if (model.operations[n].empty() || node.name.starts_with("s1")) continue;  // likely rows
      double flops = 0;
      for (const Operation& one : model.operations[n]) flops += flops_of(one);
      EXPECT_NEAR(flops, node.flops, 1e-9 * node.flops) << name << " " << node.name;
      ++compared;
    }
    EXPECT_GT(compared, 1) << name;
  }
}

}  // namespace
}  // namespace trireme::model::operations_test
