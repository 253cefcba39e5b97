#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "trireme/ops/aten/attention.h"
#include "trireme/ops/attention/attention_tiles.h"
#include "trireme/ops/flop_count.h"
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
template <typename T, typename Tiles>
class Forward {
 public:
  using A = kernels::Wide<T>;

  Forward(const AttentionProblem& problem, const Qkv& in, const Segments& keys)
      : problem_(problem),
        in_(in),
        mask_(problem.mask.rows(in.q.size(0), in.q.size(1), problem.sequence)),
        pieces_(cut(keys, Tiles::kColumns)),
        tile_(most_tokens(pieces_), in.q.scalar_type()) {
    for (const Segment& piece : pieces_) keys_.push_back({Keys(piece.tokens, in.k.size(3))});
  }

  // Brings `state`, that of the rows `block` of q, up to date with all keys.
  void add(std::int64_t sample, std::int64_t head, const Segment& block, BlockState<A>& state) {
    const BlockView view(mask_, sample, block);
    if (pieces_.size() == 1) prefetch_next(problem_, in_, sample, head, block);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Segment tile = view.tile(pieces_[i]);
      if (tile.tokens > 0) add_tile(sample, head, block, view, i, tile, state);
    }
  }

 private:
  using Keys = typename Tiles::Forward::Keys;
  struct PieceKeys {
    Keys keys;
    std::int64_t of = -1;  // sample and key-value head
  };

  void add_tile(std::int64_t sample, std::int64_t head, const Segment& block, const BlockView& view,
                std::size_t piece, const Segment& tile, BlockState<A>& state) {
    const std::int64_t width = in_.q.size(3), first = tile.row - pieces_[piece].row;
    const Keys& keys = keys_of(sample, problem_.heads.kv_head(head), piece);
    Interval seen[kTileRows];
    A factors[kTileRows];
    const kernels::ScoreBlock scores =
        score_block(problem_, width, tile_.stride(), sample, head, block, view, tile, seen);
    tile_.multiply_keys(head_of(in_.q, sample, head).from_row(block.row, block.tokens), keys, first,
                        scores);
    cap_scores<T>(scores, tile_.scores());
    kernels::score_kernels<T>().softmax(scores, tile_.scores(), tile_.probs(), state.running,
                                        factors);
    if (state.begun)
      kernels::row_kernels<A>().store_rows(data<A>(state.sum), factors, block.tokens, width,
                                           data<A>(state.sum), width);
    tile_.multiply_values(keys, first, scores, state.sum,
                          state.begun ? kernels::Into::kAdd : kernels::Into::kReplace);
    state.begun = true;
  }

  const Keys& keys_of(std::int64_t sample, std::int64_t kv_head, std::size_t piece) {
    PieceKeys& known = keys_[piece];
    const std::int64_t of = sample * in_.k.size(2) + kv_head;
    if (known.of != of) {
      const Segment& tokens = pieces_[piece];
      known.keys.set(head_of(in_.k, sample, kv_head).from_row(tokens.row, tokens.tokens),
                     head_of(in_.v, sample, kv_head).from_row(tokens.row, tokens.tokens));
      known.of = of;
    }
    return known.keys;
  }

  const AttentionProblem& problem_;
  const Qkv& in_;
  RowMask mask_;
  Segments pieces_;
  typename Tiles::Forward tile_;
  std::vector<PieceKeys> keys_;
};

// Two products for each query and each key that the mask shows it. Documents that lie on another device would have to be
// waited for: their operations count as unknown.
void count_attention(const AttentionProblem& problem, const Qkv& in, const Segments& keys) {
  if (!counting_flops()) return;
  for (const at::Tensor* places : {&problem.mask.documents.begin, &problem.mask.documents.end})
    if (places->defined() && !places->is_cpu())
      return count_flops(std::numeric_limits<double>::quiet_NaN());
  const std::int64_t samples = in.q.size(0);
  const RowMask mask = problem.mask.rows(samples, in.q.size(1), problem.sequence);
  std::int64_t pairs = 0;
  for (std::int64_t sample = 0; sample < samples; ++sample)
    for (const Segment& queries : problem.queries)
      for (std::int64_t row = 0; row < queries.tokens; ++row) {
        const Interval seen = mask.seen(sample, queries.row + row, queries.position + row);
        for (const Segment& part : keys)
          pairs += std::max<std::int64_t>(0, std::min(seen.end, part.position + part.tokens) -
                                                 std::max(seen.begin, part.position));
      }
  count_flops(4.0 * static_cast<double>(pairs) * static_cast<double>(in.q.size(2) * in.q.size(3)));
}

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
  count_attention(problem, in, keys);
  if (!has_kernels(in.q)) return aten::attention_forward(problem, in, keys, out);
  const std::int64_t tokens = in.q.size(1), heads = in.q.size(2), width = in.q.size(3);
  const at::Tensor log_sums = row_numbers(in.q, 0);
  TRIREME_DISPATCH(in.q.scalar_type(), "attention", [&] {
    using A = kernels::Wide<scalar_t>;
    with_tiles<scalar_t>(width, [&](auto tiles) {
      const Segments blocks = cut(problem.queries, decltype(tiles)::Forward::kRows);
      for_rows(in.q.size(0) * heads, head_cost(in), [&](std::int64_t begin, std::int64_t end) {
        Forward<scalar_t, decltype(tiles)> forward(problem, in, keys);
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
  count_attention(problem, in, keys);
  if (!has_kernels(in.q)) return aten::attention_add(problem, in, keys, partial);
  const std::int64_t heads = in.q.size(2);
  TRIREME_DISPATCH(in.q.scalar_type(), "attention_add", [&] {
    using A = kernels::Wide<scalar_t>;
    with_tiles<scalar_t>(in.q.size(3), [&](auto tiles) {
      const Segments blocks = cut(problem.queries, decltype(tiles)::Forward::kRows);
      for_rows(in.q.size(0) * heads, head_cost(in), [&](std::int64_t begin, std::int64_t end) {
        Forward<scalar_t, decltype(tiles)> forward(problem, in, keys);
        for (std::int64_t i = begin; i < end; ++i)
          for (const Segment& block : blocks) {
            auto state = state_of<A>(partial, i / heads, i % heads, block);
            forward.add(i / heads, i % heads, block, state);
          }
      });
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
