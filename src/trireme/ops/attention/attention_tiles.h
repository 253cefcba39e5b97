// The two ways to compute tiles of attention, and which is taken.
#pragma once

#include <type_traits>

#include "trireme/ops/attention/pair_tiles.h"
#include "trireme/ops/matrix_tiles.h"

namespace trireme::ops {

// Calls run(tiles) for heads of `width` elements of T.
template <typename T, typename Run>
void with_tiles(std::int64_t width, const Run& run) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    if (kernels::multiplies_pairs(width)) return run(PairTiles{});
  run(MatrixTiles<T>{});
}

}  // namespace trireme::ops
