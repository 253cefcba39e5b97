#include "trireme/families/hnet/blocks_chunking.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "trireme/ops/linear.h"

namespace trireme::blocks {
namespace {

constexpr double kSurest = 1e-4;  // that the router may be apart from 0 and from 1

// [sequences]: of each the mean over its rows.
at::Tensor means(const at::Tensor& values, const Sequences& sequences) {
  const at::Tensor zero = at::zeros({sequences.count()}, values.options());
  const at::Tensor rows =
      zero.index_add(0, sequences.number, at::ones({values.size(0)}, values.options()));
  return zero.index_add(0, sequences.number, values) / rows;
}

}  // namespace

at::Tensor direction(const at::Tensor& x) { return x / x.norm(2, {-1}, true).clamp_min(1e-12); }

Routing route(const at::Tensor& x, const at::Tensor& query, const at::Tensor& key,
              const Sequences& sequences, const at::Tensor& before) {
  const at::Tensor queries = direction(ops::linear(x, query)),
                   keys = direction(ops::linear(x, key));
  const std::int64_t rows = x.size(0);
  const at::Tensor previous = at::cat(
      {before.defined() ? before : queries.narrow(0, 0, 1), queries.narrow(0, 0, rows - 1)});
  const at::Tensor apart = ((1 - (previous * keys).sum(-1)) / 2).clamp(0, 1);
  const at::Tensor begins = sequences.position == 0;
  if (before.defined()) begins.select(0, 0).fill_(false);
  const at::Tensor p = apart.masked_fill(begins, 1);
  return {.p = p, .boundary = p.detach() > 0.5, .last = queries.narrow(0, rows - 1, 1)};
}

at::Tensor chunk_rows(const at::Tensor& boundary) { return boundary.nonzero().flatten(); }

at::Tensor chunk_of_rows(const at::Tensor& boundary) {
  return (boundary > 0).to(at::kLong).cumsum(0) - 1;
}

constexpr std::int64_t kPiece = 128;  // chunks that are smoothed at once

at::Tensor smoothed(const at::Tensor& z, const at::Tensor& p, const Sequences& sequences,
                    at::Tensor* state) {
  const at::Tensor sure = p.clamp(kSurest, 1 - kSurest).unsqueeze(1);
  const at::Tensor one = at::ones({z.size(0), 1}, z.options());
  return scan({.log_decay = (1 - sure).log(), .x = (sure * z).unsqueeze(1), .in = one, .out = one},
              sequences, kPiece, state)
      .squeeze(1);
}

at::Tensor straight_through_confidence(const at::Tensor& p, const at::Tensor& boundary) {
  const at::Tensor confidence = at::where(boundary > 0, p, 1 - p);
  return confidence - confidence.detach() + 1;
}

at::Tensor ratio_losses(const at::Tensor& p, const at::Tensor& boundary, const Sequences& sequences,
                        double ratio) {
  const at::Tensor share = means((boundary > 0).to(p.scalar_type()), sequences);
  const at::Tensor mean = means(p, sequences);
  return ratio / (ratio - 1) * ((ratio - 1) * share * mean + (1 - share) * (1 - mean));
}

at::Tensor in_parts(const at::Tensor& p, int parts, at::ScalarType type) {
  std::vector<at::Tensor> columns = {p.to(type)};
  at::Tensor rest = p.detach();
  for (int part = 1; part < parts; ++part) {
    rest = rest - columns.back().detach().to(p.scalar_type());
    columns.push_back(rest.to(type));
  }
  return at::stack(columns, 1);
}

at::Tensor from_parts(const at::Tensor& parts) {
  return parts.to(parts.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).sum(1);
}

}  // namespace trireme::blocks
