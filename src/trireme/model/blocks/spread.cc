#include "trireme/model/blocks/spread.h"

#include <utility>

#include "trireme/model/spread.h"
#include "trireme/ops/rows.h"

namespace trireme::blocks {
namespace {

std::vector<bool> marked(const std::vector<plan::ValueId>& ids, const std::vector<bool>& spread) {
  std::vector<bool> marks;
  for (const plan::ValueId id : ids) marks.push_back(spread[id]);
  return marks;
}

// A node that computes all rows on every rank.
class WholeRows : public exec::Block {
 public:
  WholeRows(std::unique_ptr<exec::Block> inner, const plan::Node& node,
            const std::vector<bool>& spread, Ranks ranks)
      : inner_(std::move(inner)),
        gathered_(marked(node.reads, spread)),
        cut_(marked(node.writes, spread)),
        loss_(node.loss),
        ranks_(std::move(ranks)) {}

  void bind(std::vector<at::Tensor> params) override { inner_->bind(std::move(params)); }
  at::Tensor initial_value(std::size_t index) const override {
    return inner_->initial_value(index);
  }

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    comm::Group& group = *ranks_->cp().group;
    std::vector<at::Tensor> whole = inputs;
    for (std::size_t i = 0; i < gathered_.size(); ++i)
      if (gathered_[i]) whole[i] = ops::all_rows(inputs[i], group);
    exec::BlockContext own = context;
    if (group.rank() > 0) own.counts = nullptr;
    std::vector<at::Tensor> written = inner_->forward(whole, own);
    for (std::size_t i = 0; i < cut_.size(); ++i)
      if (cut_[i]) written[i] = ops::own_rows(written[i], group);
    if (loss_) written[0] = written[0] / group.size();
    return written;
  }

 private:
  std::unique_ptr<exec::Block> inner_;
  std::vector<bool> gathered_, cut_;  // parallel to what the node reads and writes
  bool loss_;
  Ranks ranks_;
};

}  // namespace

void spread_rows(const Ranks& ranks, exec::Model& model) {
  if (ranks->cp().size() == 1) return;
  const plan::Program& program = model.spec.program;
  const std::vector<bool>& row_wise = model.spec.row_wise;
  const std::vector<bool> spread = model::spread_values(program, row_wise);
  for (std::size_t node = 0; node < model.blocks.size(); ++node)
    if (!row_wise[node])
      model.blocks[node] = std::make_unique<WholeRows>(std::move(model.blocks[node]),
                                                       program.nodes[node], spread, ranks);
}

}  // namespace trireme::blocks
