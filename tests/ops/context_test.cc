// Attention with the sequence spread over ranks against one rank: every method, mask and way of heads.
#include "trireme/ops/attention/context.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/ops/context_cases.h"
#include "trireme/base/error.h"
#include "trireme/comm/counting_group.h"
#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops::context_test {
namespace {

using namespace context_cases;
using ::testing::HasSubstr;

TEST(ContextParallel, EveryMethodEqualsOneRank) {
  for (const Layout& layout : layouts())
    for (const std::int64_t chunk : {7, 70}) {
      const std::int64_t tokens = 2 * layout.ranks * chunk;
      std::vector<Case> cases;
      for (const NamedMask& mask : all_masks(2, tokens))
        for (const AttentionHeads& heads : ways_of_heads())
          if (chunk == 7 || heads.heads == 6) cases.push_back(make_case(mask, tokens, heads));
      const std::vector<Tensors> actual = run(layout, cases, at::kDouble);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Tensors expected = results_of_rank(cases[i], at::kDouble, {}, i % 2 == 0);
        for (std::size_t t = 0; t < expected.size(); ++t)
          EXPECT_LT(distance(actual[i][t], expected[t]), 1e-12)
              << text(layout) << ", chunks of " << chunk << ", " << cases[i].name << ", result "
              << t;
      }
    }
}

// Against the formula in fp64, on inputs that bf16 holds.
TEST(ContextParallel, SmallerTypesKeepTheirTolerances) {
  for (const Layout& layout : layouts()) {
    const std::int64_t tokens = 2 * layout.ranks * 40;
    std::vector<Case> cases;
    for (const NamedMask& mask : all_masks(2, tokens)) {
      cases.push_back(make_case(mask, tokens, {.heads = 4, .kv_heads = 2}));
      for (at::Tensor& in : cases.back().in) in = in.to(at::kBFloat16).to(at::kDouble);
    }
    for (const auto& [type, tolerance] :
         {std::pair(at::kFloat, 2e-6), std::pair(at::kBFloat16, 8e-3)}) {
      const std::vector<Tensors> actual = run(layout, cases, type);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Tensors expected = results(
            [&](const Tensors& in) { return naive_attention(in, cases[i].heads, cases[i].mask); },
            cases[i].in, at::kDouble);
        for (std::size_t t = 0; t < expected.size(); ++t)
          EXPECT_LT(distance(actual[i][t], expected[t]), tolerance)
              << text(layout) << ", " << cases[i].name << ", result " << t << " in " << type;
      }
    }
  }
}

// Tokens of one document change: every bit of the others, forward and backward, stays.
TEST(ContextParallel, DocumentsDoNotTouchEachOther) {
  std::vector<Layout> all = layouts();
  all.push_back({ContextMethod::kRing, 1, 0});
  for (const Layout& layout : all) {
    const std::int64_t tokens = 2 * layout.ranks * 35, begin = tokens / 3, end = tokens / 2;
    const Documents documents = documents_of_cuts(2, tokens, {begin, end});
    std::vector<Case> cases, changed;
    for (const Mask& mask :
         {Mask::causal(documents), Mask::full(documents), Mask::block_causal(4, documents)}) {
      cases.push_back(make_case({"", mask}, tokens, {.heads = 4, .kv_heads = 2}));
      changed.push_back(cases.back());
      for (at::Tensor& in : changed.back().in) {
        in = in.clone();
        in.narrow(1, begin + 2, 3).mul_(-9).add_(3);  // inside the second document of either sample
      }
    }
    for (const at::ScalarType type : {at::kDouble, at::kBFloat16}) {
      const std::vector<Tensors> before = run(layout, cases, type),
                                 after = run(layout, changed, type);
      for (std::size_t i = 0; i < cases.size(); ++i)
        for (std::size_t t = 0; t < before[i].size(); ++t)
          for (std::int64_t s : {0, 1}) {
            const at::Tensor a = before[i][t][s], b = after[i][t][s];
            const std::int64_t first = begin + s, last = end + s;
            EXPECT_TRUE(
                at::equal(a.narrow(0, 0, first), b.narrow(0, 0, first)) &&
                at::equal(a.narrow(0, last, tokens - last), b.narrow(0, last, tokens - last)))
                << text(layout) << ", mask " << i << ", result " << t << " in " << type;
            EXPECT_FALSE(
                at::equal(a.narrow(0, first, last - first), b.narrow(0, first, last - first)));
          }
    }
  }
}

// What travels also does so between processes' transports, and on one lane instead of two.
TEST(ContextParallel, RunsOverOtherTransports) {
  const std::int64_t tokens = 6 * 20;
  const Case c = make_case({"causal", Mask::causal()}, tokens, {.heads = 4, .kv_heads = 2});
  const Tensors expected = results_of_rank(c, at::kDouble, {}, true);
  for (const harness::Backend backend : {harness::Backend::kShm, harness::Backend::kGloo})
    for (const ContextMethod method : {ContextMethod::kRing, ContextMethod::kUlysses}) {
      const std::vector<Tensors> actual = run({method, 3, 0}, {c}, at::kDouble, backend);
      for (std::size_t t = 0; t < expected.size(); ++t)
        EXPECT_LT(distance(actual[0][t], expected[t]), 1e-12) << harness::name(backend);
    }
  Shards shards;
  harness::run_ranks(harness::Backend::kLocal, 3, 60.0, [&](comm::World& world) {
    const auto group = world.make_group("cp", all_ranks(world));
    shards.add(world.rank(), world.size(),
               results_of_rank(c, at::kDouble, {.group = group.get()}, true));
  });
  for (std::size_t t = 0; t < expected.size(); ++t)
    EXPECT_LT(distance(shards.whole(c)[t], expected[t]), 1e-12) << "one lane";
}

struct Traffic {
  std::map<comm::Verb, std::int64_t> operations;
  std::int64_t bytes_sent = 0;
  bool operator==(const Traffic&) const = default;
};

// The groups of a rank, which write down what goes through them.
struct Counted {
  explicit Counted(const ContextParallel& inner) : parallel(inner) {
    for (comm::Group** group :
         {&parallel.group, &parallel.lane, &parallel.inner, &parallel.outer}) {
      if (*group == nullptr) continue;
      groups.push_back(std::make_unique<comm::CountingGroup>(**group));
      *group = groups.back().get();
    }
  }
  // Since the last call.
  Traffic take() {
    Traffic traffic;
    for (const auto& group : groups) {
      for (const auto& entry : group->take()) ++traffic.operations[entry.verb];
      traffic.bytes_sent += group->take_bytes_sent();
    }
    return traffic;
  }
  ContextParallel parallel;
  std::vector<std::unique_ptr<comm::CountingGroup>> groups;
};

// What one rank of the layout asks for and sends forward and backward, the same on all: bf16, 4 heads on 2, chunks of 8
// in 2 samples.
void expect_traffic(const Layout& layout, const Traffic& forward, const Traffic& backward) {
  harness::run_ranks(harness::Backend::kLocal, layout.ranks, 60.0, [&](comm::World& world) {
    const ContextGroups groups(world, all_ranks(world), layout.method, layout.inner);
    Counted counted(groups.parallel());
    const at::Tensor qkv = normal({2, 16, 8 * kWidth}, 1).to(at::kBFloat16).requires_grad_(true);
    const at::Tensor out =
        attention_packed(qkv, {.heads = 4, .kv_heads = 2}, Mask::causal(), counted.parallel);
    EXPECT_EQ(counted.take(), forward) << text(layout) << " forward";
    out.sum().backward();
    EXPECT_EQ(counted.take(), backward) << text(layout) << " backward";
  });
}

TEST(ContextParallel, SendsWhatTheMethodsNeed) {
  using enum comm::Verb;
  constexpr std::int64_t kHead = 2 * 16 * kWidth;         // elements
  constexpr std::int64_t kKv = 2 * 2 * kHead * 2;         // bytes of keys and values in bf16
  constexpr std::int64_t kGradients = 2 * 2 * kHead * 4;  // of their gradients in fp32
  for (const std::int64_t n : {2, 3, 4}) {
    const int ranks = static_cast<int>(n);
    expect_traffic({ContextMethod::kRing, ranks, 0},
                   {{{kSend, n - 1}, {kRecv, n - 1}}, (n - 1) * kKv},
                   {{{kSend, 2 * n - 1}, {kRecv, 2 * n - 1}}, (n - 1) * kKv + n * kGradients});
    expect_traffic({ContextMethod::kAllGather, ranks, 0}, {{{kAllGather, 1}}, (n - 1) * kKv},
                   {{{kAllGather, 1}, {kReduceScatter, 1}}, (n - 1) * (kKv + kGradients)});
  }
  // Two heads, on one key-value head, for the other rank: 2 + 2 there, 2 back.
  constexpr std::int64_t kExchanged = (2 + 2 + 2) * kHead * 2;
  expect_traffic({ContextMethod::kUlysses, 2, 0}, {{{kAllToAll, 2}}, kExchanged},
                 {{{kAllToAll, 2}}, kExchanged});
  // Beside that, half the heads of both neighbours' tokens go round a ring of two.
  expect_traffic({ContextMethod::kHierarchical, 4, 2},
                 {{{kAllToAll, 2}, {kSend, 1}, {kRecv, 1}}, kExchanged + kKv},
                 {{{kAllToAll, 2}, {kSend, 3}, {kRecv, 3}}, kExchanged + kKv + 2 * kGradients});
}

// By the function that the kernels' loop runs through.
TEST(ContextParallel, ZigzagGivesEveryRankTheSameScores) {
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t chunk : {64, 100, 2500}) {
      const std::int64_t tokens = 2 * ranks * chunk;
      const RowMask mask = Mask::causal().rows(1, tokens / ranks, tokens);
      const mesh::TokenLayout zigzag = mesh::zigzag(tokens, ranks);
      std::int64_t seen = 0;
      std::vector<std::int64_t> computed;
      for (int rank = 0; rank < ranks; ++rank) {
        const Segments queries = token_segments(zigzag, rank);
        ScoreCount ring;
        for (int owner = 0; owner < ranks; ++owner) {
          const ScoreCount step = count_scores(mask, 0, queries, token_segments(zigzag, owner));
          ring.seen += step.seen;
          ring.computed += step.computed;
        }
        computed.push_back(ring.computed);
        EXPECT_EQ(ring.seen * ranks, tokens * (tokens + 1) / 2) << rank << " of " << ranks;
        const ScoreCount gathered = count_scores(mask, 0, queries, Segments{{.tokens = tokens}});
        EXPECT_EQ(gathered.seen, ring.seen);
        seen += ring.seen;
      }
      for (const std::int64_t count : computed) {
        EXPECT_EQ(count, computed[0]) << ranks << " ranks, chunks of " << chunk;
        // Beyond the diagonal's tiles nothing that is not seen is computed.
        EXPECT_LE(count, seen / ranks + 2 * chunk * kTileRows);
      }
    }
}

TEST(ContextParallel, ScoresOutsideOfDocumentsAreNotComputed) {
  const std::int64_t tokens = 4096;
  const Documents documents = documents_of_cuts(1, tokens, {1024, 2048, 3072});
  const Mask masks[] = {Mask::full(documents), Mask::causal(documents)};
  const Segments all = {{.tokens = tokens}};
  const std::int64_t expected[] = {4 * 1024 * 1024, 4 * 1024 * (1024 + kTileRows) / 2};
  for (int i : {0, 1})
    EXPECT_EQ(count_scores(masks[i].rows(1, tokens, tokens), 0, all, all).computed, expected[i]);
}

TEST(ContextParallel, RefusesWhatDoesNotSplit) {
  const auto message = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUsage) << e.what();
      return e.what();
    }
    return "accepted";
  };
  harness::run_ranks(harness::Backend::kLocal, 4, 20.0, [&](comm::World& world) {
    for (const ContextMethod method : {ContextMethod::kRing, ContextMethod::kAllGather,
                                       ContextMethod::kUlysses, ContextMethod::kHierarchical}) {
      const ContextGroups groups(world, all_ranks(world), method, 2);
      const at::Tensor qkv = at::zeros({1, 9, 4 * 3 * kWidth});
      EXPECT_THAT(message([&] {
                    attention_packed(qkv, {.heads = 4, .kv_heads = 4}, Mask::causal(),
                                     groups.parallel());
                  }),
                  HasSubstr("a sequence of 36 tokens does not split over 4"));
    }
    EXPECT_THAT(
        message([&] { ContextGroups(world, all_ranks(world), ContextMethod::kHierarchical, 3); }),
        HasSubstr("3 neighbours do not divide 4 context-parallel ranks"));
  });
}

}  // namespace
}  // namespace trireme::ops::context_test
