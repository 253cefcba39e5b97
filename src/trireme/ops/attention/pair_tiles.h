// Tiles of attention in bf16 by products of pairs (kernels/cpu/pairs.h): keys and values are packed once for all queries.
#pragma once

#include "trireme/ops/attention/attention_tile.h"
#include "trireme/ops/attention/packed_pairs.h"

namespace trireme::ops {

using tiles::kCacheRows;

struct PairTiles {
  using T = c10::BFloat16;

  static constexpr std::int64_t kColumns = tiles::kPairColumns;

  static kernels::PairRows rows_of(const kernels::Matrix& m) {
    return {.data = m.data, .stride = m.row_stride, .rows = m.rows};
  }

  class Forward {
   public:
    struct Keys {
      Keys(std::int64_t tokens, std::int64_t width) : k(width, tokens), v(tokens, width) {}
      void set(const kernels::Matrix& keys, const kernels::Matrix& values) {
        k.pack_transposed(keys);
        v.pack(values);
      }

      PackedPairs k, v;
    };

    static constexpr std::int64_t kRows = kCacheRows;

    Forward(std::int64_t columns, at::ScalarType type) : scores_(columns, type, kRows, kRows) {}

    std::int64_t stride() const { return scores_.stride(); }
    float* scores() const { return scores_.raw<float>(); }
    T* probs() const { return scores_.stored<T>(); }

    void multiply_keys(const kernels::Matrix& q, const Keys& keys, std::int64_t first,
                       const kernels::ScoreBlock& block) {
      seen_.set(block);
      kernels::pair_kernels().multiply_seen(rows_of(q), q.columns,
                                            keys.k.panels().from_column(first, block.columns),
                                            seen_.columns, scores(), stride());
    }
    void multiply_values(const Keys& keys, std::int64_t first, const kernels::ScoreBlock& block,
                         const kernels::Matrix& sum, kernels::Into into) {
      kernels::pair_kernels().multiply_part(rows_of(scores_.stored(block)), seen_.columns,
                                            keys.v.panels().from_inner(first), data<float>(sum),
                                            sum.row_stride, into == kernels::Into::kAdd);
    }

   private:
    TileScores scores_;
    kernels::SeenStrips seen_;
  };

  class Backward {
   public:
    struct Keys {
      Keys(std::int64_t tokens, std::int64_t width)
          : k_across(width, tokens), v_across(width, tokens), k(tokens, width) {}
      void set(const kernels::Matrix& keys, const kernels::Matrix& values) {
        k_across.pack_transposed(keys);
        v_across.pack_transposed(values);
        k.pack(keys);
      }

      PackedPairs k_across, v_across, k;
    };

    Backward(std::int64_t columns, std::int64_t width, at::ScalarType type)
        : scores_(columns, type, kCacheRows),
          dscores_(columns, type, kCacheRows),
          dscore_rows_(at::empty({kTileRows * scores_.stride()}, at::TensorOptions().dtype(type))),
          q_(kTileRows, width),
          dout_(kTileRows, width) {}

    std::int64_t stride() const { return scores_.stride(); }

    void add(const BlockRows<float>& rows, const Keys& keys, std::int64_t first,
             const kernels::ScoreBlock& block, const TileSums& to) {
      const kernels::PairKernels& kernels = kernels::pair_kernels();
      const auto down = [&](const TileScores& pairs, const PackedPairs& b,
                            const kernels::Matrix& sum) {
        kernels.multiply_part({.data = pairs.stored<T>(),
                               .stride = stride(),
                               .rows = block.columns,
                               .transposed = true},
                              seen_.rows, b.panels(), data<float>(sum), sum.row_stride, true);
      };
      seen_.set(block);
      seen_.transpose(block);
      q_.pack(rows.q);
      dout_.pack(rows.dout);
      T* const dscores = dscore_rows_.data_ptr<T>();
      for (std::int64_t row = 0; row < block.rows; row += kCacheRows) {
        const kernels::ScoreBlock part = block.from_row(row, kCacheRows);
        const auto across = [&](const kernels::Matrix& a, const PackedPairs& b, float* out) {
          kernels.multiply_seen(rows_of(a.from_row(row, part.rows)), a.columns,
                                b.panels().from_column(first, block.columns),
                                kernels::Strips(seen_.columns)
                                    .subspan(static_cast<std::size_t>(row / kernels::kStrip)),
                                out, stride());
        };
        across(rows.q, keys.k_across, scores_.raw<float>());
        across(rows.dout, keys.v_across, dscores_.raw<float>());
        cap_scores<T>(part, scores_.raw<float>());
        kernels.softmax_backward(part, scores_.raw<float>(), dscores_.raw<float>(),
                                 rows.log_sums + row, rows.delta + row,
                                 pairs(scores_) + row / 2 * stride(),
                                 pairs(dscores_) + row / 2 * stride(), dscores + row * stride());
      }
      down(scores_, dout_, to.dv);
      down(dscores_, q_, to.dk);
      kernels.multiply_part({.data = dscores, .stride = stride(), .rows = block.rows},
                            seen_.columns, keys.k.panels().from_inner(first), data<float>(to.dq),
                            to.dq.row_stride, to.into == kernels::Into::kAdd);
    }

   private:
    static std::uint32_t* pairs(const TileScores& scores) {
      return reinterpret_cast<std::uint32_t*>(scores.stored<T>());
    }

    TileScores scores_;   // stored: pairs of rows of probabilities
    TileScores dscores_;  // stored: pairs of rows of their gradients
    at::Tensor dscore_rows_;
    PackedPairs q_, dout_;
    kernels::SeenStrips seen_;
  };
};

}  // namespace trireme::ops
