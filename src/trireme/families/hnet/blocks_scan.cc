// Suffixes: h head, t row, w width of a head, n state.
#include "trireme/families/hnet/blocks_scan.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>

#include "trireme/ops/flop_count.h"

namespace trireme::blocks {
namespace {

// Rows of one sequence that are computed together; `state_hwn` is that before them, undefined at the begin, and after.
at::Tensor scan_piece(const Scan& terms, at::Tensor& state_hwn, bool more) {
  const at::ScalarType type = terms.x.scalar_type();
  const at::Tensor x_htw = terms.x.transpose(0, 1);
  const at::Tensor sums_ht = terms.log_decay.to(at::kDouble).cumsum(0).t();
  const std::int64_t rows = sums_ht.size(1);
  const at::Tensor later = at::ones({rows, rows}, terms.in.options().dtype(at::kBool)).triu(1);
  const at::Tensor decay_htt = (sums_ht.unsqueeze(2) - sums_ht.unsqueeze(1))
                                   .masked_fill(later, -std::numeric_limits<double>::infinity())
                                   .exp()
                                   .to(type);
  const std::int64_t width = terms.in.size(1);
  const at::Tensor pairs_tt = ops::counted(at::matmul(terms.out, terms.in.t()), width);
  at::Tensor y_htw = ops::counted(at::bmm(decay_htt * pairs_tt, x_htw), rows);
  if (state_hwn.defined())
    y_htw = y_htw + sums_ht.exp().to(type).unsqueeze(2) *
                        ops::counted(at::matmul(terms.out, state_hwn.transpose(1, 2)), width);
  if (more) {
    const at::Tensor last_h = sums_ht.select(1, rows - 1);
    const at::Tensor left_ht = (last_h.unsqueeze(1) - sums_ht).exp().to(type);
    const at::Tensor added_hwn =
        ops::counted(at::matmul((x_htw * left_ht.unsqueeze(2)).transpose(1, 2), terms.in), rows);
    state_hwn = state_hwn.defined() ? last_h.exp().to(type).view({-1, 1, 1}) * state_hwn + added_hwn
                                    : added_hwn;
  }
  return y_htw.transpose(0, 1);
}

}  // namespace

Sequences::Sequences(const at::Tensor& starts) {
  const std::int64_t rows = starts.size(0);
  const at::Tensor here = starts.detach() > 0;
  const at::Tensor places = at::arange(rows, starts.options().dtype(at::kLong));
  begin = std::get<0>(at::cummax(places * here.to(at::kLong), 0));
  position = places - begin;
  number = here.to(at::kLong).cumsum(0) - 1;
  const at::Tensor firsts = here.nonzero().flatten().to(at::kCPU).contiguous();
  bounds.assign(firsts.data_ptr<std::int64_t>(), firsts.data_ptr<std::int64_t>() + firsts.numel());
  bounds.push_back(rows);
}

at::Tensor scan(const Scan& terms, const Sequences& sequences, std::int64_t piece,
                at::Tensor* state) {
  const std::vector<std::int64_t> one = {0, terms.x.size(0)};
  const std::vector<std::int64_t>& bounds = state != nullptr ? one : sequences.bounds;
  std::vector<at::Tensor> pieces;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    at::Tensor own;
    at::Tensor& state_hwn = state != nullptr ? *state : own;
    const std::int64_t end = bounds[s + 1];
    for (std::int64_t first = bounds[s]; first < end; first += piece) {
      const std::int64_t rows = std::min(piece, end - first);
      const bool more = first + rows < end || state != nullptr;
      const auto part = [&](const at::Tensor& all) { return all.narrow(0, first, rows); };
      pieces.push_back(scan_piece({.log_decay = part(terms.log_decay),
                                   .x = part(terms.x),
                                   .in = part(terms.in),
                                   .out = part(terms.out)},
                                  state_hwn, more));
    }
  }
  return at::cat(pieces, 0);
}

}  // namespace trireme::blocks
