// Operations of nodes in which not everything trains.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"
#include "trireme/plan/instr.h"

namespace trireme::model::frozen_flops_test {
namespace {

using Sets = std::vector<std::string>;

// A frozen block's backward costs one forward, not two.
TEST(FrozenFlops, BackwardCostsWhatItComputes) {
  const auto block = [](const Sets& training, std::size_t node) {
    config::Job job;
    job.model = {.family = config::Family::kGpt,
                 .layers = 2,
                 .hidden = 128,
                 .heads = 8,
                 .kv_heads = 8,
                 .ffn = 320,
                 .vocab = 192,
                 .seq_len = 160};
    job.run.micro_batch = job.run.global_batch = 3;
    for (const std::string& set : training) config::apply_set(job, set);
    return describe(config::resolve(job, 1, {})).program.nodes[node];
  };
  const double tokens = 3 * 160, attention = 2 * tokens * 160 * 128;
  const double products = 2 * tokens * (4 * 128 * 128 + 2 * 128 * 320);
  const plan::Node whole = block({}, 2);
  EXPECT_FALSE(whole.backward_flops);
  EXPECT_EQ(whole.flops, products + attention);
  const plan::Node frozen = block({"model.frozen=block.1"}, 2);
  EXPECT_EQ(frozen.flops, whole.flops);
  EXPECT_EQ(plan::flops(frozen, plan::Verb::kBackward), products + 2 * attention);
  EXPECT_FALSE(frozen.split);
  const double adapters = 2 * tokens * 8 * (128 + 3 * 128 + 128 + 128 + 128 + 320 + 320 + 128);
  const plan::Node adapted = block({"lora.rank=8"}, 2);
  EXPECT_EQ(adapted.flops, whole.flops + adapters);
  EXPECT_EQ(plan::flops(adapted, plan::Verb::kBackward), products + 2 * attention + 2 * adapters);
  EXPECT_EQ(adapted.split->weight_flops, adapters);
  // Norms of rows need W + s B A, of which B A is a product.
  const double norms = 2 * 8 * (4 * 128 * 128 + 2 * 128 * 320);
  const plan::Node scaled = block({"lora.rank=8", "lora.dora=true"}, 2);
  EXPECT_EQ(scaled.flops, adapted.flops + norms);
  EXPECT_EQ(plan::flops(scaled, plan::Verb::kBackward),
            plan::flops(adapted, plan::Verb::kBackward));
  // The first one gives no gradient to what its first layer reads.
  EXPECT_EQ(plan::flops(block({"lora.rank=8"}, 1), plan::Verb::kBackward),
            plan::flops(adapted, plan::Verb::kBackward) - 2 * tokens * (3 * 128 + 8) * 128);
}

}  // namespace
}  // namespace trireme::model::frozen_flops_test
