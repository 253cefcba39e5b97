#include "trireme/model/blocks/decoder.h"

#include <ATen/ops/arange.h>

#include <utility>

#include "trireme/ops/pointwise.h"

namespace trireme::blocks {
namespace {

// What a decoder's tokens see: those before, within a window, a document, or both.
class DecoderLook {
 public:
  DecoderLook(DecoderTables tables, at::Tensor axes, std::shared_ptr<const Across> across)
      : tables_(std::move(tables)), axes_(std::move(axes)), across_(std::move(across)) {}

  LayerSight operator()(const model::Layer& layer, const std::vector<at::Tensor>& inputs,
                        const exec::Past* past) const {
    LayerSight sight{.cp = across_->cp(inputs.size() > 2 ? inputs[2] : at::Tensor())};
    const at::Tensor given = across_->own_tokens(inputs.size() > 1 ? inputs[1] : at::Tensor());
    if (past == nullptr) sight.mask = across_->mask(within(given), sight.cp, layer.attends.window);
    if (!layer.attends.rotary) return sight;
    const at::Tensor places = past != nullptr
                                  ? at::arange(past->rows, past->rows + inputs[0].size(1))
                              : given.defined() ? given
                                                : across_->positions(sight.cp);
    const bool each = given.defined();
    const auto turn = [&](const ops::RotaryTable& table) -> LayerSight::Turn {
      return [rows = rows_of(table, places, past == nullptr && each), each](const at::Tensor& x) {
        return each ? turned_each(x, rows) : ops::rotary(x, rows);
      };
    };
    const DecoderTables::Both& tables = layer.attends.window > 0 ? tables_.sliding : tables_.full;
    sight.keys = turn(tables.keys);
    sight.queries = layer.multiplier == 1 ? sight.keys : turn(tables.queries);
    return sight;
  }

 private:
  // Rows of a table for places of this node's tokens; `each`: as its input gives them.
  ops::RotaryTable rows_of(const ops::RotaryTable& table, const at::Tensor& places,
                           bool each) const {
    if (!each) return table.at(places);
    return axes_.defined() ? by_axes(table, places.narrow(2, 0, 3), axes_)
                           : table.at(places.flatten());
  }
  // [samples, tokens], places within documents; undefined: sequences are one.
  at::Tensor within(const at::Tensor& positions) const {
    if (!positions.defined() || !axes_.defined()) return positions;
    return positions.size(2) > 3 ? positions.select(2, 3) : at::Tensor();
  }

  DecoderTables tables_;
  at::Tensor axes_;  // of M-RoPE
  std::shared_ptr<const Across> across_;
};

}  // namespace

DecoderBlock::DecoderBlock(const config::Job& job, std::vector<model::Layer> layers,
                           const plan::Node& node, DecoderTables tables, std::vector<int> adapted,
                           const std::shared_ptr<const Across>& across)
    : LayeredBlock({.layers = std::move(layers),
                    .look = DecoderLook(std::move(tables), frequency_axes(job), across),
                    .heads = across->heads(),
                    .norm_eps = job.model.norm_eps,
                    .dropout = job.model.dropout,
                    .kept = Kept(node),
                    .lora = job.lora,
                    .adapted = std::move(adapted)},
                   across) {}

}  // namespace trireme::blocks
