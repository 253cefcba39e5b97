// Dynamic chunks of a clip's tokens: a forest over time, rows and columns in the place of H-Net's line. A token begins a
// chunk or joins the one of the token before it that it is most like.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/config/job.h"
#include "trireme/families/hnet/blocks_scan.h"
#include "trireme/model/families/encoder.h"

namespace trireme::blocks {

// Tokens that are there of packed clips: rows [rows], ascending within a sequence.
struct GridRows {
  // ids: int64 [rows], modulo a grid's tokens; bounds: int32 or int64 prefix sums of the sequences' rows.
  GridRows(const at::Tensor& ids, const at::Tensor& bounds, const model::PatchGrid& grid);

  // Rows of the tokens at these offsets (int64 [offsets, 3]) from each row, int64 [rows, offsets]; -1 for tokens
  // outside the grid or absent.
  at::Tensor rows_at(const at::Tensor& offsets) const;

  at::Tensor places;  // int64 [rows, 3]: time, row, column
  Sequences sequences;

 private:
  model::PatchGrid grid_;
  at::Tensor rows_;  // of all tokens of all sequences, -1 where one is not there
};

// The tokens before one: earlier by a time, a row or a column. int64 [3, 3].
at::Tensor before_offsets(at::Device device);
// Those around one, in the order of ids, without it: int64 [26, 3].
at::Tensor around_offsets(at::Device device);

// Which chunk a row is in. Chunks are numbered by the rows that begin them.
struct Forest {
  at::Tensor
      p;  // [rows], in [0, 1]: distance of a row to the nearest row before it; 1 where there is
          // none
  at::Tensor boundary;  // bool [rows]: begins a chunk
  at::Tensor root;      // int64 [rows]: the row that begins its chunk
  at::Tensor
      nearest;  // int64 [rows]: the earlier row that a row joins, or would join; -1 where there is
                // none
};
// The row that begins everyone's chunk, int64 [rows]: parents have lower rows, and each jump doubles how far a chain has
// come.
at::Tensor chunk_roots(const at::Tensor& boundary, const at::Tensor& nearest);

// With c the cosine of `query` x_j and `key` x_i, p_i = (1 - max c) / 2 over the rows j before i. A row that is not a
// boundary joins the j of that maximum (of equals: by time, row, column). Boundaries are, by mode,
// - threshold: p > 0.5;
// - topk: the ceil(rows / ratio) largest p of each sequence, and all rows that have none before them;
// - fixed: every ratio-th column, and a row whose previous column is absent; the rows between join these. p is 1 at
//   boundaries and else 0, independent of x; query and key are undefined.
// x: [rows, d]; query, key: [d, d].
Forest forest(const at::Tensor& x, const at::Tensor& query, const at::Tensor& key,
              const GridRows& rows, const config::Chunk& chunk);

// Parameters of pooling: [d, d] and [d]; for keys, then values, [2 d, d] and [2 d].
struct PoolParams {
  at::Tensor query, query_bias, kv, kv_bias;
};
struct PooledChunks {
  at::Tensor x;          // [chunks, d]
  at::Tensor centroids;  // [chunks, 3], no gradient
  at::Tensor sizes;      // int64 [chunks]
  at::Tensor starts;     // [chunks]: 1 where a sequence begins
};
// chunk = x_root + sum over members i of w_i g_i (value x_i). w is the softmax over members of query x_root . key x_i /
// sqrt(d), g the router's straight-through confidence. Centroids are means weighted by w.
PooledChunks pool(const at::Tensor& x, const Forest& forest, const GridRows& rows,
                  const PoolParams& params);

}  // namespace trireme::blocks
