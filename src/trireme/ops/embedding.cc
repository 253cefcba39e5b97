#include "trireme/ops/embedding.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <span>
#include <vector>

#include "trireme/ops/aten/rows.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/tensor_parallel_rows.h"
#include "trireme/ops/vocabulary.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// For each row of a table that begins with id `first`, where it occurs:
// places[starts[row] .. starts[row + 1]), ascending.
struct Occurrences {
  Occurrences(const at::Tensor& tokens, std::int64_t first, std::int64_t rows)
      : starts(static_cast<std::size_t>(rows) + 1),
        places(static_cast<std::size_t>(tokens.numel())) {
    const std::int64_t* const ids = elements<std::int64_t>(tokens);
    const auto for_each = [&](const auto& body) {
      for (std::int64_t i = 0; i < tokens.numel(); ++i)
        if (ids[i] >= first && ids[i] < first + rows)
          body(static_cast<std::size_t>(ids[i] - first), i);
    };
    for_each([&](std::size_t row, std::int64_t) { ++starts[row + 1]; });
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
      starts[row + 1] += starts[row];
    std::vector<std::int64_t> next(starts.begin(), starts.end() - 1);
    for_each([&](std::size_t row, std::int64_t i) { places[next[row]++] = i; });
  }
  std::span<const std::int64_t> of(std::int64_t row) const {
    const auto first = static_cast<std::size_t>(starts[row]);
    const auto last = static_cast<std::size_t>(starts[static_cast<std::size_t>(row) + 1]);
    return std::span(places).subspan(first, last - first);
  }

  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> places;
};

// The rows of all tokens, [tokens, d]; zeros for those in other ranks' tables.
at::Tensor lookup(const at::Tensor& tokens, const at::Tensor& table, std::int64_t first,
                  const TensorParallel& tp) {
  if (tp.size() == 1) return at::index_select(table, 0, tokens.reshape({-1}));
  if (!has_kernels(table)) return aten::lookup(tokens, table, first);
  const std::int64_t width = table.size(1);
  const std::int64_t* const ids = elements<std::int64_t>(tokens);
  const at::Tensor rows = at::zeros({tokens.numel(), width}, table.options());
  TRIREME_DISPATCH(table.scalar_type(), "embedding", [&] {
    for_rows(tokens.numel(), width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = ids[i] - first;
        if (row < 0 || row >= table.size(0)) continue;
        std::copy_n(elements<scalar_t>(table) + row * width, width,
                    elements<scalar_t>(rows) + i * width);
      }
    });
  });
  return rows;
}

// The gradient of the table's rows, added to its gradient_target; else returned.
at::Tensor add_occurrences(const at::Tensor& tokens, const at::Tensor& dy, std::int64_t first,
                           const at::Tensor& table) {
  const std::int64_t vocab = table.size(0);
  if (!has_kernels(dy))
    return deliver_gradient(table, aten::lookup_backward(tokens, dy, first, vocab));
  const std::int64_t width = dy.size(-1);
  const Occurrences occurrences(tokens, first, vocab);
  const at::Tensor sum = gradient_target(table, {}).sum;
  const at::Tensor dtable =
      sum.defined() ? sum : at::zeros({vocab, width}, dy.options().dtype(wide(dy.scalar_type())));
  TRIREME_DISPATCH(dy.scalar_type(), "embedding_backward", [&] {
    using A = kernels::Wide<scalar_t>;
    const kernels::RowKernels<scalar_t>& kernels = kernels::row_kernels<scalar_t>();
    const bool narrow = dtable.scalar_type() != wide(dy.scalar_type());
    for_rows(vocab, dy.numel() / std::max<std::int64_t>(1, vocab),
             [&](std::int64_t begin, std::int64_t end) {
               std::vector<A> sums(narrow ? static_cast<std::size_t>(width) : 0);
               for (std::int64_t id = begin; id < end; ++id) {
                 if (occurrences.of(id).empty()) continue;
                 A* const row = narrow ? sums.data() : elements<A>(dtable) + id * width;
                 for (const std::int64_t place : occurrences.of(id))
                   kernels.add_rows(elements<scalar_t>(dy) + place * width, 1, width, width, row);
                 if (!narrow) continue;
                 scalar_t* const kept = elements<scalar_t>(dtable) + id * width;
                 kernels.add_rows(kept, 1, width, width, row);
                 kernels.store_rows(row, nullptr, 1, width, kept, width);
                 std::fill(sums.begin(), sums.end(), A(0));
               }
             });
  });
  return sum.defined() ? at::Tensor() : dtable.to(dy.scalar_type());
}

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tokens,
                            const at::Tensor& table, std::int64_t first, const TensorParallel& tp) {
    context->save_for_backward({tokens, table});
    context->saved_data["first"] = first;
    save(context, tp);
    const at::Tensor rows = sum_partials(lookup(tokens, table, first, tp), tp).wait();
    std::vector<std::int64_t> inside = tokens.sizes().vec();
    inside.push_back(0);
    return rows.view(outside_shape(inside, table.size(1), tp));
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &tokens = saved[0], &table = saved[1];
    const at::Tensor dy =
        gather_rows(as_rows(grads[0]).contiguous(), tokens.numel(), saved_tensor_parallel(context))
            .wait();
    return {{}, add_occurrences(tokens, dy, context->saved_data["first"].toInt(), table), {}, {}};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table, std::int64_t first_row,
                     const TensorParallel& tp) {
  const at::Tensor ids = tokens.contiguous();
  check_ids("token", ids, std::nullopt, first_row, table.size(0), tp);
  return Embedding::apply(ids, table, first_row, tp);
}

}  // namespace trireme::ops
