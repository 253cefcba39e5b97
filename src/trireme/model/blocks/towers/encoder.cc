// Suffixes: b sequence, t token, d width.
#include "trireme/model/blocks/towers/encoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/ops/attention/attention.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/pointwise.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::blocks {
namespace {

constexpr double kRotaryBase = 10000;

// softmax(q k^T / sqrt(w) + bias) v: heads get one channel more, in which queries are 1 and keys the bias.
at::Tensor biased_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& bias, const ops::AttentionHeads& heads,
                            const ops::Mask& mask, const ops::ContextParallel& cp) {
  const auto by_head = [&](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), heads.heads, -1});
  };
  const auto widened = [](const at::Tensor& x, const at::Tensor& channel) {
    return at::cat({x, channel.expand({x.size(0), x.size(1), x.size(2), 1})}, 3).flatten(2);
  };
  const at::Tensor queries = by_head(q);
  const auto width = static_cast<double>(queries.size(3));
  const at::Tensor one = at::ones({1}, q.options()), zero = at::zeros({1}, q.options());
  const at::Tensor attended =
      ops::attention(widened(queries * std::sqrt((width + 1) / width), one * std::sqrt(width + 1)),
                     widened(by_head(k), bias.to(k.scalar_type()).view({1, -1, 1, 1})),
                     widened(by_head(v), zero), heads, mask, cp);
  return by_head(attended).narrow(3, 0, queries.size(3)).flatten(2);
}

// Visibility for rows that are a part of all.
Sight of_rows(Sight sight, const mesh::Share& rows) {
  const auto part = [&](at::Tensor& of_tokens, std::int64_t dim) {
    if (of_tokens.defined())
      of_tokens = of_tokens.narrow(dim, rows.begin, rows.count()).contiguous();
  };
  part(sight.mask.documents.begin, 1);
  part(sight.mask.documents.end, 1);
  part(sight.rotary.cosines, 0);
  part(sight.rotary.sines, 0);
  part(sight.key_bias, 0);
  return sight;
}

at::Tensor frequencies_of(std::int64_t count, const at::TensorOptions& options) {
  return at::pow(kRotaryBase, at::arange(count, options) / -static_cast<double>(count));
}

// A tensor that was read, recognised without keeping its memory.
class Read {
 public:
  explicit Read(const at::Tensor& tensor)
      : storage_(tensor.storage().getWeakStorageImpl()),
        offset_(tensor.storage_offset()),
        sizes_(tensor.sizes().vec()),
        version_(tensor._version()) {}
  // A storage that is gone cannot be locked, though its address may be another's now.
  bool is(const at::Tensor& tensor) const {
    const auto storage = storage_.lock();
    return storage && storage.get() == tensor.storage().unsafeGetStorageImpl() &&
           offset_ == tensor.storage_offset() && tensor.sizes() == sizes_ &&
           version_ == tensor._version();
  }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  std::int64_t offset_;
  std::vector<std::int64_t> sizes_;
  std::int64_t version_;
};

}  // namespace

AxialRotary axial_rotary(const at::Tensor& positions, std::int64_t head_dim, RotaryPairs pairs,
                         at::ScalarType type) {
  const std::int64_t axes = positions.size(1);
  const std::int64_t width = head_dim / axes / 2 * 2;
  const at::Tensor places = positions.to(at::kDouble);
  const auto options = places.options();
  const at::Tensor frequencies = frequencies_of(width / 2, options);
  std::vector<at::Tensor> angles;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    const at::Tensor one = places.select(1, axis).unsqueeze(1) * frequencies;  // [tokens, half]
    angles.push_back(pairs == RotaryPairs::kExact ? one.repeat_interleave(2, 1)
                                                  : at::cat({one, one}, 1));
  }
  angles.push_back(at::zeros({places.size(0), head_dim - axes * width}, options));
  const at::Tensor all = at::cat(angles, 1);
  return {.cosines = all.cos().to(type), .sines = all.sin().to(type)};
}

AxialRotary plane_rotary(const at::Tensor& positions, std::int64_t head_dim, at::ScalarType type) {
  const at::Tensor places = positions.to(at::kDouble);
  const at::Tensor angles =
      (places.unsqueeze(2) * frequencies_of(head_dim / 4, places.options())).flatten(1);
  return {.cosines = angles.cos().to(type), .sines = angles.sin().to(type), .halves = true};
}

at::Tensor rotate(const at::Tensor& x, const AxialRotary& rotary) {
  const at::Tensor x_btd = x.dim() == 2 ? x.unsqueeze(0) : x;
  const ops::RotaryTable table{.cosines = rotary.cosines, .sines = rotary.sines};
  return (rotary.halves ? ops::rotary(x_btd, table) : ops::rotary_pairs(x_btd, table))
      .view(x.sizes());
}

at::Tensor grid_positions(const model::PatchGrid& grid) {
  const at::Tensor ids = at::arange(grid.tokens(), at::kLong);
  const std::int64_t frame = grid.rows * grid.columns;
  return at::stack({ids.div(frame, "floor"), ids.remainder(frame).div(grid.columns, "floor"),
                    ids.remainder(grid.columns)},
                   1);
}

at::Tensor patches(const at::Tensor& clips, const config::Vision& vision) {
  const model::PatchGrid grid = model::patch_grid(vision);
  return clips
      .reshape({clips.size(0), 3, grid.frames, vision.tubelet, grid.rows, vision.patch,
                grid.columns, vision.patch})
      .permute({0, 2, 4, 6, 1, 3, 5, 7})
      .reshape({clips.size(0), grid.tokens(), grid.features});
}

at::Tensor activated(const at::Tensor& x, config::Activation activation) {
  switch (activation) {
    case config::Activation::kGelu: return at::gelu(x);
    case config::Activation::kGeluTanh: return at::gelu(x, "tanh");
    case config::Activation::kQuickGelu: {
      at::Tensor gate = 1.702 * x;
      return x * gate.sigmoid_();
    }
  }
  TRIREME_CHECK(false, "activation {}", static_cast<int>(activation));
}

at::Tensor activated_linear(const at::Tensor& x, config::Activation activation,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const ops::TensorParallel& tp,
                            const ops::WeightGradientsPtr& gradients) {
  if (activation == config::Activation::kGeluTanh)
    return ops::gelu_linear(x, weight, bias, tp, gradients);
  return ops::row_linear(activated(x, activation), weight, bias, tp, gradients);
}

std::vector<at::Tensor> EncoderBlock::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  using enum BiasedBlock::Param;
  Sight sight = look_(inputs);
  ops::ContextParallel cp;
  if (across().cp().size() > 1) {
    cp = across().cp(all_rows(sight));
    sight = of_rows(std::move(sight), mesh::share(cp.layout.tokens, cp.rank(), cp.size()));
  }
  const bool is_packed = inputs[0].dim() == 2;
  const at::Tensor x_btd = is_packed ? inputs[0].unsqueeze(0) : inputs[0];
  const mesh::Share mine = mesh::share(encoder_.heads, tp().rank(), tp().size());
  const ops::AttentionHeads heads{.heads = mine.count(),
                                  .kv_heads = mine.count(),
                                  .first_head = mine.begin,
                                  .all_heads = encoder_.heads};
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const ops::Branching first =
      ops::residual_norm(x_btd, {}, param(kNorm1), param(kNorm1Bias), norm_eps_, gradients);
  const at::Tensor qkv =
      ops::column_linear(first.normed, param(kQkv), param(kQkvBias), tp(), gradients);
  at::Tensor attended;
  if (sight.rotary.cosines.defined()) {
    const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
    const at::Tensor q = rotate(parts[0], sight.rotary), k = rotate(parts[1], sight.rotary),
                     v = parts[2].contiguous();
    attended = sight.key_bias.defined()
                   ? biased_attention(q, k, v, sight.key_bias, heads, sight.mask, cp)
                   : at::Tensor(ops::attention(q, k, v, heads, sight.mask, cp));
  } else {
    attended = ops::attention_packed(qkv, heads, sight.mask, cp);
  }
  const at::Tensor out = ops::row_linear(attended, param(kOut), param(kOutBias), tp(), gradients);
  const ops::Branching second =
      ops::residual_norm(first.stream, out, param(kNorm2), param(kNorm2Bias), norm_eps_, gradients);
  const at::Tensor up =
      ops::column_linear(second.normed, param(kUp), param(kUpBias), tp(), gradients);
  const at::Tensor down =
      activated_linear(up, encoder_.activation, param(kDown), param(kDownBias), tp(), gradients);
  const at::Tensor y = second.stream + down;
  return {is_packed ? y.squeeze(0) : y};
}

std::int64_t EncoderBlock::all_rows(const Sight& sight) const {
  return sight.rotary.cosines.defined() ? sight.rotary.cosines.size(0) : encoder_.tokens;
}

EncoderBlock::Look always(Sight sight) {
  return [sight = std::move(sight)](const std::vector<at::Tensor>&) { return sight; };
}

EncoderBlock::Look made_once(EncoderBlock::Look look) {
  struct Last {
    std::vector<Read> inputs;
    Sight sight;
  };
  return [look = std::move(look),
          last = std::make_shared<Last>()](const std::vector<at::Tensor>& inputs) {
    const std::span<const at::Tensor> read = std::span(inputs).subspan(1);
    const auto same = [](const Read& one, const at::Tensor& other) { return one.is(other); };
    if (!std::ranges::equal(last->inputs, read, same))
      *last = {.inputs = {read.begin(), read.end()}, .sight = look(inputs)};
    return last->sight;
  };
}

EncoderBlock::Look packed(std::int64_t head_dim, RotaryPairs pairs) {
  return made_once([=](const std::vector<at::Tensor>& inputs) {
    const at::ScalarType type = statistics_type(inputs[0].scalar_type());
    return Sight{
        .mask = ops::Mask::full(ops::documents_of_lengths(inputs[2], 1, inputs[1].size(0))),
        .rotary = axial_rotary(inputs[1], head_dim, pairs, type)};
  });
}

}  // namespace trireme::blocks
