// ARR-COC as data: its parameters, and which of them there are.
#include "trireme/arch/arrcoc.h"

#include <gtest/gtest.h>

#include "trireme/arch/describe.h"
#include "trireme/config/resolve.h"

namespace trireme::arch {
namespace {

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

TEST(ArrcocSpec, RecipesHaveTheParametersThatTheirLayersAddUpTo) {
  const ModelSpec tiny = recipe("arrcoc_tiny.yaml");
  EXPECT_EQ(tiny.parameters(), 149764);
  EXPECT_EQ(unit(tiny, "scorers")->numel, 9156);
  EXPECT_EQ(unit(tiny, "levels")->numel, 7 * 64);
  EXPECT_EQ(unit(tiny, "vision.block.0")->numel, 12 * 64 * 64 + 13 * 64);
  EXPECT_EQ(recipe("arrcoc_small.yaml").parameters(), 872164);
}

TEST(ArrcocSpec, ScorersThatAreNotNamedHaveNoParametersAndTheGateDecidesWhetherTheyTrain) {
  const ModelSpec all = recipe("arrcoc_tiny.yaml");
  const ModelSpec two = recipe("arrcoc_tiny.yaml", {"arrcoc.scorers=information,salience"});
  EXPECT_LT(two.parameters(), all.parameters());
  EXPECT_TRUE(unit(all, "scorers")->trainable);
  EXPECT_FALSE(unit(recipe("arrcoc_tiny.yaml", {"arrcoc.gate=false"}), "scorers")->trainable);
  EXPECT_EQ(unit(recipe("arrcoc_tiny.yaml", {"arrcoc.allocation=uniform"}), "scorers"), nullptr);
  EXPECT_EQ(recipe("arrcoc_tiny.yaml", {"arrcoc.channels=rgb"}).parameters(), all.parameters());
}

}  // namespace
}  // namespace trireme::arch
