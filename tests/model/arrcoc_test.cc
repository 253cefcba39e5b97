// ARR-COC as data: its parameters, and which of them there are.
#include <gtest/gtest.h>

#include "trireme/config/resolve/resolve.h"
#include "trireme/families/arrcoc/model.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::arrcoc_test {
namespace {

using Sets = std::vector<std::string>;

ModelSpec recipe(const char* name, const std::vector<std::string>& sets = {}) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / name);
  for (const std::string& set : sets) config::apply_set(job, set);
  return describe(config::resolve(job, 1, {}));
}

const plan::Unit* unit(const ModelSpec& spec, std::string_view name) {
  for (const plan::Unit& one : spec.program.units)
    if (one.name == name) return &one;
  return nullptr;
}

TEST(ArrcocSpec, RecipesHaveTheParametersOfTheirPrototypes) {
  const ModelSpec tiny = recipe("arrcoc_tiny.yaml");
  EXPECT_EQ(tiny.parameters(), 163372);
  EXPECT_EQ(recipe("arrcoc_small.yaml").parameters(), 953452);
  for (const char* block : {"vision.block.0", "block.0", "block.1"})
    EXPECT_EQ(unit(tiny, block)->numel, 12 * 64 * 64 + 13 * 64) << block;
  EXPECT_EQ(unit(tiny, "levels")->numel, 7 * 64);
  EXPECT_EQ(unit(tiny, "scorers")->numel, 55 * 64 + 5292);
  EXPECT_EQ(unit(tiny, "projector"), nullptr);
}

TEST(ArrcocSpec, DecodersAreLlamasOrGpts) {
  const Sets llama = {"arrcoc.decoder=llama", "projector.kind=linear",  "model.ffn=128",
                      "arrcoc.hidden=32",     "arrcoc.widths=[16, 32]", "model.vocab=8"};
  const ModelSpec spec = recipe("arrcoc_tiny.yaml", llama);
  EXPECT_EQ(spec.parameters(), 149764);
  EXPECT_EQ(unit(spec, "block.0")->numel, 4 * 64 * 64 + 3 * 64 * 128 + 2 * 64);
  EXPECT_EQ(unit(spec, "projector")->numel, 64 * 64 + 64);
}

TEST(ArrcocSpec, WhatIsChargedIsOneMoreTensionAndOneMoreValue) {
  const auto count = [](const ModelSpec& spec) { return std::ssize(spec.program.values); };
  const ModelSpec plain = recipe("arrcoc_tiny.yaml");
  const ModelSpec learnt =
      recipe("arrcoc_tiny.yaml",
             {"arrcoc.scorers=information,salience,coupling,budget", "arrcoc.penalties=[0.1, 0]"});
  EXPECT_EQ(learnt.parameters() - plain.parameters(), 40 + 1);
  EXPECT_EQ(count(learnt) - count(plain), 1);
  EXPECT_EQ(learnt.metrics.back(), "image_tokens");
  EXPECT_EQ(count(recipe("arrcoc_tiny.yaml", {"arrcoc.penalties=[0, 0.01]"})) - count(plain), 1);
  // Frozen scorers have nothing to charge.
  EXPECT_EQ(
      count(recipe("arrcoc_tiny.yaml", {"arrcoc.penalties=[0, 0.01]", "model.frozen=scorers"})),
      count(plain));
}

TEST(ArrcocSpec, ScorersThatAreNotNamedHaveNoParametersAndTheGateDecidesWhetherTheyTrain) {
  const ModelSpec all = recipe("arrcoc_tiny.yaml");
  const ModelSpec two = recipe("arrcoc_tiny.yaml", {"arrcoc.scorers=information,salience"});
  EXPECT_LT(two.parameters(), all.parameters());
  EXPECT_TRUE(unit(all, "scorers")->trainable);
  EXPECT_FALSE(unit(recipe("arrcoc_tiny.yaml", {"arrcoc.gate=false"}), "scorers")->trainable);
  EXPECT_EQ(unit(recipe("arrcoc_tiny.yaml", {"arrcoc.scorers=uniform"}), "scorers"), nullptr);
  EXPECT_EQ(recipe("arrcoc_tiny.yaml", {"arrcoc.channels=rgb"}).parameters(), all.parameters());
}

}  // namespace
}  // namespace trireme::model::arrcoc_test
