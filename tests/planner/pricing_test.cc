#include "trireme/planner/pricing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "trireme/arch/language_model.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve.h"

namespace trireme::planner {
namespace {

using plan::Verb;
using ::testing::HasSubstr;

Cluster one_card() {
  Cluster cluster{.name = "card", .gpus_per_host = 1, .hosts = 1};
  cluster.gpu = {.name = "card",
                 .half_flops = 300e12,
                 .fp32_flops = 20e12,
                 .memory = std::int64_t{80} << 30,
                 .memory_rate = 2e12,
                 .units = 100};
  return cluster;
}

config::Job job_with(const std::vector<std::string>& sets) {
  config::Job job;
  job.model = {.layers = 4, .hidden = 1024, .heads = 8, .vocab = 32000, .seq_len = 512};
  job.precision.compute = DType::kBF16;
  job.run.global_batch = 8;
  job.run.micro_batch = 8;
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

// Seconds of a node's line on that card.
double node_seconds(const config::Job& job, const std::string& name, Verb verb) {
  const Cluster cluster = one_card();
  const Practice practice;
  const Pricing pricing(job, practice, cluster);
  const arch::ModelSpec model = arch::describe(job);
  for (const plan::Node& node : model.program.nodes)
    if (node.name == name) return pricing.node(node, verb);
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST(NodePrices, ANodeOfAnotherTypeHasThatTypesRate) {
  const config::Job half = job_with({}), wide = job_with({"precision.compute=fp32"}),
                    mixed = job_with({"precision.nodes=block.2=fp32"});
  const double converted =
      seconds(one_card().gpu, {stream(2.0 * 4096 * 1024 * (2 + 4), 2)});  // read, and written
  EXPECT_DOUBLE_EQ(node_seconds(mixed, "block.2", Verb::kForward),
                   node_seconds(wide, "block.2", Verb::kForward) + converted);
  EXPECT_GT(node_seconds(mixed, "block.2", Verb::kBackward),
            node_seconds(wide, "block.2", Verb::kBackward));
  for (const Verb verb : {Verb::kForward, Verb::kBackward})
    EXPECT_EQ(node_seconds(mixed, "block.1", verb), node_seconds(half, "block.1", verb));
}

TEST(NodePrices, Fp64IsRefusedWhereNobodyKnowsItsRate) {
  const config::Job job = job_with({"precision.compute=fp64"});
  EXPECT_EQ(formats::refusal([&] { node_seconds(job, "block.0", Verb::kForward); },
                             ErrorKind::kUsage),
            "gpu card has no fp64 rate; choose another precision or gpu");
}

}  // namespace
}  // namespace trireme::planner
