// Attention within documents whose tokens ranks share so that all have equal work.
#include <gtest/gtest.h>

#include "tests/ops/context_cases.h"

namespace trireme::ops::context_documents_test {
namespace {

using namespace context_cases;

// Tokens of documents as mesh::balanced shares them, in more chunks than the zigzag's.
TEST(ContextDocuments, BalancedEqualOneRank) {
  for (const Layout& layout : layouts()) {
    const std::int64_t tokens = layout.ranks * 6 * mesh::kFewestTokens;
    const Documents documents = documents_of_cuts(2, tokens, {tokens / 8, tokens / 4, tokens / 2});
    const int together =
        layout.method == ContextMethod::kUlysses ? layout.ranks : std::max(1, layout.inner);
    const auto spread = [&](std::int64_t, int ranks) {
      if (ranks == 1) return mesh::in_order(tokens, 1);
      const at::Tensor scores = (at::arange(1, tokens + 1) - documents.begin).sum(0);
      return mesh::balanced({scores.data_ptr<std::int64_t>(), static_cast<std::size_t>(tokens)},
                            ranks, together)
          .layout;
    };
    if (together < layout.ranks) {
      EXPECT_GT(spread(tokens, layout.ranks).ranges[0].size(), 2u) << text(layout);
    }
    std::vector<Case> cases;
    for (const Mask& mask :
         {Mask::causal(documents), Mask::causal(documents, 70), Mask::full(documents)})
      for (const AttentionHeads& heads : {ways_of_heads()[1], ways_of_heads()[2]}) {
        cases.push_back(make_case({"documents", mask}, tokens, heads));
        cases.back().spread = spread;
      }
    const std::vector<Tensors> actual = run(layout, cases, at::kDouble);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Tensors expected = results_of_rank(cases[i], at::kDouble, {}, i % 2 == 0);
      for (std::size_t t = 0; t < expected.size(); ++t)
        EXPECT_LT(distance(actual[i][t], expected[t]), 1e-12)
            << text(layout) << ", case " << i << ", result " << t;
    }
  }
}

}  // namespace
}  // namespace trireme::ops::context_documents_test
