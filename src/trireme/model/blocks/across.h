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

// The rank's features of a token, among `all`, from `first` on. 0: all of them.
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
  // The same where ranks share tokens in chunks: int64 [ranks, chunks] on the CPU, the position of each chunk's first
  // token. Undefined: as cp().
  ops::ContextParallel cp(const at::Tensor& chunks) const;
  // The data-parallel ranks that share the global batch, in the order of its rows. Null: there is one rank, or no
  // sample's loss depends on others.
  comm::Group* batch() const { return batch_group_.get(); }
  at::Device device() const { return device_; }

  // The heads that are here, without noise.
  ops::AttentionHeads heads() const;
  // This rank's part of the results of attention, and of the inputs of the activation.
  Columns head_columns() const;
  Columns feature_columns() const;
  // The first row of the vocabulary's tables that is here.
  std::int64_t first_id() const;

  // The positions in their sample of its tokens that are here, int64 [tokens]; undefined where all are.
  at::Tensor positions(const ops::ContextParallel& cp) const;
  // Part of a tensor of whole samples, [samples, tokens, ..], for this rank's tokens, if ranks share rows; undefined
  // stays undefined.
  at::Tensor own_tokens(const at::Tensor& all) const;
  // For each row of an activation between parallel regions: its index in the flattened [samples, tokens] of this rank,
  // int64 [rows]; the last index is padding. Undefined where the rows are all of them in order.
  at::Tensor own_rows(const at::Tensor& x) const;
  // Causal; where positions within documents are given, [samples, tokens] here, within these. A token sees `window`
  // tokens, its own included; 0: all before.
  ops::Mask mask(const at::Tensor& positions, const ops::ContextParallel& cp,
                 std::int64_t window = 0) const;
  // The same for the flattened [samples, tokens of all ranks], int64 [rows]; undefined where the rows are all of them
  // in order.
  at::Tensor rows_of(const at::Tensor& x, const ops::ContextParallel& cp) const;
  // The same of the rows that x has inside a region: all that are here.
  at::Tensor rows_inside(const at::Tensor& x, const ops::ContextParallel& cp) const;

 private:
  // Places in [samples, tokens of all ranks] of rows in [samples, tokens] here.
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
