// Suffixes: b sequence, t token, d width.
#include "trireme/families/vit/blocks_encoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/ops/pointwise.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::blocks {
namespace {

constexpr double kRotaryBase = 10000;

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

namespace {

// Number of rows of a sequence; if packed, of all sequences.
std::int64_t all_rows(const Sight& sight, const model::Encoder& encoder) {
  return sight.rotary.cosines.defined() ? sight.rotary.cosines.size(0) : encoder.tokens;
}

LayerLook layer_look(const model::Encoder& encoder, EncoderBlock::Look look,
                     std::shared_ptr<const Across> across) {
  return [=](const model::Layer& layer, const std::vector<at::Tensor>& inputs, const exec::Past*) {
    Sight sight = look(inputs);
    LayerSight own{.key_bias = sight.key_bias};
    if (across->cp().size() > 1) {
      own.cp = across->cp(all_rows(sight, encoder));
      sight = of_rows(std::move(sight),
                      mesh::share(own.cp.layout.tokens, own.cp.rank(), own.cp.size()));
      own.key_bias = sight.key_bias;
    }
    own.mask = std::move(sight.mask);
    TRIREME_CHECK(sight.rotary.cosines.defined() == layer.attends.rotary &&
                      own.key_bias.defined() == layer.key_bias,
                  "a sight with rotary positions or biases for a layer without, or without for one "
                  "that has them");
    if (layer.attends.rotary)
      own.queries = own.keys = [rotary = std::move(sight.rotary)](const at::Tensor& heads) {
        return rotate(heads, rotary);
      };
    return own;
  };
}

ops::AttentionHeads heads_of(const model::Encoder& encoder, const ops::TensorParallel& tp) {
  const mesh::Share mine = mesh::share(encoder.heads, tp.rank(), tp.size());
  return {.heads = mine.count(),
          .kv_heads = mine.count(),
          .group = 1,
          .first_head = mine.begin,
          .all_heads = encoder.heads};
}

}  // namespace

EncoderBlock::EncoderBlock(const model::Encoder& encoder, double norm_eps, Look look,
                           const std::shared_ptr<const Across>& across)
    : LayeredBlock({.layers = model::encoder_layers(encoder, {}).layers,
                    .look = layer_look(encoder, std::move(look), across),
                    .heads = heads_of(encoder, across->tp()),
                    .norm_eps = norm_eps},
                   across) {}

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
