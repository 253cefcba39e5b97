// Suffixes: k key-value head, q query row of a group of heads, n key, w channel of a head.
#include "trireme/model/blocks/past_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {
namespace {

// Which of the keys each of the last rows does not see: [rows, keys].
at::Tensor unseen(std::int64_t rows, std::int64_t keys, std::int64_t window, at::Device device) {
  const auto places = [&](std::int64_t first) {
    return at::arange(first, keys, at::TensorOptions(device).dtype(at::kLong));
  };
  const at::Tensor back = places(keys - rows).unsqueeze(1) - places(0);
  return window < 0 ? back < 0 : (back < 0).logical_or(back > window);
}

}  // namespace

at::Tensor attend_after(exec::Past& past, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, std::int64_t window, double cap) {
  const at::ScalarType wide = statistics_type(q.scalar_type());
  const std::int64_t rows = q.size(-3), width = q.size(-1), kv_heads = k.size(-2);
  at::Tensor all[] = {k.reshape({rows, kv_heads, width}), v.reshape({rows, kv_heads, width})};
  for (std::size_t i = 0; i < past.kept.size(); ++i) all[i] = at::cat({past.kept[i], all[i]});
  const std::int64_t keys = all[0].size(0);
  const auto by_head = [&](const at::Tensor& x) { return x.transpose(0, 1).to(wide); };
  // Query heads of one key-value head are rows of one product.
  const at::Tensor q_kqw = by_head(q.reshape({rows, -1, width})).reshape({kv_heads, -1, width});
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  at::Tensor all_kqn = at::matmul(q_kqw, by_head(all[0]).transpose(1, 2)) * scale;
  if (cap > 0) all_kqn = at::tanh(all_kqn / cap) * cap;
  const at::Tensor scores_kqn = all_kqn.view({kv_heads, -1, rows, keys})
                                    .masked_fill(unseen(rows, keys, window, q.device()),
                                                 -std::numeric_limits<double>::infinity())
                                    .view({kv_heads, -1, keys});
  const at::Tensor mixed_kqw = at::matmul(at::softmax(scores_kqn, -1), by_head(all[1]));
  const std::int64_t left = window < 0 ? keys : std::min(keys, window);
  past.kept.clear();
  for (const at::Tensor& one : all) past.kept.push_back(one.narrow(0, keys - left, left));
  return mixed_kqw.reshape({-1, rows, width})
      .transpose(0, 1)
      .reshape(q.sizes())
      .to(q.scalar_type());
}

}  // namespace trireme::blocks
