#include "trireme/data/loaders/balance.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "trireme/families/vlm/model.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/program.h"

namespace trireme::loaders {
namespace {

using mesh::Axis;

// A rank or a micro-batch that takes rows.
struct Bin {
  std::int64_t room = 0;  // rows
  double work = 0;
  std::vector<std::int64_t> rows{};
};

// Rows, costliest first, each into the bin with the least work that has space.
void share_out(const std::vector<std::int64_t>& rows, std::span<const double> work,
               std::vector<Bin>& bins) {
  for (const std::int64_t row : rows) {
    Bin* least = nullptr;
    for (Bin& bin : bins)
      if (bin.room > std::ssize(bin.rows) && (least == nullptr || bin.work < least->work))
        least = &bin;
    least->rows.push_back(row);
    least->work += work[row];
  }
}

}  // namespace

QuestionWork question_work(const config::Job& job) {
  const plan::Program program = model::describe(job).program;
  const plan::GradientFlow flow = plan::gradient_flow(program);
  QuestionWork work;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const plan::Node& node = program.nodes[n];
    const double flops =
        node.flops + (flow.node_has_backward[n] ? node.backward_flops.value_or(2 * node.flops) : 0);
    (model::sees_tiles(node) ? work.tile : work.row) += flops;
  }
  work.row /= static_cast<double>(job.run.micro_batch);
  work.tile /= static_cast<double>(model::expected_tiles(job));
  return work;
}

std::vector<std::vector<std::int64_t>> places_of_ranks(const config::Job& job) {
  const mesh::Mesh mesh = model::mesh_of(job);
  const plan::Recipe recipe = model::recipe_of(job);
  std::vector<std::vector<std::int64_t>> ranks;
  for (const int rank : mesh.group(0, mesh::kDp)) {
    ranks.emplace_back();
    for (int mb = 0; mb < recipe.micro_batches; ++mb)
      ranks.back().push_back(job.run.micro_batch * plan::micro_batch_id(mesh, recipe, rank, mb));
  }
  return ranks;
}

std::vector<std::int64_t> balanced_rows(std::span<const double> work,
                                        const std::vector<std::vector<std::int64_t>>& ranks,
                                        std::int64_t micro_batch) {
  std::vector<std::int64_t> rows(work.size()), at(work.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, std::greater<>(), [&](std::int64_t row) { return work[row]; });
  std::vector<Bin> of_ranks;
  for (const auto& places : ranks) of_ranks.push_back({.room = std::ssize(places) * micro_batch});
  share_out(rows, work, of_ranks);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<Bin> batches(ranks[rank].size(), Bin{.room = micro_batch});
    share_out(of_ranks[rank].rows, work, batches);
    std::ranges::stable_sort(batches, std::greater<>(), &Bin::work);
    for (std::size_t mb = 0; mb < batches.size(); ++mb)
      std::ranges::copy(batches[mb].rows, at.begin() + ranks[rank][mb]);
  }
  return at;
}

struct Balance::State {
  std::vector<std::vector<std::int64_t>> ranks;
  std::int64_t micro_batch, batch;
  Work work;
  std::mutex mutex;
  std::map<std::int64_t, std::vector<std::int64_t>> orders;  // of the last global batches asked for
};

Balance::Balance(const config::Job& job, Work work) {
  if (!job.vlm.balance) return;
  state_ = std::make_shared<State>();
  state_->ranks = places_of_ranks(job);
  state_->micro_batch = job.run.micro_batch;
  state_->batch = job.run.global_batch;
  state_->work = std::move(work);
}

std::int64_t Balance::at(std::int64_t place) const {
  if (!state_) return place;
  const std::int64_t batch = place / state_->batch, begin = batch * state_->batch;
  const std::lock_guard lock(state_->mutex);
  std::vector<std::int64_t>& order = state_->orders[batch];
  if (order.empty()) {
    std::vector<double> work;
    for (std::int64_t i = 0; i < state_->batch; ++i) work.push_back(state_->work(begin + i));
    order = balanced_rows(work, state_->ranks, state_->micro_batch);
  }
  const std::int64_t moved = begin + order[place - begin];
  constexpr std::size_t kKept = 4;
  if (state_->orders.size() > kKept) state_->orders.erase(state_->orders.begin());
  return moved;
}

}  // namespace trireme::loaders
