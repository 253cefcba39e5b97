#include "trireme/ops/aten/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/dispatch.h"

namespace trireme::ops::aten {
namespace {

constexpr std::int64_t kWideElements = 1
                                       << 26;  // of logits that exist in the type of sums at a time

// The logits of some rows with the column of each row's target, [rows, 1]; 0 where it is not among them.
struct Rows {
  at::Tensor logits;
  at::Tensor column;
  at::Tensor among;    // [rows, 1]
  at::Tensor ignored;  // [rows]
  std::int64_t begin;
  std::int64_t count;
};

template <typename Body>
void for_row_pieces(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                    const Body& body) {
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  const std::int64_t piece =
      std::max<std::int64_t>(1, kWideElements / std::max<std::int64_t>(1, classes));
  for (std::int64_t begin = 0; begin < rows; begin += piece) {
    const std::int64_t count = std::min(piece, rows - begin);
    const at::Tensor wanted = targets.narrow(0, begin, count);
    const at::Tensor column = (wanted - first).unsqueeze(1);
    const at::Tensor ignored = wanted.eq(kNoTarget);
    const at::Tensor among = column.ge(0)
                                 .logical_and(column.lt(classes))
                                 .logical_and(ignored.logical_not().unsqueeze(1));
    body(Rows{.logits = logits.narrow(0, begin, count),
              .column = column.mul(among),
              .among = among,
              .ignored = ignored,
              .begin = begin,
              .count = count});
  }
}

}  // namespace

RowStats row_stats(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first) {
  const at::ScalarType type = wide(logits.scalar_type());
  const auto options = logits.options().dtype(type);
  const RowStats stats{at::zeros({logits.size(0)}, options), at::zeros({logits.size(0)}, options)};
  for_row_pieces(logits, targets, first, [&](const Rows& rows) {
    const auto place = [&](const at::Tensor& stat) {
      return stat.narrow(0, rows.begin, rows.count);
    };
    place(stats.log_sums)
        .copy_(at::logsumexp(rows.logits.to(type), 1).masked_fill_(rows.ignored, 0));
    if (logits.size(1) > 0)
      place(stats.chosen)
          .copy_(rows.logits.gather(1, rows.column).to(type).mul_(rows.among).squeeze(1));
  });
  return stats;
}

at::Tensor total_loss(const at::Tensor& losses, const at::Tensor& targets) {
  return losses.masked_fill(targets.eq(kNoTarget), 0)
      .to(at::kDouble)
      .sum()
      .to(losses.scalar_type());
}

void to_gradient(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                 const at::Tensor& log_sums, const at::Tensor& seeds, double cap) {
  if (logits.size(1) == 0) return;
  for_row_pieces(logits, targets, first, [&](const Rows& rows) {
    at::Tensor probs = rows.logits.to(log_sums.scalar_type())
                           .sub(log_sums.narrow(0, rows.begin, rows.count).unsqueeze(1))
                           .exp_();
    probs.scatter_add_(1, rows.column, rows.among.to(probs.scalar_type()).neg_());
    probs.mul_(seeds.dim() == 0 ? seeds : seeds.narrow(0, rows.begin, rows.count).unsqueeze(1));
    if (cap > 0) probs.mul_(1 - rows.logits.to(probs.scalar_type()).div_(cap).square_());
    probs.masked_fill_(rows.ignored.unsqueeze(1), 0);
    rows.logits.copy_(probs);
  });
}

}  // namespace trireme::ops::aten
