#include "trireme/plan/schedules/run.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>

namespace trireme::schedules {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Run {
 public:
  Run(const ScheduleShape& shape, Placement placement, const Policy& policy, double bound)
      : shape_(shape),
        placement_(placement),
        policy_(policy),
        bound_(bound),
        stages_(shape.ranks * shape.chunks),
        count_(static_cast<std::size_t>(shape.micro_batches)),
        ranks_(static_cast<std::size_t>(shape.ranks)),
        forward_at_(static_cast<std::size_t>(stages_) * count_, kNever),
        input_at_(forward_at_) {
    std::fill_n(forward_at_.begin(), count_, 0.0);
    double longest = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      const StageCost one = cost(stage);
      longest = std::max({longest, one.forward, one.input, one.weight});
      ranks_[rank_of(placement, shape.ranks, stage)].work +=
          shape.micro_batches * (one.forward + one.input + one.weight);
    }
    slack_ = 1e-9 * longest;
    for (Rank& rank : ranks_) rank.row.reserve(actions_of_a_rank());
  }

  std::optional<RunResult> run() {
    wake_.push({0, 0});
    while (!wake_.empty() && !beaten_) {
      const auto [now, rank] = wake_.top();
      wake_.pop();
      if (now + slack_ < ranks_[rank].free) continue;
      policy_.order ? follow(now, rank) : decide(now, rank);
    }
    RunResult result{.grid = {.placement = placement_,
                              .chunks = shape_.chunks,
                              .micro_batches = shape_.micro_batches}};
    for (Rank& rank : ranks_) {
      if (beaten_ || rank.row.size() < actions_of_a_rank()) return std::nullopt;
      result.cost = std::max(result.cost, rank.free - rank.begin);
      result.grid.rows.push_back(std::move(rank.row));
    }
    return result;
  }

 private:
  struct Rank {
    double begin = kNever, free = 0;
    double work = 0, idle = 0;  // work: of the whole step
    double held = 0;
    std::array<int, 2> forward{}, input{}, weight{};  // micro-batches done, by chunk
    bool after_input = false;                         // the last of F and I was I
    std::size_t place = 0;                            // in the policy's order
    Row row{};
  };
  struct Choice {
    double at = kNever;  // when it can start
    Action action{};
  };

  std::size_t actions_of_a_rank() const {
    return 3 * count_ * static_cast<std::size_t>(shape_.chunks);
  }
  StageCost cost(int stage) const {
    return shape_.stages.empty() ? StageCost{} : shape_.stages[stage];
  }
  StageCost cost(int rank, int chunk) const {
    return cost(stage_of(placement_, shape_.ranks, rank, chunk));
  }
  std::size_t slot(int stage, int mb) const {
    return static_cast<std::size_t>(stage) * count_ + static_cast<std::size_t>(mb);
  }
  bool full(const Rank& rank) const { return rank.held + 1 > policy_.limit + 1e-9; }

  Choice next(double now, int rank, Work work, int chunk, int mb) const {
    if (mb == shape_.micro_batches) return {};
    const int stage = stage_of(placement_, shape_.ranks, rank, chunk);
    const double arrival = (work == Work::kForward ? forward_at_ : input_at_)[slot(stage, mb)];
    return {std::max(now, arrival), {.work = work, .chunk = chunk, .mb = mb}};
  }
  Choice next_weight(double now, const Rank& rank) const {
    Choice oldest;
    for (int chunk = shape_.chunks; chunk-- > 0;) {
      const auto k = static_cast<std::size_t>(chunk);
      if (rank.weight[k] < rank.input[k] &&
          (oldest.at == kNever || rank.weight[k] < oldest.action.mb))
        oldest = {now, {.work = Work::kBackwardWeight, .chunk = chunk, .mb = rank.weight[k]}};
    }
    return oldest;
  }

  static int done(const Rank& rank, const Action& action) {
    return (action.work == Work::kForward ? rank.forward : rank.input)[action.chunk];
  }

  void follow(double now, int id) {
    Rank& rank = ranks_[id];
    const Row& order = (*policy_.order)[id];
    while (rank.place < order.size() && order[rank.place].mb < done(rank, order[rank.place]))
      ++rank.place;
    Choice ordered;
    if (rank.place < order.size()) {
      const Action action = order[rank.place];
      if (action.work != Work::kForward || !full(rank))
        ordered = next(now, id, action.work, action.chunk, action.mb);
    }
    const double here = now + slack_;
    if (ordered.at <= here) return start(ordered, id);
    if (next_weight(now, rank).at > here)
      if (const Choice early = ahead(now, id, order); early.at <= here) return start(early, id);
    fill(now, id, ordered.at);
  }

  // The first action after the order's next one that can start now. The actions between still fit: a rank that needs
  // memory for a forward runs its remaining weight backwards.
  Choice ahead(double now, int id, const Row& order) const {
    const Rank& rank = ranks_[id];
    int whole = 0, arrived = 0;  // chunks between F and I; actions that could start
    for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
      const auto k = static_cast<std::size_t>(chunk);
      whole += rank.forward[k] - rank.input[k];
      arrived += next(now, id, Work::kForward, chunk, rank.forward[k]).at <= now + slack_;
      arrived += next(now, id, Work::kBackwardInput, chunk, rank.input[k]).at <= now + slack_;
    }
    int most = whole;
    const std::size_t end = std::min(order.size(), rank.place + policy_.ahead);
    for (std::size_t i = rank.place; i < end && arrived > 0; ++i) {
      const Action& action = order[i];
      const bool forward = action.work == Work::kForward;
      if (action.mb < done(rank, action)) continue;
      if (action.mb == done(rank, action)) {
        const Choice choice = next(now, id, action.work, action.chunk, action.mb);
        const bool can = choice.at <= now + slack_;
        if (can && !(forward && most + 1 > policy_.limit + 1e-9)) return choice;
        arrived -= can;
      }
      most = std::max(most, whole += forward ? 1 : -1);
    }
    return {};
  }

  void decide(double now, int id) {
    const Rank& rank = ranks_[id];
    const double here = now + slack_;
    const Choice input = next(now, id, Work::kBackwardInput, 0, rank.input[0]);
    const Choice forward = next(now, id, Work::kForward, 0, rank.forward[0]);
    const bool input_has_arrived = input.at <= here;
    const bool forward_has_arrived = forward.at <= here;
    const bool forward_has_room = forward_has_arrived && !full(rank);
    // Forwards and input backwards alternate; a forward without memory gets some from a weight backward.
    const bool forward_is_next = rank.after_input && forward_has_arrived;
    if (forward_is_next && forward_has_room) return start(forward, id);
    if (forward_is_next)
      if (const Choice weight = next_weight(now, rank); weight.at <= here) return start(weight, id);
    if (input_has_arrived) return start(input, id);
    const double patience = rank.input[0] == 0 ? policy_.wait_at_first : policy_.wait_for_input;
    const bool input_is_far = input.at >= now + patience * cost(id, 0).forward;
    if (forward_has_room && input_is_far) return start(forward, id);
    const double next_arrival = forward_has_arrived ? input.at : std::min(input.at, forward.at);
    fill(now, id, next_arrival);
  }

  // A weight gradient, if there is one and the better work is not too close.
  void fill(double now, int id, double better) {
    const Choice weight = next_weight(now, ranks_[id]);
    const bool weight_is_left = weight.at <= now + slack_;
    const double most = policy_.wait_at_weight * cost(id, weight.action.chunk).weight;
    const bool better_is_far = better + slack_ >= now + most;
    if (weight_is_left && better_is_far) return start(weight, id);
    if (better < kNever) wake_.push({better, id});
  }

  void start(const Choice& choice, int id) {
    Rank& rank = ranks_[id];
    const Action action = choice.action;
    const auto k = static_cast<std::size_t>(action.chunk);
    const int stage = stage_of(placement_, shape_.ranks, id, action.chunk);
    if (rank.row.empty()) rank.begin = rank.free = shape_.barrier ? 0 : choice.at;
    rank.idle += choice.at - rank.free;
    beaten_ = rank.idle + rank.work >= bound_;
    rank.row.push_back(action);
    if (action.work == Work::kForward) {
      ++rank.forward[k];
      rank.held += 1;
      rank.after_input = false;
      rank.free = choice.at + cost(stage).forward;
      if (stage + 1 < stages_)
        deliver(forward_at_, id, stage + 1, action.mb);
      else
        input_at_[slot(stage, action.mb)] = rank.free;
    } else if (action.work == Work::kBackwardInput) {
      ++rank.input[k];
      rank.held -= 1 - policy_.kept;
      rank.after_input = true;
      rank.free = choice.at + cost(stage).input;
      if (stage > 0) deliver(input_at_, id, stage - 1, action.mb);
    } else {
      ++rank.weight[k];
      rank.held -= policy_.kept;
      rank.free = choice.at + cost(stage).weight;
    }
    wake_.push({rank.free, id});
  }

  // The rank's result, at its end, to the rank of a neighbouring stage.
  void deliver(std::vector<double>& times, int from, int stage, int mb) {
    const int to = rank_of(placement_, shape_.ranks, stage);
    const double end = ranks_[from].free;
    const double arrival = to == from ? end : end + shape_.transfer;
    times[slot(stage, mb)] = arrival;
    if (to != from) wake_.push({arrival, to});
  }

  using Wake = std::pair<double, int>;  // when, which rank

  const ScheduleShape& shape_;
  Placement placement_;
  const Policy& policy_;
  double bound_;
  int stages_;
  std::size_t count_;
  std::vector<Rank> ranks_;
  std::vector<double> forward_at_, input_at_;  // from when on a stage can run a micro-batch
  double slack_ = 0;
  bool beaten_ = false;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wake_{};
};

}  // namespace

std::optional<RunResult> run_policy(const ScheduleShape& shape, Placement placement,
                                    const Policy& policy, double bound) {
  return Run(shape, placement, policy, bound).run();
}

}  // namespace trireme::schedules
