#include "trireme/model/blocks/across.h"

#include <ATen/ops/arange.h>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/head_width.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/model/layout.h"
#include "trireme/model/token_sharing.h"
#include "trireme/ops/tensor_parallel_rows.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::blocks {
namespace {

using mesh::Axis;

}  // namespace

Across::Across(const config::Job& job, comm::World& world, at::Device device)
    : model_(job.model), device_(device), samples_(job.run.micro_batch) {
  const mesh::Mesh mesh = model::mesh_of(job);
  if (job.parallel.tp > 1) {
    tp_group_ = world.make_group("layers.tp", mesh.group(world.rank(), Axis::kTp));
    tp_ = {.group = tp_group_.get(),
           .sequence = job.parallel.sequence_parallel && config::info(job).sequence_parallel,
           .tokens = job.model.seq_len / job.parallel.cp};
  }
  if (job.parallel.cp > 1) {
    cp_groups_ = std::make_unique<ops::ContextGroups>(
        world, mesh.group(world.rank(), Axis::kCp), job.parallel.context,
        job.parallel.context == config::ContextMethod::kHierarchical ? job.parallel.context_inner
                                                                     : 0);
    cp_ = cp_groups_->parallel();
    cp_.layout = config::info(job).zigzag ? model::token_layout(job).layout
                                          : mesh::in_order(job.model.seq_len, job.parallel.cp);
  }
  if (config::couples_batch(job) && config::dp(job) > 1)
    batch_group_ = world.make_group("layers.dp", mesh.group(world.rank(), mesh::kDp));
}

std::shared_ptr<const Across> Across::without_tp(std::shared_ptr<const Across> all) {
  auto alone = std::make_shared<Across>(all->model_);
  alone->device_ = all->device_;
  alone->samples_ = all->samples_;
  alone->cp_ = all->cp_;
  alone->all_ = std::move(all);
  return alone;
}

ops::ContextParallel Across::cp(std::int64_t rows) const {
  ops::ContextParallel spread = cp_;
  spread.layout = mesh::in_order(rows, cp_.size());
  return spread;
}

ops::ContextParallel Across::cp(const at::Tensor& chunks) const {
  ops::ContextParallel spread = cp_;
  if (!chunks.defined()) return spread;
  const std::int64_t size = spread.layout.tokens / chunks.numel();
  for (int rank = 0; rank < spread.size(); ++rank) {
    std::vector<mesh::Share>& ranges = spread.layout.ranges[rank];
    ranges.clear();
    for (std::int64_t i = 0; i < chunks.size(1); ++i) {
      const std::int64_t begin = chunks.accessor<std::int64_t, 2>()[rank][i];
      ranges.push_back({begin, begin + size});
    }
  }
  return spread;
}

ops::AttentionHeads Across::heads() const {
  const std::int64_t group = model_.heads / model_.kv_heads;
  const mesh::Share queries = mesh::share(model_.heads, tp_.rank(), tp_.size());
  const mesh::Share read = mesh::granules_of(queries, group);
  return {.heads = queries.count(),
          .kv_heads = read.count(),
          .group = group,
          .offset = queries.begin - read.begin * group,
          .first_head = queries.begin,
          .all_heads = model_.heads};
}

Columns Across::head_columns() const {
  return {.first = config::head_width(model_) * heads().first_head,
          .all = config::attended_width(model_)};
}

Columns Across::feature_columns() const {
  return {.first = mesh::share(model_.ffn, tp_.rank(), tp_.size()).begin, .all = model_.ffn};
}

std::int64_t Across::first_id() const {
  return mesh::share(model_.vocab, tp_.rank(), tp_.size()).begin;
}

at::Tensor Across::positions(const ops::ContextParallel& cp) const {
  if (cp.size() == 1) return {};
  return ops::token_positions(cp.layout, cp.rank()).to(device_);
}

at::Tensor Across::own_tokens(const at::Tensor& all) const {
  const bool cut = config::info(model_.family).zigzag;
  if (!all.defined() || cp_.size() == 1 || cut) return all;
  return ops::shard_tokens(all, 1, cp_.layout, cp_.rank());
}

at::Tensor Across::own_rows(const at::Tensor& x) const {
  if (!tp_.shares_rows()) return {};
  const std::int64_t count = samples_ * tp_.tokens;
  return ops::row_indices(count, tp_).clamp_max(count - 1).to(device_);
}

ops::Mask Across::mask(const at::Tensor& positions, const ops::ContextParallel& cp,
                       std::int64_t window) const {
  // A window as long as the sequence hides nothing, and attention without one may be fused.
  const std::int64_t before = window < model_.seq_len ? window - 1 : -1;
  if (!positions.defined()) return ops::Mask::causal({}, before);
  const at::Tensor here = this->positions(cp);
  const at::Tensor place =
      here.defined() ? here : at::arange(positions.size(1), positions.options());
  return ops::Mask::causal({.begin = place - positions}, before);
}

at::Tensor Across::rows_of(const at::Tensor& x, const ops::ContextParallel& cp) const {
  const bool shared = tp_.shares_rows();
  if (!shared && cp_.size() == 1) return {};
  const std::int64_t tokens = shared ? tp_.tokens : x.size(1);
  const std::int64_t count = (shared ? samples_ : x.size(0)) * tokens;
  const at::Tensor rows =
      (shared ? ops::row_indices(count, tp_) : at::arange(count, at::kLong)).to(device_);
  return cp_.size() == 1 ? rows : among_all(rows, tokens, cp);
}

at::Tensor Across::rows_inside(const at::Tensor& x, const ops::ContextParallel& cp) const {
  if (cp_.size() == 1) return {};
  const bool shared = tp_.shares_rows();
  const std::int64_t tokens = shared ? tp_.tokens : x.size(1);
  const std::int64_t count = (shared ? samples_ : x.size(0)) * tokens;
  return among_all(at::arange(count, at::TensorOptions().dtype(at::kLong).device(device_)), tokens,
                   cp);
}

at::Tensor Across::among_all(const at::Tensor& rows, std::int64_t tokens,
                             const ops::ContextParallel& cp) const {
  return rows.div(tokens, "floor") * cp.layout.tokens +
         positions(cp).index_select(0, rows.remainder(tokens));
}

}  // namespace trireme::blocks
