// Problems of attention whose tokens several ranks share, and what these compute together.
#pragma once

#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "tests/harness/ranks.h"
#include "tests/ops/attention_cases.h"
#include "trireme/ops/attention/context.h"

namespace trireme::ops::context_cases {

inline constexpr std::int64_t kWidth = 6;

struct Layout {
  ContextMethod method;
  int ranks;
  int inner;
};
inline std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (int ranks : {2, 3, 4})
    for (ContextMethod method :
         {ContextMethod::kRing, ContextMethod::kAllGather, ContextMethod::kUlysses})
      all.push_back({method, ranks, 0});
  all.push_back({ContextMethod::kHierarchical, 4, 2});
  return all;
}

inline std::vector<int> all_ranks(const comm::World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// One problem as a whole: inputs q, k, v. `spread`: how ranks share its tokens.
struct Case {
  std::string name;
  AttentionHeads heads;
  Mask mask;
  Tensors in;
  std::function<mesh::TokenLayout(std::int64_t tokens, int ranks)> spread = mesh::zigzag;

  mesh::TokenLayout layout(int ranks) const { return spread(in[0].size(1), ranks); }
};

inline Case make_case(const NamedMask& mask, std::int64_t tokens, const AttentionHeads& heads) {
  return {.name = fmt::format("{}, {} heads on {}", mask.name, heads.heads, heads.kv_heads),
          .heads = heads,
          .mask = mask.mask,
          .in = {normal({2, tokens, heads.heads * kWidth}, 1),
                 normal({2, tokens, heads.kv_heads * kWidth}, 2),
                 normal({2, tokens, heads.kv_heads * kWidth}, 3)}};
}

// The rank's part of the mask.
inline Mask shard(const Mask& mask, const mesh::TokenLayout& layout, int rank) {
  Mask mine = mask;
  for (at::Tensor* places : {&mine.documents.begin, &mine.documents.end})
    if (places->defined()) *places = shard_tokens(*places, 1, layout, rank);
  return mine;
}

// results() of this rank's tokens.
inline Tensors results_of_rank(const Case& c, at::ScalarType type, ContextParallel context,
                               bool packed) {
  context.layout = c.layout(context.size());
  const auto mine = [&](const at::Tensor& x) {
    return shard_tokens(x, 1, context.layout, context.rank()).to(type);
  };
  Tensors leaves;
  for (const at::Tensor& in : c.in) leaves.push_back(mine(in).detach().clone());
  if (packed) leaves = {at::cat(leaves, 2)};
  for (at::Tensor& leaf : leaves) leaf.requires_grad_(true);
  const Mask mask = shard(c.mask, context.layout, context.rank());
  const at::Tensor out = packed
                             ? attention_packed(leaves[0], c.heads, mask, context)
                             : attention(leaves[0], leaves[1], leaves[2], c.heads, mask, context);
  const at::Tensor dout = normal(c.in[0].sizes().vec(), 99);
  out.backward(mine(dout));
  Tensors all = {out.detach()};
  if (packed) {
    const at::Tensor& grad = leaves[0].grad();
    const std::int64_t q = c.in[0].size(2), kv = c.in[1].size(2);
    for (const at::Tensor& part : grad.split_with_sizes({q, kv, kv}, 2)) all.push_back(part);
  } else {
    for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  }
  return all;
}

// By tensor, then by rank, the results of all ranks: filled by their threads.
class Shards {
 public:
  void add(int rank, int ranks, const Tensors& tensors) {
    std::lock_guard lock(mutex_);
    shards_.resize(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      shards_[i].resize(static_cast<std::size_t>(ranks));
      shards_[i][rank] = tensors[i];
    }
  }
  Tensors whole(const Case& c) const {
    Tensors all;
    for (const Tensors& shards : shards_)
      all.push_back(unshard_tokens(shards, 1, c.layout(static_cast<int>(shards.size()))));
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<Tensors> shards_;
};

inline std::vector<Tensors> run(const Layout& layout, const std::vector<Case>& cases,
                                at::ScalarType type,
                                harness::Backend backend = harness::Backend::kLocal) {
  std::vector<Shards> shards(cases.size());
  harness::run_ranks(backend, layout.ranks, 60.0, [&](comm::World& world) {
    const ContextGroups groups(world, all_ranks(world), layout.method, layout.inner);
    for (std::size_t i = 0; i < cases.size(); ++i)
      shards[i].add(world.rank(), world.size(),
                    results_of_rank(cases[i], type, groups.parallel(), i % 2 == 0));
  });
  std::vector<Tensors> all;
  for (std::size_t i = 0; i < cases.size(); ++i) all.push_back(shards[i].whole(cases[i]));
  return all;
}

inline std::string text(const Layout& layout) {
  return fmt::format("{} over {}", name(layout.method), layout.ranks);
}

}  // namespace trireme::ops::context_cases
