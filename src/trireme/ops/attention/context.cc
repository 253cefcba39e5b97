#include "trireme/ops/attention/context.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "trireme/base/error.h"

namespace trireme::ops {

std::string_view name(ContextMethod method) {
  constexpr std::string_view kNames[] = {"ring", "all_gather", "ulysses", "hierarchical"};
  return kNames[static_cast<std::size_t>(method)];
}

comm::Group* ContextParallel::exchange() const {
  if (size() == 1) return nullptr;
  if (method == ContextMethod::kUlysses) return group;
  return method == ContextMethod::kHierarchical ? inner : nullptr;
}

comm::Group* ContextParallel::ring() const {
  if (size() == 1) return nullptr;
  if (method == ContextMethod::kRing) return group;
  return method == ContextMethod::kHierarchical ? outer : nullptr;
}

ContextGroups::ContextGroups(comm::World& world, const std::vector<int>& ranks,
                             ContextMethod method, int inner) {
  const int size = static_cast<int>(ranks.size());
  group_ = world.make_group("layers.cp", ranks);
  std::vector<int> ring = ranks;
  if (method == ContextMethod::kHierarchical) {
    if (inner < 1 || size % inner != 0)
      fail(ErrorKind::kUsage,
           "{} neighbours do not divide {} context-parallel ranks; choose a divisor of {}", inner,
           size, size);
    const int first = group_->rank() / inner * inner;
    inner_ =
        world.make_group("layers.cp.inner", {ranks.begin() + first, ranks.begin() + first + inner});
    ring.clear();
    for (int r = group_->rank() % inner; r < size; r += inner) ring.push_back(ranks[r]);
    outer_ = world.make_group("layers.cp.outer", ring);
  }
  if (method == ContextMethod::kRing || method == ContextMethod::kHierarchical)
    lane_ = world.make_group("layers.cp.lane", ring);
  parallel_ = {.group = group_.get(),
               .method = method,
               .lane = lane_.get(),
               .inner = inner_.get(),
               .outer = outer_.get()};
}

Segments token_segments(const mesh::TokenLayout& layout, int rank) {
  Segments segments;
  std::int64_t row = 0;
  for (const mesh::Share& range : layout.ranges.at(static_cast<std::size_t>(rank))) {
    segments.push_back({.row = row, .position = range.begin, .tokens = range.count()});
    row += range.count();
  }
  return segments;
}

at::Tensor shard_tokens(const at::Tensor& x, std::int64_t dim, const mesh::TokenLayout& layout,
                        int rank) {
  if (layout.ranks() == 1) return x;
  std::vector<at::Tensor> parts;
  for (const Segment& segment : token_segments(layout, rank))
    parts.push_back(x.narrow(dim, segment.position, segment.tokens));
  return at::cat(parts, dim);
}

at::Tensor unshard_tokens(const std::vector<at::Tensor>& shards, std::int64_t dim,
                          const mesh::TokenLayout& layout) {
  if (layout.ranks() == 1) return shards[0];
  std::vector<std::int64_t> shape = shards[0].sizes().vec();
  shape[dim] = layout.tokens;
  const at::Tensor whole = at::empty(shape, shards[0].options());
  for (int rank = 0; rank < layout.ranks(); ++rank)
    for (const Segment& segment : token_segments(layout, rank))
      whole.narrow(dim, segment.position, segment.tokens)
          .copy_(shards[rank].narrow(dim, segment.row, segment.tokens));
  return whole;
}

at::Tensor token_positions(const mesh::TokenLayout& layout, int rank) {
  return at::tensor(layout.positions(rank));
}

}  // namespace trireme::ops
