#include "trireme/ops/attention.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/matmul.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/kernels/cpu/scores.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kRows = 64;  // query rows whose scores exist at a time

struct Shape {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t width = 0;  // of a head

  std::int64_t all_heads() const { return samples * heads; }
  std::int64_t group() const { return heads / kv_heads; }  // query heads of a key-value head
  std::int64_t cost() const { return tokens * tokens * width; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
};

// One of q, k, v, the result or their gradients: `heads` columns wide from `column` of a token's row.
struct Part {
  at::Tensor tensor;  // contiguous [samples, tokens, stride]
  std::int64_t column = 0;
  std::int64_t heads = 0;
};

struct Parts {
  Part q, k, v;
};

Parts packed_parts(const at::Tensor& qkv, const Shape& shape) {
  return {.q = {.tensor = qkv, .column = 0, .heads = shape.heads},
          .k = {.tensor = qkv, .column = shape.heads * shape.width, .heads = shape.kv_heads},
          .v = {.tensor = qkv,
                .column = (shape.heads + shape.kv_heads) * shape.width,
                .heads = shape.kv_heads}};
}

Parts separate_parts(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const Shape& shape) {
  return {.q = {.tensor = q, .heads = shape.heads},
          .k = {.tensor = k, .heads = shape.kv_heads},
          .v = {.tensor = v, .heads = shape.kv_heads}};
}

// One head of one sample: [tokens, width].
kernels::Matrix head_of(const Part& part, const Shape& shape, std::int64_t sample,
                        std::int64_t head) {
  const at::Tensor& tensor = part.tensor;
  const std::int64_t stride = tensor.size(2);
  const std::int64_t offset = sample * shape.tokens * stride + part.column + head * shape.width;
  return {.data = static_cast<char*>(tensor.data_ptr()) + offset * tensor.element_size(),
          .type = tensor.scalar_type(),
          .rows = shape.tokens,
          .columns = shape.width,
          .row_stride = stride};
}

// The scores of one block and what becomes of them. Rows are apart by no power of two, which would put a
// column's elements into few sets of the cache.
class Scores {
 public:
  Scores(const Shape& shape, const at::Tensor& like)
      : stride_(shape.tokens + 32 - shape.tokens % 16),
        raw_(at::empty({kRows * stride_}, like.options().dtype(wide(like.scalar_type())))),
        stored_(at::empty({kRows * stride_}, like.options())) {}

  std::int64_t stride() const { return stride_; }
  // In the type of sums, and in that of activations.
  template <typename A>
  A* raw() const {
    return elements<A>(raw_);
  }
  template <typename T>
  T* stored() const {
    return elements<T>(stored_);
  }
  kernels::Matrix raw_matrix(const kernels::ScoreBlock& block) const { return matrix(raw_, block); }
  kernels::Matrix stored_matrix(const kernels::ScoreBlock& block) const {
    return matrix(stored_, block);
  }

 private:
  kernels::Matrix matrix(const at::Tensor& memory, const kernels::ScoreBlock& block) const {
    return {.data = memory.data_ptr(),
            .type = memory.scalar_type(),
            .rows = block.rows,
            .columns = block.columns,
            .row_stride = stride_};
  }

  std::int64_t stride_;
  at::Tensor raw_;
  at::Tensor stored_;
};

kernels::ScoreBlock score_block(const Shape& shape, const AttentionHeads& heads,
                                const Scores& scores, std::int64_t head, std::int64_t first) {
  const std::int64_t rows = std::min(kRows, shape.tokens - first);
  return {.first_row = first,
          .rows = rows,
          .columns = first + rows,
          .stride = scores.stride(),
          .scale = shape.scale(),
          .place = head * shape.tokens + first,
          .drop = heads.dropout > 0,
          .keep = kernels::Keep::at_rate(heads.key, heads.dropout),
          .keep_scale = 1 / (1 - heads.dropout)};
}

// The first rows of a contiguous [.., width].
kernels::Matrix packed(const at::Tensor& tensor, std::int64_t rows) {
  return {.data = tensor.data_ptr(),
          .type = tensor.scalar_type(),
          .rows = rows,
          .columns = tensor.size(1),
          .row_stride = tensor.size(1)};
}

// Fills `out`; returns the log-sum-exp of every row, [samples * heads, tokens].
at::Tensor forward_parts(const Parts& in, const Part& out, const Shape& shape,
                         const AttentionHeads& heads) {
  const at::ScalarType type = out.tensor.scalar_type();
  at::Tensor log_sums =
      at::empty({shape.all_heads(), shape.tokens}, out.tensor.options().dtype(wide(type)));
  TRIREME_DISPATCH(type, "causal_attention", [&] {
    using A = kernels::Wide<scalar_t>;
    const auto softmax = kernels::score_kernels<scalar_t>().softmax;
    const auto store_rows = kernels::row_kernels<scalar_t>().store_rows;
    for_rows(shape.all_heads(), shape.cost(), [&](std::int64_t begin, std::int64_t end) {
      const Scores scores(shape, out.tensor);
      const at::Tensor shares = at::empty({kRows}, log_sums.options());
      const at::Tensor sum = at::empty({kRows, shape.width}, log_sums.options());
      for (std::int64_t head = begin; head < end; ++head) {
        const std::int64_t sample = head / shape.heads;
        const std::int64_t kv_head = head % shape.heads / shape.group();
        const kernels::Matrix q = head_of(in.q, shape, sample, head % shape.heads);
        const kernels::Matrix k = head_of(in.k, shape, sample, kv_head);
        const kernels::Matrix v = head_of(in.v, shape, sample, kv_head);
        const kernels::Matrix o = head_of(out, shape, sample, head % shape.heads);
        for (std::int64_t first = 0; first < shape.tokens; first += kRows) {
          const kernels::ScoreBlock block = score_block(shape, heads, scores, head, first);
          kernels::matmul(q.from_row(first, block.rows), k.from_row(0, block.columns).transposed(),
                          scores.raw_matrix(block));
          softmax(block, scores.raw<A>(), scores.stored<scalar_t>(), elements<A>(shares),
                  elements<A>(log_sums) + block.place);
          kernels::matmul(scores.stored_matrix(block), v.from_row(0, block.columns),
                          packed(sum, block.rows));
          store_rows(elements<A>(sum), elements<A>(shares), block.rows, shape.width,
                     static_cast<scalar_t*>(o.from_row(first, block.rows).data), o.row_stride);
        }
      }
    });
  });
  return log_sums;
}

// Fills the gradients `din` of `in`.
void backward_parts(const Parts& in, const Part& out, const at::Tensor& log_sums, const Part& dout,
                    const Parts& din, const Shape& shape, const AttentionHeads& heads) {
  const at::Tensor& like = out.tensor;
  TRIREME_DISPATCH(like.scalar_type(), "causal_attention_backward", [&] {
    using A = kernels::Wide<scalar_t>;
    const auto softmax = kernels::score_kernels<scalar_t>().softmax_backward;
    const kernels::RowKernels<scalar_t>& rows = kernels::row_kernels<scalar_t>();
    const auto data = [](const kernels::Matrix& m) { return static_cast<scalar_t*>(m.data); };
    const std::int64_t kv_heads = shape.samples * shape.kv_heads;
    for_rows(kv_heads, shape.group() * shape.cost(), [&](std::int64_t begin, std::int64_t end) {
      const Scores scores(shape, like), dscores(shape, like);
      const auto options = log_sums.options();
      const at::Tensor delta = at::empty({shape.tokens}, options);
      const at::Tensor dk_sum = at::empty({shape.tokens, shape.width}, options);
      const at::Tensor dv_sum = at::empty({shape.tokens, shape.width}, options);
      for (std::int64_t kv_head = begin; kv_head < end; ++kv_head) {
        const std::int64_t sample = kv_head / shape.kv_heads;
        const kernels::Matrix k = head_of(in.k, shape, sample, kv_head % shape.kv_heads);
        const kernels::Matrix v = head_of(in.v, shape, sample, kv_head % shape.kv_heads);
        bool added = false;
        for (std::int64_t member = 0; member < shape.group(); ++member) {
          const std::int64_t head = kv_head % shape.kv_heads * shape.group() + member;
          const kernels::Matrix q = head_of(in.q, shape, sample, head);
          const kernels::Matrix dq = head_of(din.q, shape, sample, head);
          const kernels::Matrix o = head_of(out, shape, sample, head);
          const kernels::Matrix grad = head_of(dout, shape, sample, head);
          rows.dot_rows(data(o), o.row_stride, data(grad), grad.row_stride, shape.tokens,
                        shape.width, elements<A>(delta));
          // Backwards, because the last rows see every column: they fill the sums, the others add.
          for (std::int64_t first = (shape.tokens - 1) / kRows * kRows; first >= 0;
               first -= kRows) {
            const kernels::ScoreBlock block =
                score_block(shape, heads, scores, sample * shape.heads + head, first);
            const kernels::Matrix q_rows = q.from_row(first, block.rows);
            const kernels::Matrix grad_rows = grad.from_row(first, block.rows);
            const kernels::Matrix k_seen = k.from_row(0, block.columns);
            kernels::matmul(q_rows, k_seen.transposed(), scores.raw_matrix(block));
            kernels::matmul(grad_rows, v.from_row(0, block.columns).transposed(),
                            dscores.raw_matrix(block));
            softmax(block, scores.raw<A>(), dscores.raw<A>(), elements<A>(log_sums) + block.place,
                    elements<A>(delta) + first, scores.stored<scalar_t>(),
                    dscores.stored<scalar_t>());
            const auto into = added ? kernels::Into::kAdd : kernels::Into::kReplace;
            kernels::matmul(scores.stored_matrix(block).transposed(), grad_rows,
                            packed(dv_sum, block.columns), into);
            kernels::matmul(dscores.stored_matrix(block).transposed(), q_rows,
                            packed(dk_sum, block.columns), into);
            kernels::matmul(dscores.stored_matrix(block), k_seen, dq.from_row(first, block.rows));
            added = true;
          }
        }
        const kernels::Matrix dk = head_of(din.k, shape, sample, kv_head % shape.kv_heads);
        const kernels::Matrix dv = head_of(din.v, shape, sample, kv_head % shape.kv_heads);
        rows.store_rows(elements<A>(dk_sum), nullptr, shape.tokens, shape.width, data(dk),
                        dk.row_stride);
        rows.store_rows(elements<A>(dv_sum), nullptr, shape.tokens, shape.width, data(dv),
                        dv.row_stride);
      }
    });
  });
}

void save(AutogradContext* context, const Shape& shape, const AttentionHeads& heads) {
  context->saved_data["heads"] = shape.heads;
  context->saved_data["kv_heads"] = shape.kv_heads;
  context->saved_data["dropout"] = heads.dropout;
  context->saved_data["key"] = static_cast<std::int64_t>(heads.key);
}
AttentionHeads saved_heads(AutogradContext* context) {
  return {.heads = context->saved_data["heads"].toInt(),
          .kv_heads = context->saved_data["kv_heads"].toInt(),
          .dropout = context->saved_data["dropout"].toDouble(),
          .key = static_cast<std::uint64_t>(context->saved_data["key"].toInt())};
}

Shape shape_of(const at::Tensor& x, std::int64_t heads_across, const AttentionHeads& heads) {
  TRIREME_CHECK(x.dim() == 3 && heads.kv_heads > 0 && heads.heads % heads.kv_heads == 0 &&
                    x.size(2) % heads_across == 0 && heads.dropout >= 0 && heads.dropout < 1,
                "{} columns do not split into {} heads", x.size(-1), heads_across);
  return {.samples = x.size(0),
          .tokens = x.size(1),
          .heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .width = x.size(2) / heads_across};
}

struct Packed : torch::autograd::Function<Packed> {
  static Shape shape(const at::Tensor& qkv, const AttentionHeads& heads) {
    return shape_of(qkv, heads.heads + 2 * heads.kv_heads, heads);
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const AttentionHeads& heads) {
    const Shape sizes = shape(qkv, heads);
    at::Tensor out =
        at::empty({sizes.samples, sizes.tokens, sizes.heads * sizes.width}, qkv.options());
    const at::Tensor log_sums = forward_parts(packed_parts(qkv, sizes),
                                              {.tensor = out, .heads = sizes.heads}, sizes, heads);
    save(context, sizes, heads);
    context->save_for_backward({qkv, out, log_sums});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const AttentionHeads heads = saved_heads(context);
    const Shape sizes = shape(saved[0], heads);
    const at::Tensor dqkv = at::empty_like(saved[0]);
    backward_parts(packed_parts(saved[0], sizes), {.tensor = saved[1], .heads = sizes.heads},
                   saved[2], {.tensor = grads[0].contiguous(), .heads = sizes.heads},
                   packed_parts(dqkv, sizes), sizes, heads);
    return {dqkv, {}};
  }
};

struct Separate : torch::autograd::Function<Separate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const AttentionHeads& heads) {
    const Shape shape = shape_of(q, heads.heads, heads);
    TRIREME_CHECK(k.sizes() == v.sizes() && k.size(2) == shape.kv_heads * shape.width,
                  "keys are {} wide for {} heads of {}", k.size(2), shape.kv_heads, shape.width);
    at::Tensor out = at::empty_like(q);
    const at::Tensor log_sums = forward_parts(separate_parts(q, k, v, shape),
                                              {.tensor = out, .heads = shape.heads}, shape, heads);
    save(context, shape, heads);
    context->save_for_backward({q, k, v, out, log_sums});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const AttentionHeads heads = saved_heads(context);
    const Shape shape = shape_of(saved[0], heads.heads, heads);
    const at::Tensor dq = at::empty_like(saved[0]);
    const at::Tensor dk = at::empty_like(saved[1]);
    const at::Tensor dv = at::empty_like(saved[2]);
    backward_parts(separate_parts(saved[0], saved[1], saved[2], shape),
                   {.tensor = saved[3], .heads = shape.heads}, saved[4],
                   {.tensor = grads[0].contiguous(), .heads = shape.heads},
                   separate_parts(dq, dk, dv, shape), shape, heads);
    return {dq, dk, dv, {}};
  }
};

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionHeads& heads) {
  return Separate::apply(q.contiguous(), k.contiguous(), v.contiguous(), heads);
}

at::Tensor causal_attention_packed(const at::Tensor& qkv, const AttentionHeads& heads) {
  return Packed::apply(qkv.contiguous(), heads);
}

}  // namespace trireme::ops
