#include "trireme/ops/attention/context.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/plan/mesh/share.h"
#include "trireme/plan/mesh/zigzag.h"

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
    for (int r = group_->rank() % inner; r < size; r += inner)
      ring.push_back(ranks[static_cast<std::size_t>(r)]);
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

Segments zigzag_segments(std::int64_t tokens, int rank, int ranks) {
  if (ranks == 1) return {{.row = 0, .position = 0, .tokens = tokens}};
  const std::int64_t half = mesh::zigzag_tokens(tokens, ranks) / 2;
  const auto [first, second] = mesh::zigzag_begins(tokens, rank, ranks);
  return {{.row = 0, .position = first, .tokens = half},
          {.row = half, .position = second, .tokens = half}};
}

Segments token_segments(const ContextParallel& context, std::int64_t tokens, int rank) {
  if (context.rows == 0) return zigzag_segments(tokens, rank, context.size());
  const mesh::Share own = mesh::share(tokens, rank, context.size());
  return {{.row = 0, .position = own.begin, .tokens = own.count()}};
}

at::Tensor shard_tokens(const at::Tensor& x, std::int64_t dim, int rank, int ranks) {
  if (ranks == 1) return x;
  std::vector<at::Tensor> chunks;
  for (const Segment& segment : zigzag_segments(x.size(dim), rank, ranks))
    chunks.push_back(x.narrow(dim, segment.position, segment.tokens));
  return at::cat(chunks, dim);
}

at::Tensor unshard_tokens(const std::vector<at::Tensor>& shards, std::int64_t dim) {
  const int ranks = static_cast<int>(shards.size());
  if (ranks == 1) return shards[0];
  std::vector<std::int64_t> shape = shards[0].sizes().vec();
  std::int64_t& tokens = shape[static_cast<std::size_t>(dim)];
  tokens *= ranks;
  const at::Tensor whole = at::empty(shape, shards[0].options());
  for (int rank = 0; rank < ranks; ++rank)
    for (const Segment& segment : zigzag_segments(tokens, rank, ranks))
      whole.narrow(dim, segment.position, segment.tokens)
          .copy_(shards[static_cast<std::size_t>(rank)].narrow(dim, segment.row, segment.tokens));
  return whole;
}

at::Tensor token_positions(std::int64_t tokens, int rank, int ranks) {
  const std::vector<std::int64_t> positions = mesh::zigzag_positions(tokens, rank, ranks);
  at::Tensor result = at::empty({std::ssize(positions)}, at::TensorOptions().dtype(at::kLong));
  std::ranges::copy(positions, result.data_ptr<std::int64_t>());
  return result;
}

}  // namespace trireme::ops
