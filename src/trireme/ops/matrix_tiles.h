// Tiles of attention by products of matrices as they lie in memory: every type, on every CPU.
#pragma once

#include "trireme/ops/attention/attention_tile.h"

namespace trireme::ops {

template <typename T>
struct MatrixTiles {
  using A = kernels::Wide<T>;

  static constexpr std::int64_t kColumns = kTileColumns;

  // Keys and values of one segment of a head.
  struct Keys {
    Keys(std::int64_t, std::int64_t) {}
    void set(const kernels::Matrix& keys, const kernels::Matrix& values) { k = keys, v = values; }

    kernels::Matrix k, v;
  };

  // The scores of a block of queries with `block.columns` keys from key `first` on, and what they weigh.
  class Forward {
   public:
    using Keys = MatrixTiles::Keys;
    static constexpr std::int64_t kRows = kTileRows;

    Forward(std::int64_t columns, at::ScalarType type) : scores_(columns, type) {}

    std::int64_t stride() const { return scores_.stride(); }
    A* scores() const { return scores_.raw<A>(); }
    T* probs() const { return scores_.stored<T>(); }

    void multiply_keys(const kernels::Matrix& q, const Keys& keys, std::int64_t first,
                       const kernels::ScoreBlock& block) {
      kernels::matmul(q, keys.k.from_row(first, block.columns).transposed(), scores_.raw(block));
    }
    void multiply_values(const Keys& keys, std::int64_t first, const kernels::ScoreBlock& block,
                         const kernels::Matrix& sum, kernels::Into into) {
      kernels::matmul(scores_.stored(block), keys.v.from_row(first, block.columns), sum, into);
    }

   private:
    TileScores scores_;
  };

  // The same scores' share in the gradients.
  class Backward {
   public:
    using Keys = MatrixTiles::Keys;

    Backward(std::int64_t columns, std::int64_t, at::ScalarType type)
        : scores_(columns, type), dscores_(columns, type) {}

    std::int64_t stride() const { return scores_.stride(); }

    void add(const BlockRows<A>& rows, const Keys& keys, std::int64_t first,
             const kernels::ScoreBlock& block, const TileSums& to) {
      const kernels::Matrix k = keys.k.from_row(first, block.columns);
      const kernels::Matrix v = keys.v.from_row(first, block.columns);
      kernels::matmul(rows.q, k.transposed(), scores_.raw(block));
      kernels::matmul(rows.dout, v.transposed(), dscores_.raw(block));
      cap_scores<T>(block, scores_.raw<A>());
      kernels::score_kernels<T>().softmax_backward(block, scores_.raw<A>(), dscores_.raw<A>(),
                                                   rows.log_sums, rows.delta, scores_.stored<T>(),
                                                   dscores_.stored<T>());
      kernels::matmul(scores_.stored(block).transposed(), rows.dout, to.dv, kernels::Into::kAdd);
      kernels::matmul(dscores_.stored(block).transposed(), rows.q, to.dk, kernels::Into::kAdd);
      kernels::matmul(dscores_.stored(block), k, to.dq, to.into);
    }

   private:
    TileScores scores_;
    TileScores dscores_;
  };
};

}  // namespace trireme::ops
