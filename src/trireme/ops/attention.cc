#include "trireme/ops/attention.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>

#include "trireme/ops/dispatch.h"
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
  std::int64_t all_kv_heads() const { return samples * kv_heads; }
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

template <typename T>
kernels::HeadRows<T> head_rows(const Part& part, const Shape& shape) {
  return {.rows = elements<std::remove_const_t<T>>(part.tensor) + part.column,
          .tokens = shape.tokens,
          .stride = part.tensor.size(2),
          .heads = part.heads,
          .width = shape.width};
}

// [samples * heads, tokens, width] in wide type.
at::Tensor gather(const Part& part, const Shape& shape, double scale) {
  const at::ScalarType type = part.tensor.scalar_type();
  const std::int64_t heads = shape.samples * part.heads;
  at::Tensor out =
      at::empty({heads, shape.tokens, shape.width}, part.tensor.options().dtype(wide(type)));
  TRIREME_DISPATCH(type, "gather_heads", [&] {
    using A = kernels::Wide<scalar_t>;
    const auto rows = head_rows<const scalar_t>(part, shape);
    for_rows(heads, shape.tokens * shape.width, [&](std::int64_t begin, std::int64_t end) {
      kernels::gather_heads<scalar_t>(rows, static_cast<A>(scale), elements<A>(out), begin, end);
    });
  });
  return out;
}

// Writes [samples * heads, count, width] to tokens first .. first + count - 1.
void scatter(const at::Tensor& in, const Part& part, const Shape& shape, double scale,
             std::int64_t first) {
  TRIREME_DISPATCH(part.tensor.scalar_type(), "scatter_heads", [&] {
    using A = kernels::Wide<scalar_t>;
    const auto rows = head_rows<scalar_t>(part, shape);
    const std::int64_t count = in.numel() / (shape.samples * part.heads * shape.width);
    for_rows(shape.samples * part.heads, count * shape.width,
             [&](std::int64_t begin, std::int64_t end) {
               kernels::scatter_heads<scalar_t>(elements<A>(in), static_cast<A>(scale), rows, first,
                                                count, begin, end);
             });
  });
}

// Query rows of one block with those of a key-value head side by side: [kv heads, group * rows, width].
at::Tensor block_rows(const at::Tensor& all, const Shape& shape, std::int64_t first,
                      std::int64_t rows) {
  return all.view({shape.all_kv_heads(), shape.heads / shape.kv_heads, shape.tokens, shape.width})
      .narrow(2, first, rows)
      .reshape({shape.all_kv_heads(), -1, shape.width});
}

kernels::ScoreBlock score_block(const Shape& shape, const AttentionHeads& heads,
                                std::int64_t first) {
  const std::int64_t rows = std::min(kRows, shape.tokens - first);
  return {.heads = shape.all_heads(),
          .tokens = shape.tokens,
          .first_row = first,
          .rows = rows,
          .columns = first + rows,
          .drop = heads.dropout > 0,
          .keep = kernels::Keep::at_rate(heads.key, heads.dropout),
          .keep_scale = 1 / (1 - heads.dropout)};
}

template <typename Body>
void over_heads(const kernels::ScoreBlock& block, at::ScalarType type, const Body& body) {
  for_rows(block.heads, block.rows * block.columns, [&](std::int64_t begin, std::int64_t end) {
    if (type == at::kDouble)
      body(double(), begin, end);
    else
      body(float(), begin, end);
  });
}

// Fills `out`; returns the log-sum-exp of every row, [samples * heads, tokens].
at::Tensor forward_parts(const Parts& in, const Part& out, const Shape& shape,
                         const AttentionHeads& heads) {
  const at::Tensor q = gather(in.q, shape, shape.scale());
  const at::Tensor k = gather(in.k, shape, 1);
  const at::Tensor v = gather(in.v, shape, 1);
  at::Tensor log_sums = at::empty({shape.all_heads(), shape.tokens}, q.options());
  for (std::int64_t first = 0; first < shape.tokens; first += kRows) {
    const kernels::ScoreBlock block = score_block(shape, heads, first);
    at::Tensor scores = at::bmm(block_rows(q, shape, first, block.rows),
                                k.narrow(1, 0, block.columns).transpose(1, 2));
    over_heads(block, q.scalar_type(), [&](auto zero, std::int64_t begin, std::int64_t end) {
      using A = decltype(zero);
      kernels::causal_softmax(block, elements<A>(scores), elements<A>(log_sums), begin, end);
    });
    scatter(at::bmm(scores, v.narrow(1, 0, block.columns)), out, shape, 1, first);
  }
  return log_sums;
}

// sum = a^T b over the first `columns` tokens; with `first` set, instead of being added.
void accumulate(at::Tensor sum, const at::Tensor& a, const at::Tensor& b, bool first) {
  if (first)
    at::bmm_out(sum, a.transpose(1, 2), b);
  else
    sum.baddbmm_(a.transpose(1, 2), b);
}

// Fills the gradients `din` of `in`.
void backward_parts(const Parts& in, const Part& out, const at::Tensor& log_sums, const Part& dout,
                    const Parts& din, const Shape& shape, const AttentionHeads& heads) {
  const at::Tensor q = gather(in.q, shape, shape.scale());
  const at::Tensor k = gather(in.k, shape, 1);
  const at::Tensor v = gather(in.v, shape, 1);
  const at::Tensor dout_rows = gather(dout, shape, 1);
  const at::Tensor delta = at::empty_like(log_sums);
  TRIREME_DISPATCH(out.tensor.scalar_type(), "dot_heads", [&] {
    for_rows(shape.all_heads(), shape.tokens * shape.width,
             [&](std::int64_t begin, std::int64_t end) {
               kernels::dot_heads<scalar_t>(head_rows<const scalar_t>(out, shape),
                                            head_rows<const scalar_t>(dout, shape),
                                            elements<kernels::Wide<scalar_t>>(delta), begin, end);
             });
  });
  at::Tensor dk = at::empty_like(k);
  at::Tensor dv = at::empty_like(v);
  // Backwards, because the last rows see every column: they fill dk and dv, the others add.
  const std::int64_t last = (shape.tokens - 1) / kRows * kRows;
  for (std::int64_t first = last; first >= 0; first -= kRows) {
    const kernels::ScoreBlock block = score_block(shape, heads, first);
    const at::Tensor q_rows = block_rows(q, shape, first, block.rows);
    const at::Tensor do_rows = block_rows(dout_rows, shape, first, block.rows);
    const at::Tensor k_seen = k.narrow(1, 0, block.columns);
    at::Tensor probs = at::bmm(q_rows, k_seen.transpose(1, 2));
    at::Tensor dscores = at::bmm(do_rows, v.narrow(1, 0, block.columns).transpose(1, 2));
    over_heads(block, q.scalar_type(), [&](auto zero, std::int64_t begin, std::int64_t end) {
      using A = decltype(zero);
      kernels::causal_softmax_backward(block, elements<A>(probs), elements<A>(dscores),
                                       elements<A>(log_sums), elements<A>(delta), begin, end);
    });
    accumulate(dv.narrow(1, 0, block.columns), probs, do_rows, first == last);
    accumulate(dk.narrow(1, 0, block.columns), dscores, q_rows, first == last);
    scatter(at::bmm(dscores, k_seen), din.q, shape, shape.scale(), first);
  }
  scatter(dk, din.k, shape, 1, 0);
  scatter(dv, din.v, shape, 1, 0);
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
