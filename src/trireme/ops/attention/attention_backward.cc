#include <ATen/ops/empty_like.h>

#include <array>

#include "trireme/ops/aten/attention.h"
#include "trireme/ops/attention/attention_tiles.h"
#include "trireme/ops/kernels/cpu/rows.h"

namespace trireme::ops {
namespace {

// The backward pass of single key-value heads; one for each thread.
template <typename T, typename Tiles>
class Backward {
 public:
  using A = kernels::Wide<T>;

  Backward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
           const AttentionRows& rows, const QkvSinks& sinks)
      : problem_(problem),
        in_(in),
        rows_(rows),
        sinks_(sinks),
        mask_(problem.mask.rows(in.q.size(0), in.q.size(1), problem.sequence)),
        blocks_(cut(problem.queries, kTileRows)),
        pieces_(cut(keys, Tiles::kColumns)),
        tile_(most_tokens(pieces_), in.q.size(3), in.q.scalar_type()),
        keys_(most_tokens(pieces_), in.q.size(3)) {
    const std::int64_t width = in.q.size(3);
    const auto options = rows.log_sums.options();
    if (!sinks.dq.add) dq_ = at::empty({single() ? kTileRows : in.q.size(1), width}, options);
    if (!sinks.dk.add) {
      dk_ = at::empty({in.k.size(1), width}, options);
      dv_ = at::empty({in.k.size(1), width}, options);
    }
  }

  void run(std::int64_t sample, std::int64_t kv_head) {
    look(sample);
    const kernels::Matrix dk = sum_of(sinks_.dk, dk_, sample, kv_head);
    const kernels::Matrix dv = sum_of(sinks_.dv, dv_, sample, kv_head);
    const AttentionHeads& heads = problem_.heads;
    const std::int64_t first = kv_head * heads.group - heads.offset;
    for (std::int64_t head = std::max<std::int64_t>(0, first);
         head < std::min(heads.heads, first + heads.group); ++head) {
      if (single())
        run_single(sample, head, kv_head, dk, dv);
      else
        run_tiled(sample, head, kv_head, dk, dv);
    }
    store(dk, sinks_.dk, sample, kv_head, 0);
    store(dv, sinks_.dv, sample, kv_head, 0);
  }

 private:
  using Keys = typename Tiles::Backward::Keys;

  // Views of blocks are the same for all heads and ranges of keys.
  void look(std::int64_t sample) {
    if (views_of_ == sample) return;
    views_of_ = sample;
    views_.clear();
    for (const Segment& block : blocks_) views_.emplace_back(mask_, sample, block);
  }

  // All keys in one tile: a block's gradient is done with it.
  bool single() const { return pieces_.size() == 1 && !sinks_.dq.add; }

  void run_single(std::int64_t sample, std::int64_t head, std::int64_t kv_head,
                  const kernels::Matrix& dk, const kernels::Matrix& dv) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const Segment& block = blocks_[b];
      const BlockView& view = views_[b];
      const kernels::Matrix dq = first_rows(dq_, block.tokens);
      prefetch_next(problem_, in_, sample, head, block);
      const Segment tile = view.tile(pieces_[0]);
      if (tile.tokens > 0)
        add_tile(sample, head, kv_head, block, view, 0, tile,
                 {.dq = dq, .dk = dk, .dv = dv, .into = kernels::Into::kReplace});
      else
        clear(dq);
      store(dq, sinks_.dq, sample, head, block.row);
    }
  }

  // Keys outermost: those of a tile and the sums of their gradients stay in the cache while all rows pass by.
  void run_tiled(std::int64_t sample, std::int64_t head, std::int64_t kv_head,
                 const kernels::Matrix& dk, const kernels::Matrix& dv) {
    const kernels::Matrix dq = sum_of(sinks_.dq, dq_, sample, head);
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::size_t b = 0; b < blocks_.size(); ++b) {
        const Segment& block = blocks_[b];
        const Segment tile = views_[b].tile(pieces_[i]);
        if (tile.tokens > 0)
          add_tile(sample, head, kv_head, block, views_[b], i, tile,
                   {.dq = dq.from_row(block.row, block.tokens),
                    .dk = dk,
                    .dv = dv,
                    .into = kernels::Into::kAdd});
      }
    store(dq, sinks_.dq, sample, head, 0);
  }

  // `to` has the gradients of all keys.
  void add_tile(std::int64_t sample, std::int64_t head, std::int64_t kv_head, const Segment& block,
                const BlockView& view, std::size_t piece, const Segment& tile, TileSums to) {
    const std::int64_t row = (sample * in_.q.size(2) + head) * in_.q.size(1) + block.row;
    Interval seen[kTileRows];
    to.dk = to.dk.from_row(tile.row, tile.tokens);
    to.dv = to.dv.from_row(tile.row, tile.tokens);
    tile_.add(
        {.q = head_of(in_.q, sample, head).from_row(block.row, block.tokens),
         .dout = head_of(rows_.dout, sample, head).from_row(block.row, block.tokens),
         .log_sums = elements<A>(rows_.log_sums) + row,
         .delta = elements<A>(rows_.delta) + row},
        keys_of(sample, kv_head, piece), tile.row - pieces_[piece].row,
        score_block(problem_, in_.q.size(3), tile_.stride(), sample, head, block, view, tile, seen),
        to);
  }

  const Keys& keys_of(std::int64_t sample, std::int64_t kv_head, std::size_t piece) {
    const std::array of = {sample, kv_head, static_cast<std::int64_t>(piece)};
    if (keys_are_of_ != of) {
      const Segment& tokens = pieces_[piece];
      keys_.set(head_of(in_.k, sample, kv_head).from_row(tokens.row, tokens.tokens),
                head_of(in_.v, sample, kv_head).from_row(tokens.row, tokens.tokens));
      keys_are_of_ = of;
    }
    return keys_;
  }

  // Where the sums of a head grow: in the sink's memory, or in our own, from zero.
  static kernels::Matrix sum_of(const GradientSink& sink, const at::Tensor& own,
                                std::int64_t sample, std::int64_t head) {
    if (sink.add) return head_of(sink.to, sample, head);
    const kernels::Matrix sum = first_rows(own, own.size(0));
    clear(sum);
    return sum;
  }
  static void clear(const kernels::Matrix& sum) {
    std::fill(data<A>(sum), data<A>(sum) + sum.rows * sum.columns, A(0));
  }
  static void store(const kernels::Matrix& sum, const GradientSink& sink, std::int64_t sample,
                    std::int64_t head, std::int64_t row) {
    if (sink.add) return;
    const kernels::Matrix to = head_of(sink.to, sample, head).from_row(row, sum.rows);
    kernels::row_kernels<T>().store_rows(data<A>(sum), nullptr, sum.rows, sum.columns, data<T>(to),
                                         to.row_stride);
  }

  const AttentionProblem& problem_;
  const Qkv& in_;
  const AttentionRows& rows_;
  const QkvSinks& sinks_;
  RowMask mask_;
  Segments blocks_;
  Segments pieces_;
  std::vector<BlockView> views_;  // parallel to blocks
  std::int64_t views_of_ = -1;    // sample
  typename Tiles::Backward tile_;
  Keys keys_;
  std::array<std::int64_t, 3> keys_are_of_ = {-1, -1, -1};  // sample, key-value head and segment
  at::Tensor dq_, dk_, dv_;
};

}  // namespace

AttentionRows attention_rows(const at::Tensor& log_sums, const at::Tensor& out,
                             const at::Tensor& dout) {
  if (!has_kernels(out))
    return {
        .out = out, .log_sums = log_sums, .delta = aten::attention_delta(out, dout), .dout = dout};
  const at::Tensor delta = at::empty_like(log_sums);
  const std::int64_t tokens = out.size(1), heads = out.size(2), width = out.size(3);
  TRIREME_DISPATCH(out.scalar_type(), "attention_rows", [&] {
    using A = kernels::Wide<scalar_t>;
    for_rows(out.size(0) * heads, tokens * width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const kernels::Matrix o = head_of(out, i / heads, i % heads);
        const kernels::Matrix grad = head_of(dout, i / heads, i % heads);
        kernels::row_kernels<scalar_t>().dot_rows(data<scalar_t>(o), o.row_stride,
                                                  data<scalar_t>(grad), grad.row_stride, tokens,
                                                  width, elements<A>(delta) + i * tokens);
      }
    });
  });
  return {.out = out, .log_sums = log_sums, .delta = delta, .dout = dout};
}

void attention_backward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                        const AttentionRows& rows, const QkvSinks& sinks) {
  TRIREME_CHECK(sinks.dk.add == sinks.dv.add, "one of dk and dv adds, the other does not");
  if (!has_kernels(in.q)) return aten::attention_backward(problem, in, keys, rows, sinks);
  const std::int64_t kv_heads = in.k.size(2);
  TRIREME_DISPATCH(in.q.scalar_type(), "attention_backward", [&] {
    with_tiles<scalar_t>(in.q.size(3), [&](auto tiles) {
      for_rows(in.q.size(0) * kv_heads, problem.heads.group * head_cost(in),
               [&](std::int64_t begin, std::int64_t end) {
                 Backward<scalar_t, decltype(tiles)> backward(problem, in, keys, rows, sinks);
                 for (std::int64_t i = begin; i < end; ++i)
                   backward.run(i / kv_heads, i % kv_heads);
               });
    });
  });
}

}  // namespace trireme::ops
