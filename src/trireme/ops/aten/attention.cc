// Suffixes: s sample, h query head, r query row, c key, w width of a head. Inside here tensors are [s, h, .., ..].
#include "trireme/ops/aten/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/ops/aten/flash_attention.h"
#include "trireme/ops/aten/pointwise.h"
#include "trireme/ops/dispatch.h"

namespace trireme::ops::aten {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kScores = 1 << 26;  // that exist at a time
constexpr std::int64_t kFewestRows = 16;

// [s, tokens, heads, w] -> [s, heads, tokens, w] in the type of sums.
at::Tensor by_head(const at::Tensor& x) { return x.transpose(1, 2).to(wide(x.scalar_type())); }

// Keys or values for every query head.
at::Tensor spread(const at::Tensor& kv, const AttentionHeads& heads) {
  const at::Tensor all = by_head(kv);
  if (heads.group == 1) return all;
  const at::Tensor queries = at::arange(heads.heads, kv.options().dtype(at::kLong));
  return all.index_select(1, queries.add(heads.offset).div(heads.group, "floor"));
}

// The gradient of key-value heads from that of every query head's.
at::Tensor gather(const at::Tensor& dkv, const AttentionHeads& heads) {
  if (heads.group == 1) return dkv;
  const at::Tensor sums =
      at::zeros({dkv.size(0), heads.kv_heads, dkv.size(2), dkv.size(3)}, dkv.options());
  for (std::int64_t head = 0; head < heads.heads; ++head)
    sums.select(1, heads.kv_head(head)).add_(dkv.select(1, head));
  return sums;
}

// Query rows that follow each other and the keys of one segment that any of them can see.
struct Block {
  Segment rows;
  Segment keys;
};

// For all samples and heads at once.
class Blocks {
 public:
  Blocks(const AttentionProblem& problem, const Qkv& in, const Segments& keys)
      : problem_(problem), samples_(in.q.size(0)), counted_(in.q.options().dtype(at::kLong)) {
    problem.mask.rows(samples_, in.q.size(1), problem.sequence);  // refuses what does not fit
    const std::int64_t width = std::max<std::int64_t>(1, samples_ * in.q.size(2) * in.k.size(1));
    for (const Segment& rows : cut(problem.queries, std::max(kFewestRows, kScores / width)))
      for (const Segment& segment : keys) {
        const std::int64_t first = std::max<std::int64_t>(0, first_seen(rows) - segment.position);
        const std::int64_t last = std::min(segment.tokens, last_seen(rows) - segment.position);
        if (first < last)
          blocks_.push_back({rows, {segment.row + first, segment.position + first, last - first}});
      }
  }
  auto begin() const { return blocks_.begin(); }
  auto end() const { return blocks_.end(); }

  // Which scores exist, [s or 1, 1, r, c].
  at::Tensor seen(const Block& block) const {
    const Mask& mask = problem_.mask;
    const at::Tensor rows = positions(block.rows);
    const auto of_documents = [&](const at::Tensor& places, std::int64_t missing) {
      if (!places.defined()) return at::full({1, block.rows.tokens}, missing, counted_);
      return places.narrow(1, block.rows.row, block.rows.tokens).to(counted_.device());
    };
    at::Tensor begin = of_documents(mask.documents.begin, 0);
    at::Tensor end = of_documents(mask.documents.end, problem_.sequence);
    if (mask.kind == MaskKind::kCausal) end = end.minimum(rows + 1);
    if (mask.kind == MaskKind::kBlockCausal)
      end = end.minimum(begin + ((rows - begin).div(mask.block, "floor") + 1) * mask.block);
    if (mask.window >= 0) begin = begin.maximum(rows - mask.window);
    const at::Tensor columns = positions(block.keys);
    return columns.ge(begin.unsqueeze(2)).logical_and_(columns.lt(end.unsqueeze(2))).unsqueeze(1);
  }

  // What noise multiplies probabilities by, [s, h, r, c]; undefined without noise.
  at::Tensor noise(const Block& block, at::ScalarType type) const {
    const AttentionHeads& heads = problem_.heads;
    if (heads.dropout == 0) return {};
    const at::Tensor head = at::arange(samples_, counted_).mul(heads.all_heads).unsqueeze(1) +
                            at::arange(heads.first_head, heads.first_head + heads.heads, counted_);
    const at::Tensor rows = head.unsqueeze(2) * problem_.sequence + positions(block.rows);
    return kept(kernels::Keep::at_rate(heads.key, heads.dropout), rows.unsqueeze(3),
                positions(block.keys))
        .to(type)
        .mul_(1 / (1 - heads.dropout));
  }

 private:
  // The first position that any of the rows can see.
  std::int64_t first_seen(const Segment& rows) const {
    return problem_.mask.window < 0 ? 0 : rows.position - problem_.mask.window;
  }
  // First position after all that any of the rows can see.
  std::int64_t last_seen(const Segment& rows) const {
    const Mask& mask = problem_.mask;
    if (mask.kind == MaskKind::kFull) return problem_.sequence;
    return rows.position + rows.tokens + (mask.kind == MaskKind::kBlockCausal ? mask.block : 0);
  }
  at::Tensor positions(const Segment& segment) const {
    return at::arange(segment.position, segment.position + segment.tokens, counted_);
  }

  const AttentionProblem& problem_;
  std::int64_t samples_;
  at::TensorOptions counted_;
  std::vector<Block> blocks_;
};

at::Tensor rows_of(const at::Tensor& x, const Segment& segment) {
  return x.narrow(2, segment.row, segment.tokens);
}

double scale_of(const Qkv& in) { return 1 / std::sqrt(static_cast<double>(in.q.size(3))); }

// q k^T, scaled, and capped if `cap` is above 0.
at::Tensor scores_of(const at::Tensor& q_shrw, const at::Tensor& k_shcw, double scale, double cap) {
  const at::Tensor scores = at::matmul(q_shrw, k_shcw.transpose(2, 3)).mul_(scale);
  return cap > 0 ? scores.div_(cap).tanh_().mul_(cap) : scores;
}

// -inf where a row does not see.
at::Tensor& hide(at::Tensor& scores, const at::Tensor& seen) {
  return scores.masked_fill_(seen.logical_not(), kNever);
}

// e^(scores - top), 0 where there is no score.
at::Tensor powers(const at::Tensor& scores, const at::Tensor& top) {
  return (scores - top.masked_fill(top.eq(kNever), 0).unsqueeze(3)).exp_();
}

}  // namespace

void deliver(const GradientSink& sink, const at::Tensor& gradient) {
  const at::Tensor ours = gradient.transpose(1, 2);
  if (sink.add)
    sink.to.add_(ours);
  else
    sink.to.copy_(ours);
}

at::Tensor attention_forward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                             const at::Tensor& out) {
  if (has_flash_attention(problem, in, keys)) return flash_attention_forward(problem, in, out);
  const PartialAttention partial = no_attention(in.q);
  aten::attention_add(problem, in, keys, partial);
  return aten::attention_finish(partial, out);
}

void attention_add(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                   const PartialAttention& partial) {
  const at::Tensor q = by_head(in.q), k = spread(in.k, problem.heads),
                   v = spread(in.v, problem.heads);
  const Blocks blocks(problem, in, keys);
  for (const Block& block : blocks) {
    at::Tensor tops = rows_of(partial.tops, block.rows), sums = rows_of(partial.sums, block.rows);
    at::Tensor sum = rows_of(partial.sum, block.rows);
    at::Tensor scores =
        scores_of(rows_of(q, block.rows), rows_of(k, block.keys), scale_of(in), problem.heads.cap);
    hide(scores, blocks.seen(block));
    const at::Tensor top = at::maximum(tops, scores.amax(3));
    at::Tensor probs = powers(scores, top);
    const at::Tensor factor = powers(tops.unsqueeze(3), top);
    sums.mul_(factor.squeeze(3)).add_(probs.sum(3));
    if (const at::Tensor noise = blocks.noise(block, probs.scalar_type()); noise.defined())
      probs.mul_(noise);
    sum.mul_(factor).add_(at::matmul(probs, rows_of(v, block.keys)));
    tops.copy_(top);
  }
}

at::Tensor attention_finish(const PartialAttention& partial, const at::Tensor& out) {
  const at::Tensor blind = partial.sums.eq(0);
  out.copy_(partial.sum.div(partial.sums.unsqueeze(3))
                .masked_fill_(blind.unsqueeze(3), 0)
                .transpose(1, 2));
  return (partial.tops + partial.sums.log()).masked_fill_(blind, kNever);
}

at::Tensor attention_delta(const at::Tensor& out, const at::Tensor& dout) {
  return (by_head(out) * by_head(dout)).sum(3);
}

void attention_backward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                        const AttentionRows& rows, const QkvSinks& sinks) {
  if (has_flash_attention(problem, in, keys))
    return flash_attention_backward(problem, in, rows, sinks);
  const at::Tensor q = by_head(in.q), dout = by_head(rows.dout);
  const at::Tensor k = spread(in.k, problem.heads), v = spread(in.v, problem.heads);
  const at::Tensor dq = at::zeros_like(q), dk = at::zeros_like(k), dv = at::zeros_like(v);
  const double scale = scale_of(in);
  const Blocks blocks(problem, in, keys);
  for (const Block& block : blocks) {
    const at::Tensor q_shrw = rows_of(q, block.rows), dout_shrw = rows_of(dout, block.rows);
    const at::Tensor k_shcw = rows_of(k, block.keys);
    at::Tensor scores = scores_of(q_shrw, k_shcw, scale, problem.heads.cap), slope;
    if (problem.heads.cap > 0) slope = scores.div(problem.heads.cap).square_().neg_().add_(1);
    at::Tensor probs = powers(hide(scores, blocks.seen(block)), rows_of(rows.log_sums, block.rows));
    scores.reset();
    at::Tensor dscores = at::matmul(dout_shrw, rows_of(v, block.keys).transpose(2, 3));
    const at::Tensor noise = blocks.noise(block, probs.scalar_type());
    if (noise.defined()) dscores.mul_(noise);
    dscores.sub_(rows_of(rows.delta, block.rows).unsqueeze(3)).mul_(probs).mul_(scale);
    if (slope.defined()) dscores.mul_(slope);
    if (noise.defined()) probs.mul_(noise);
    rows_of(dv, block.keys).add_(at::matmul(probs.transpose(2, 3), dout_shrw));
    rows_of(dk, block.keys).add_(at::matmul(dscores.transpose(2, 3), q_shrw));
    rows_of(dq, block.rows).add_(at::matmul(dscores, k_shcw));
  }
  deliver(sinks.dq, dq);
  deliver(sinks.dk, gather(dk, problem.heads));
  deliver(sinks.dv, gather(dv, problem.heads));
}

}  // namespace trireme::ops::aten
