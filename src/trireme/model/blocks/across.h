// Across: the ranks that the layers of a model are spread over, and which part of the model is here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/ops/attention/attention.h"
#include "trireme/ops/attention/context.h"
#include "trireme/ops/tensor_parallel.h"

namespace trireme::blocks {

// Of `all` features of a token, those from `first` on. 0: all of them.
struct Columns {
  std::int64_t first = 0;
  std::int64_t all = 0;
};

class Across {
 public:
  // All of a resolved model on this rank, on the CPU.
  explicit Across(const config::Model& model) : model_(model) {}
  // As parallel of a resolved job says. Collective over the world, which must outlive this.
  Across(const config::Job& job, comm::World& world, at::Device device);
  // As `all`, but this rank has all features of every layer.
  static std::shared_ptr<const Across> without_tp(std::shared_ptr<const Across> all);

  const ops::TensorParallel& tp() const { return tp_; }
  const ops::ContextParallel& cp() const { return cp_; }
  // The same where ranks share `rows` of a sequence in order.
  ops::ContextParallel cp(std::int64_t rows) const;
  // The same where ranks share tokens in chunks: int64 [ranks, chunks], the position of each chunk's first token, on the
  // CPU. Undefined: as cp().
  ops::ContextParallel cp(const at::Tensor& chunks) const;
  // The data-parallel ranks that hold the global batch together, in the order of its rows; null: this one does, or no
  // sample's loss depends on others.
  comm::Group* batch() const { return batch_group_.get(); }
  at::Device device() const { return device_; }

  // The heads that are here, without noise.
  ops::AttentionHeads heads() const;
  // Of what attention gives and of what the feed-forward layer activates, what is here.
  Columns head_columns() const;
  Columns feature_columns() const;
  // The first row of the vocabulary's tables that is here.
  std::int64_t first_id() const;

  // The positions in their sample of its tokens that are here, int64 [tokens]; undefined where all are.
  at::Tensor positions(const ops::ContextParallel& cp) const;
  // Of what belongs to the tokens of whole samples, [samples, tokens, ..], that of those that are here, where ranks share
  // rows; undefined stays undefined.
  at::Tensor own_tokens(const at::Tensor& all) const;
  // Which of the flattened [samples, tokens] here each row of an activation between parallel regions is, int64
  // [rows]; the last one stands for padding. Undefined where they are all of them in order.
  at::Tensor own_rows(const at::Tensor& x) const;
  // Causal; where positions within documents are given, [samples, tokens] here, within these.
  ops::Mask mask(const at::Tensor& positions, const ops::ContextParallel& cp) const;
  // Rows of an activation between parallel regions are tokens of [samples, tokens of all ranks], flattened: which,
  // int64 [rows]; undefined where they are all of them in order.
  at::Tensor rows_of(const at::Tensor& x, const ops::ContextParallel& cp) const;
  // The same of the rows that x has inside a region: all that are here.
  at::Tensor rows_inside(const at::Tensor& x, const ops::ContextParallel& cp) const;

 private:
  // Of [samples, tokens] here, the places in [samples, tokens of all ranks].
  at::Tensor among_all(const at::Tensor& rows, std::int64_t tokens,
                       const ops::ContextParallel& cp) const;

  config::Model model_;
  at::Device device_ = at::kCPU;
  std::int64_t samples_ = 0;  // of a micro-batch
  std::unique_ptr<comm::Group> tp_group_;
  std::unique_ptr<ops::ContextGroups> cp_groups_;
  std::unique_ptr<comm::Group> batch_group_;
  ops::TensorParallel tp_;
  ops::ContextParallel cp_;
  std::shared_ptr<const Across> all_;  // whose groups these are, if not its own
};

}  // namespace trireme::blocks
