#include "trireme/ops/embedding.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/lanes.h"

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
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> places;
};

template <typename T>
void add_rows(const Occurrences& occurrences, const T* dy, T* dtable, std::int64_t width,
              std::int64_t begin, std::int64_t end) {
  std::vector<kernels::Wide<T>> sum(static_cast<std::size_t>(width));
  for (std::int64_t id = begin; id < end; ++id) {
    const std::int64_t first = occurrences.starts[static_cast<std::size_t>(id)];
    const std::int64_t last = occurrences.starts[static_cast<std::size_t>(id) + 1];
    if (first == last) continue;
    std::fill(sum.begin(), sum.end(), 0);
    for (std::int64_t place = first; place < last; ++place) {
      const T* const row = dy + occurrences.places[static_cast<std::size_t>(place)] * width;
      for (std::int64_t i = 0; i < width; ++i)
        sum[static_cast<std::size_t>(i)] += kernels::widen(row[i]);
    }
    for (std::int64_t i = 0; i < width; ++i)
      kernels::store(dtable + id * width + i, sum[static_cast<std::size_t>(i)]);
  }
}

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tokens,
                            const at::Tensor& table) {
    context->save_for_backward({tokens});
    context->saved_data["vocab"] = table.size(0);
    std::vector<std::int64_t> shape = tokens.sizes().vec();
    shape.push_back(table.size(1));
    return at::index_select(table, 0, tokens.reshape({-1})).view(shape);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor tokens = context->get_saved_variables()[0];
    const at::Tensor dy = grads[0].contiguous();
    const std::int64_t vocab = context->saved_data["vocab"].toInt();
    const std::int64_t width = dy.size(-1);
    const Occurrences occurrences(tokens, vocab);
    at::Tensor dtable = at::zeros({vocab, width}, dy.options());
    TRIREME_DISPATCH(dy.scalar_type(), "embedding_backward", [&] {
      for_rows(vocab, dy.numel() / vocab, [&](std::int64_t begin, std::int64_t end) {
        add_rows(occurrences, elements<scalar_t>(dy), elements<scalar_t>(dtable), width, begin,
                 end);
      });
    });
    return {{}, dtable};
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
