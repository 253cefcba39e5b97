#include "trireme/ops/aten/flash_attention.h"

#include <torch/version.h>

#include <tuple>

#include "trireme/base/error.h"
#include "trireme/ops/aten/attention.h"

// Since 2.5 with fewer heads of keys than of queries.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/empty.h>

namespace trireme::ops::aten {
namespace {

bool is_whole(const Segments& segments, std::int64_t sequence) {
  return segments.size() == 1 && segments[0].row == 0 && segments[0].position == 0 &&
         segments[0].tokens == sequence;
}

}  // namespace

bool has_flash_attention(const AttentionProblem& problem, const Qkv& in, const Segments& keys) {
  constexpr std::int64_t kMostWidth = 256, kWidthStep = 8;
  const AttentionHeads& heads = problem.heads;
  const at::ScalarType type = in.q.scalar_type();
  const std::int64_t width = in.q.size(3);
  return in.q.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) &&
         width % kWidthStep == 0 && width <= kMostWidth && heads.dropout == 0 && heads.cap == 0 &&
         heads.offset == 0 && heads.heads == heads.kv_heads * heads.group &&
         problem.mask.kind != MaskKind::kBlockCausal && problem.mask.window < 0 &&
         !problem.mask.documents.begin.defined() && is_whole(problem.queries, problem.sequence) &&
         is_whole(keys, problem.sequence);
}

at::Tensor flash_attention_forward(const AttentionProblem& problem, const Qkv& in,
                                   const at::Tensor& out) {
  const auto results = at::_scaled_dot_product_flash_attention(
      in.q.transpose(1, 2), in.k.transpose(1, 2), in.v.transpose(1, 2), /*dropout_p=*/0.0,
      problem.mask.kind == MaskKind::kCausal, /*return_debug_mask=*/false);
  out.copy_(std::get<0>(results).transpose(1, 2));
  return std::get<1>(results);
}

void flash_attention_backward(const AttentionProblem& problem, const Qkv& in,
                              const AttentionRows& rows, const QkvSinks& sinks) {
  // Read only where there is noise.
  const at::Tensor state = at::empty({2}, in.q.options().dtype(at::kLong));
  const at::Tensor dense;  // no prefix sums of lengths
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
      rows.dout.transpose(1, 2), in.q.transpose(1, 2), in.k.transpose(1, 2), in.v.transpose(1, 2),
      rows.out.transpose(1, 2), rows.log_sums, dense, dense, in.q.size(1), in.k.size(1),
      /*dropout_p=*/0.0, problem.mask.kind == MaskKind::kCausal, state, state);
  deliver(sinks.dq, dq);
  deliver(sinks.dk, dk);
  deliver(sinks.dv, dv);
}

}  // namespace trireme::ops::aten

#else

namespace trireme::ops::aten {

bool has_flash_attention(const AttentionProblem&, const Qkv&, const Segments&) { return false; }

at::Tensor flash_attention_forward(const AttentionProblem&, const Qkv&, const at::Tensor&) {
  TRIREME_CHECK(false, "LibTorch {} has no flash attention", TORCH_VERSION);
}

void flash_attention_backward(const AttentionProblem&, const Qkv&, const AttentionRows&,
                              const QkvSinks&) {
  TRIREME_CHECK(false, "LibTorch {} has no flash attention", TORCH_VERSION);
}

}  // namespace trireme::ops::aten

#endif
