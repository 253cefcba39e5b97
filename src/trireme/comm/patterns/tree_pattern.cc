#include "trireme/comm/patterns/tree_pattern.h"

#include <algorithm>
#include <memory>

#include "trireme/comm/copy_bytes.h"

namespace trireme::comm {
namespace {

void add_leaves(std::vector<const void*> leaves, std::size_t count, const Reduction& reduction,
                std::byte* out) {
  void* const outs[] = {out};
  tree_reduce(outs, leaves, static_cast<std::int64_t>(count), reduction);
}

}  // namespace

TreePattern::TreePattern(Transport& transport, const std::vector<int>& ranks, int rank)
    : Pattern(transport, ranks, rank) {
  for (const int half : {0, 1})
    roles_[half] = algorithm::tree_role(static_cast<int>(ranks.size()), rank, half);
  // What waits for fewer others goes first. Messages of a pair are then in one order on both sides.
  up_ = roles_[1].span < roles_[0].span ? std::array{1, 0} : std::array{0, 1};
  down_ = roles_[1].depth < roles_[0].depth ? std::array{1, 0} : std::array{0, 1};
}

void TreePattern::add_whole(const std::byte* data, std::size_t bytes, const Reduction& reduction,
                            std::byte* out) {
  in_steps(Slices{Slice{0, bytes}}, width(reduction.from), [&](std::size_t begin, std::size_t end) {
    const std::size_t count = (std::min(end, bytes) - begin) / width(reduction.from);
    add_part(data + begin, count, Stages(reduction),
             out + begin / width(reduction.from) * width(reduction.to));
  });
}

void TreePattern::add_part(const std::byte* data, std::size_t count, const Stages& stages,
                           std::byte* out) {
  const std::array<std::size_t, 2> counts = {(count + 1) / 2, count / 2};
  const auto first = [&](int half) { return half == 0 ? 0 : counts[0]; };
  const std::size_t given = width(stages.whole.from), kept = width(stages.sum),
                    made = width(stages.whole.to);
  std::vector<std::unique_ptr<Outgoing>> sent;
  // Leaves go up first, and are received first.
  for (const int half : {0, 1})
    if (roles_[half].leaf_to != self())
      sent.push_back(
          direct().post(data + first(half) * given, counts[half] * given, roles_[half].leaf_to));
  for (const int half : {0, 1})
    for (const int side : {0, 1}) {
      if (roles_[half].span == 0) continue;
      const auto& child = roles_[half].children[side];
      std::vector<std::byte>& addend = addends_[half][side];
      addend.resize(counts[half] * kept);
      if (!child.leaf) continue;
      const std::byte* leaf = data + first(half) * given;
      if (child.host != self()) {
        leaf_.resize(counts[half] * given);
        direct().recv(leaf_.data(), leaf_.size(), child.host);
        leaf = leaf_.data();
      }
      add_leaves({leaf}, counts[half], stages.first, addend.data());
    }
  for (const int half : up_) {
    const algorithm::TreeRole& role = roles_[half];
    if (role.span == 0) continue;
    for (const int side : {0, 1})
      if (!role.children[side].leaf)
        direct().recv(addends_[half][side].data(), counts[half] * kept, role.children[side].host);
    results_[half].resize(counts[half] * std::max(kept, made));
    add_leaves({addends_[half][0].data(), addends_[half][1].data()}, counts[half],
               role.up < 0 ? stages.last : stages.middle, results_[half].data());
    if (role.up >= 0)
      sent.push_back(direct().post(results_[half].data(), counts[half] * kept, role.up));
  }
  for (const auto& message : sent) message->finish();
  sent.clear();
  for (const int half : down_) {
    const algorithm::TreeRole& role = roles_[half];
    std::byte* const to = out + first(half) * made;
    if (role.down_from >= 0)
      direct().recv(to, counts[half] * made, role.down_from);
    else
      copy_bytes(to, results_[half].data(), counts[half] * made);
    for (const int other : role.down_to)
      sent.push_back(direct().post(to, counts[half] * made, other));
  }
  for (const auto& message : sent) message->finish();
}

}  // namespace trireme::comm
