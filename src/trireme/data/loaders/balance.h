// Vision and text work, made even over data-parallel ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::loaders {

// FLOPs of one step that a row of model.seq_len tokens and a tile cost, forward and backward as the job trains them.
struct QuestionWork {
  double row = 0;
  double tile = 0;
};
QuestionWork question_work(const config::Job& job);

// Which place of a global batch each micro-batch of each data-parallel rank begins at, in the order of the rank's
// micro-batches; of a resolved job.
std::vector<std::vector<std::int64_t>> places_of_ranks(const config::Job& job);

// For each place of a global batch the index of its row, where rows cost `work`. The next costliest row joins the rank
// with the least work so far that has space for it, and there the micro-batch with the least. The costliest
// micro-batches of all ranks come first. Ties are resolved by index, so that it is a function of its arguments.
std::vector<std::int64_t> balanced_rows(std::span<const double> work,
                                        const std::vector<std::vector<std::int64_t>>& ranks,
                                        std::int64_t micro_batch);

// Places of an order of rows, moved within their global batches where vlm.balance is set. Asked by several threads at
// once.
class Balance {
 public:
  using Work = std::function<double(std::int64_t place)>;
  // Moves nothing.
  Balance() = default;
  // The same unless vlm.balance is set. `work` is of the row at a place of the order.
  Balance(const config::Job& job, Work work);

  // The place of the order whose row is consumed at this one.
  std::int64_t at(std::int64_t place) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // null: moves nothing
};

}  // namespace trireme::loaders
