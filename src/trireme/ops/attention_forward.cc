#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "trireme/ops/aten/attention.h"
#include "trireme/ops/attention_tile.h"
#include "trireme/ops/kernels/cpu/rows.h"

namespace trireme::ops {
namespace {

// A block of query rows on its way over the keys.
template <typename A>
struct BlockState {
  kernels::Matrix sum;  // holds nothing until `begun`
  kernels::Running<A> running;
  bool begun = false;
};

// out = sum / sums, 0 where a row saw nothing.
template <typename T>
void finish(const BlockState<kernels::Wide<T>>& state, const kernels::Matrix& out,
            kernels::Wide<T>* log_sums) {
  using A = kernels::Wide<T>;
  A shares[kTileRows];
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const A sum = state.running.sums[r];
    const bool blind = sum == 0;
    shares[r] = blind ? A(0) : A(1) / sum;
    log_sums[r] =
        blind ? -std::numeric_limits<A>::infinity() : state.running.tops[r] + std::log(sum);
  }
  A* const rows = data<A>(state.sum);
  if (!state.begun) std::fill(rows, rows + out.rows * out.columns, A(0));
  kernels::row_kernels<T>().store_rows(rows, shares, out.rows, out.columns, data<T>(out),
                                       out.row_stride);
}

// The forward pass of single blocks; one for each thread.
template <typename T>
class Forward {
 public:
  using A = kernels::Wide<T>;

  Forward(const AttentionProblem& problem, const Qkv& in, const Segments& keys)
      : problem_(problem),
        in_(in),
        mask_(problem.mask.rows(in.q.size(0), in.q.size(1), problem.sequence)),
        pieces_(cut(keys, kTileColumns)),
        scores_(tile_columns(keys), in.q.scalar_type()) {}

  // Brings `state`, that of the rows `block` of q, up to date with all keys.
  void add(std::int64_t sample, std::int64_t head, const Segment& block, BlockState<A>& state) {
    const BlockView view(mask_, sample, block);
    for (const Segment& piece : pieces_) {
      const Segment tile = view.tile(piece);
      if (tile.tokens > 0) add_tile(sample, head, block, view, tile, state);
    }
  }

 private:
  void add_tile(std::int64_t sample, std::int64_t head, const Segment& block, const BlockView& view,
                const Segment& tile, BlockState<A>& state) {
    const std::int64_t kv_head = problem_.heads.kv_head(head), width = in_.q.size(3);
    const kernels::Matrix q = head_of(in_.q, sample, head).from_row(block.row, block.tokens);
    const kernels::Matrix k = head_of(in_.k, sample, kv_head).from_row(tile.row, tile.tokens);
    const kernels::Matrix v = head_of(in_.v, sample, kv_head).from_row(tile.row, tile.tokens);
    const kernels::Matrix raw = scores_.raw(block.tokens, tile.tokens);
    const kernels::Matrix probs = scores_.stored(block.tokens, tile.tokens);
    Interval seen[kTileRows];
    A factors[kTileRows];
    kernels::matmul(q, k.transposed(), raw);
    kernels::score_kernels<T>().softmax(
        score_block(problem_, width, scores_.stride(), sample, head, block, view, tile, seen),
        data<A>(raw), data<T>(probs), state.running, factors);
    if (state.begun)
      kernels::row_kernels<A>().store_rows(data<A>(state.sum), factors, block.tokens, width,
                                           data<A>(state.sum), width);
    kernels::matmul(probs, v, state.sum,
                    state.begun ? kernels::Into::kAdd : kernels::Into::kReplace);
    state.begun = true;
  }

  const AttentionProblem& problem_;
  const Qkv& in_;
  RowMask mask_;
  Segments pieces_;
  TileScores scores_;
};

at::Tensor row_numbers(const at::Tensor& q, double value) {
  return at::full({q.size(0), q.size(2), q.size(1)}, value,
                  q.options().dtype(wide(q.scalar_type())));
}

// The state of some rows in the memory of all.
template <typename A>
BlockState<A> state_of(const PartialAttention& partial, std::int64_t sample, std::int64_t head,
                       const Segment& block) {
  const std::int64_t rows = partial.sums.size(2), width = partial.sum.size(3);
  const std::int64_t first = (sample * partial.sums.size(1) + head) * rows + block.row;
  return {.sum = {.data = elements<A>(partial.sum) + first * width,
                  .type = partial.sum.scalar_type(),
                  .rows = block.tokens,
                  .columns = width,
                  .row_stride = width},
          .running = {.tops = elements<A>(partial.tops) + first,
                      .sums = elements<A>(partial.sums) + first},
          .begun = true};
}

}  // namespace

at::Tensor attention_forward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                             const at::Tensor& out) {
  if (!has_kernels(in.q)) return aten::attention_forward(problem, in, keys, out);
  const std::int64_t tokens = in.q.size(1), heads = in.q.size(2), width = in.q.size(3);
  const at::Tensor log_sums = row_numbers(in.q, 0);
  const Segments blocks = cut(problem.queries, kTileRows);
  TRIREME_DISPATCH(in.q.scalar_type(), "attention", [&] {
    using A = kernels::Wide<scalar_t>;
    for_rows(in.q.size(0) * heads, head_cost(in), [&](std::int64_t begin, std::int64_t end) {
      Forward<scalar_t> forward(problem, in, keys);
      const at::Tensor sum = at::empty({kTileRows, width}, log_sums.options());
      for (std::int64_t i = begin; i < end; ++i)
        for (const Segment& block : blocks) {
          A tops[kTileRows], sums[kTileRows] = {};
          std::fill(tops, tops + kTileRows, -std::numeric_limits<A>::infinity());
          BlockState<A> state{.sum = first_rows(sum, block.tokens),
                              .running = {.tops = tops, .sums = sums}};
          forward.add(i / heads, i % heads, block, state);
          finish<scalar_t>(state,
                           head_of(out, i / heads, i % heads).from_row(block.row, block.tokens),
                           elements<A>(log_sums) + i * tokens + block.row);
        }
    });
  });
  return log_sums;
}

PartialAttention no_attention(const at::Tensor& q) {
  const at::Tensor sums = row_numbers(q, 0);
  return {.sum = at::zeros({q.size(0), q.size(2), q.size(1), q.size(3)}, sums.options()),
          .tops = row_numbers(q, -std::numeric_limits<double>::infinity()),
          .sums = sums};
}

void attention_add(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                   const PartialAttention& partial) {
  if (!has_kernels(in.q)) return aten::attention_add(problem, in, keys, partial);
  const std::int64_t heads = in.q.size(2);
  const Segments blocks = cut(problem.queries, kTileRows);
  TRIREME_DISPATCH(in.q.scalar_type(), "attention_add", [&] {
    for_rows(in.q.size(0) * heads, head_cost(in), [&](std::int64_t begin, std::int64_t end) {
      Forward<scalar_t> forward(problem, in, keys);
      for (std::int64_t i = begin; i < end; ++i)
        for (const Segment& block : blocks) {
          auto state = state_of<kernels::Wide<scalar_t>>(partial, i / heads, i % heads, block);
          forward.add(i / heads, i % heads, block, state);
        }
    });
  });
}

at::Tensor attention_finish(const PartialAttention& partial, const at::Tensor& out) {
  if (!has_kernels(out)) return aten::attention_finish(partial, out);
  const std::int64_t tokens = out.size(1), heads = out.size(2);
  const at::Tensor log_sums = row_numbers(out, 0);
  const Segments blocks = cut(Segments{{.tokens = tokens}}, kTileRows);
  TRIREME_DISPATCH(out.scalar_type(), "attention_finish", [&] {
    using A = kernels::Wide<scalar_t>;
    for_rows(out.size(0) * heads, tokens * out.size(3), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        for (const Segment& block : blocks)
          finish<scalar_t>(state_of<A>(partial, i / heads, i % heads, block),
                           head_of(out, i / heads, i % heads).from_row(block.row, block.tokens),
                           elements<A>(log_sums) + i * tokens + block.row);
    });
  });
  return log_sums;
}

}  // namespace trireme::ops
