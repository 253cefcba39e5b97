#include "trireme/ops/embedding.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <span>
#include <vector>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/parameter_gradient.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// For each id, where it occurs: places[starts[id] .. starts[id + 1]), ascending.
struct Occurrences {
  Occurrences(const at::Tensor& tokens, std::int64_t vocab)
      : starts(static_cast<std::size_t>(vocab) + 1),
        places(static_cast<std::size_t>(tokens.numel())) {
    const std::int64_t* const ids = elements<std::int64_t>(tokens);
    for (std::int64_t i = 0; i < tokens.numel(); ++i)
      ++starts[static_cast<std::size_t>(ids[i]) + 1];
    for (std::size_t id = 0; id < static_cast<std::size_t>(vocab); ++id)
      starts[id + 1] += starts[id];
    std::vector<std::int64_t> next(starts.begin(), starts.end() - 1);
    for (std::int64_t i = 0; i < tokens.numel(); ++i)
      places[static_cast<std::size_t>(next[static_cast<std::size_t>(ids[i])]++)] = i;
  }
  std::span<const std::int64_t> of(std::int64_t id) const {
    const auto first = static_cast<std::size_t>(starts[static_cast<std::size_t>(id)]);
    const auto last = static_cast<std::size_t>(starts[static_cast<std::size_t>(id) + 1]);
    return std::span(places).subspan(first, last - first);
  }

  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> places;
};

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tokens,
                            const at::Tensor& table) {
    context->save_for_backward({tokens, table});
    std::vector<std::int64_t> shape = tokens.sizes().vec();
    shape.push_back(table.size(1));
    return at::index_select(table, 0, tokens.reshape({-1})).view(shape);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &tokens = saved[0], &table = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    const std::int64_t vocab = table.size(0);
    const std::int64_t width = dy.size(-1);
    const Occurrences occurrences(tokens, vocab);
    const at::Tensor memory = gradient_memory(table);
    const at::Tensor dtable =
        memory.defined() ? memory
                         : at::zeros({vocab, width}, dy.options().dtype(wide(dy.scalar_type())));
    TRIREME_DISPATCH(dy.scalar_type(), "embedding_backward", [&] {
      for_rows(vocab, dy.numel() / vocab, [&](std::int64_t begin, std::int64_t end) {
        const auto add_rows = kernels::row_kernels<scalar_t>().add_rows;
        for (std::int64_t id = begin; id < end; ++id)
          for (const std::int64_t place : occurrences.of(id))
            add_rows(elements<scalar_t>(dy) + place * width, 1, width, width,
                     elements<kernels::Wide<scalar_t>>(dtable) + id * width);
      });
    });
    return {{}, memory.defined() ? at::Tensor() : dtable.to(dy.scalar_type())};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table) {
  const at::Tensor ids = tokens.contiguous();
  const std::int64_t* const id = elements<std::int64_t>(ids);
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    if (id[i] < 0 || id[i] >= table.size(0))
      fail(ErrorKind::kData,
           "token {} at position {} is outside the model's vocabulary of {}; prepare "
           "the data with this model's tokenizer, or raise model.vocab",
           id[i], i, table.size(0));
  return Embedding::apply(ids, table);
}

}  // namespace trireme::ops
