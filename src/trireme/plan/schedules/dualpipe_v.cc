#include <array>
#include <deque>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/fixed.h"

namespace trireme::schedules {
namespace {

class DualPipeV {
 public:
  DualPipeV(int ranks, int micro_batches, int rank)
      : ranks_(ranks), micro_batches_(micro_batches), rank_(rank) {}

  Row row() {
    const int after = ranks_ - 1 - rank_;  // ranks after this one on the way down
    for (int i = 0; i < 2 * after; ++i) forward(0);
    for (int i = 0; i < rank_ + 1; ++i) forward(0), forward(1);
    for (int i = 0; i < after; ++i) input(1), weight(), forward(1);
    for (int i = 0; i < micro_batches_ - 2 * ranks_ + rank_ + 1; ++i)
      forward(0), backward(1), forward(1), backward(0);
    for (int i = 0; i < after; ++i) backward(1), forward(1), backward(0);
    wind_down();
    for (int i = 0; i < after; ++i) weight(), input(0);
    while (!weights_.empty()) weight();
    return std::move(row_);
  }

 private:
  // From the middle on backwards are split, the order of chunks alternating with the rank, and leave the next
  // ranks' bubbles to weight gradients.
  void wind_down() {
    const int pairs = rank_ + 1;
    for (int i = 0; i < pairs; ++i) {
      const bool split_1 = i > pairs / 2 || (i == pairs / 2 && rank_ % 2 == 1);
      split_1 ? input(1) : backward(1);
      i >= pairs / 2 ? input(0) : backward(0);
    }
  }

  void forward(int chunk) { add(Work::kForward, chunk, forwards_); }
  void backward(int chunk) { add(Work::kBackward, chunk, backwards_); }
  void input(int chunk) {
    add(Work::kBackwardInput, chunk, backwards_);
    weights_.push_back(row_.back());
  }
  void weight() {
    TRIREME_CHECK(!weights_.empty(), "dualpipe_v of rank {}: no weight gradient is left", rank_);
    row_.push_back(weights_.front());
    row_.back().work = Work::kBackwardWeight;
    weights_.pop_front();
  }
  void add(Work work, int chunk, std::array<int, 2>& next) {
    const int mb = next[chunk]++;
    row_.push_back({.work = work, .chunk = chunk, .mb = mb});
  }

  int ranks_, micro_batches_, rank_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Action> weights_;  // whose input half is done
  Row row_;
};

}  // namespace

Row dualpipe_v_row(int ranks, int micro_batches, int rank) {
  return DualPipeV(ranks, micro_batches, rank).row();
}

}  // namespace trireme::schedules
