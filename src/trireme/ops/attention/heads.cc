#include "trireme/ops/attention/heads.h"

#include "trireme/base/error.h"

namespace trireme::ops {

AttentionHeads AttentionHeads::resolved() const {
  AttentionHeads r = *this;
  if (r.group == 0) {
    TRIREME_CHECK(kv_heads > 0 && heads % kv_heads == 0, "{} heads read {} key-value heads", heads,
                  kv_heads);
    r.group = heads / kv_heads;
  }
  if (r.all_heads == 0) r.all_heads = heads;
  TRIREME_CHECK(r.heads >= 0 && r.group > 0 && r.offset >= 0 && r.dropout >= 0 && r.dropout < 1 &&
                    r.cap >= 0 && (r.heads == 0 || r.kv_head(r.heads - 1) < r.kv_heads) &&
                    r.first_head >= 0 && r.first_head + r.heads <= r.all_heads,
                "heads {} of {} from {}, {} key-value heads, group {}, offset {}, dropout {}",
                r.heads, r.all_heads, r.first_head, r.kv_heads, r.group, r.offset, r.dropout);
  return r;
}

std::int64_t head_width(const std::vector<at::Tensor>& in, const AttentionHeads& heads) {
  const bool packed = in.size() == 1;
  const std::int64_t across = packed ? heads.heads + 2 * heads.kv_heads : heads.heads;
  const at::Tensor& q = in[0];
  TRIREME_CHECK(q.dim() == 3 && across > 0 && q.size(2) % across == 0,
                "{} columns do not split into {} heads", q.size(-1), across);
  const std::int64_t width = q.size(2) / across;
  if (!packed)
    TRIREME_CHECK(in[1].sizes() == in[2].sizes() && in[1].size(1) == q.size(1) &&
                      in[1].size(2) == heads.kv_heads * width,
                  "keys are {} wide for {} heads of {}", in[1].size(2), heads.kv_heads, width);
  return width;
}

Qkv split_heads(const std::vector<at::Tensor>& in, const AttentionHeads& heads,
                std::int64_t width) {
  const auto view = [&](const at::Tensor& x, std::int64_t first, std::int64_t count) {
    return x.narrow(2, first * width, count * width).view({x.size(0), x.size(1), count, width});
  };
  const std::int64_t q = heads.heads, kv = heads.kv_heads;
  if (in.size() == 1)
    return {.q = view(in[0], 0, q), .k = view(in[0], q, kv), .v = view(in[0], q + kv, kv)};
  return {.q = view(in[0], 0, q), .k = view(in[1], 0, kv), .v = view(in[2], 0, kv)};
}

}  // namespace trireme::ops
