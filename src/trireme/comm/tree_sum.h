// The canonical association of sums: one balanced binary tree, the same on every back end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/base/dtype.h"
#include "trireme/comm/operation.h"

// n leaves 0 .. n-1 are added level by level: (0,1), (2,3), ..., then pairs of pairs; an odd last element moves up
// unchanged. So tree(n) = tree(p) + tree(the other n-p) where p is the largest power of two below n. For n a power of
// two, leaves may therefore be added in aligned blocks of 2^k first (inside a rank) and the blocks after (across
// ranks): the bits are the same. A rank that adds its leaves one at a time keeps a binary counter of partial sums, and
// folds equals with add_into(earlier, later). At the end of an aligned block one sum is left. Numbers are added in
// their type (bf16, fp16: see below); results do not depend on where a slice begins.
namespace trireme::comm {

// Types that can be reduced, but not averaged, and whose sums are equal in any order.
bool is_integral(DType type);

// dst[i] += src[i]. Types: fp64, fp32, int64, int32, int16, uint8 (integers wrap), bf16 and fp16. The last two add in fp32 and
// round to nearest even at every call, so canonical sums over several calls are kept in fp32. Throws Error{kInternal}
// on other types.
void add_into(void* dst, const void* src, std::int64_t count, DType type);

// out[i] = the tree over leaves[0][i], leaves[1][i], ... with sum, max (NaN wins) or avg (sum divided by the number of
// leaves). Sums of bf16 and fp16 are accumulated in fp32 and rounded once. `out` may be one of the leaves. At least one
// leaf. Throws Error{kInternal} on types that cannot be reduced.
void tree_reduce(void* out, std::span<const void* const> leaves, std::int64_t count, DType type,
                 Reduce reduce);

// Use of the leaves: those of a whole tree, of aligned blocks of 2^k of its n leaves (the last one may be shorter), or
// the blocks' sums. Together these give the bits of the whole.
struct Reduction {
  static Reduction whole(DType type, Reduce reduce, std::size_t n);
  static Reduction block(DType type, Reduce reduce);
  static Reduction of_blocks(DType type, Reduce reduce, std::size_t n);

  DType from;  // of a leaf
  DType to;    // of the result: a block's bf16 or fp16 stays fp32
  bool max;
  std::size_t divisor;
};

// As tree_reduce, written to each of `outs`. Where both types are one, any may be any of the leaves.
void tree_reduce(std::span<void* const> outs, std::span<const void* const> leaves,
                 std::int64_t count, const Reduction& reduction);

}  // namespace trireme::comm
