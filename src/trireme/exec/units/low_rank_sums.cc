#include "trireme/exec/units/low_rank_sums.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/codec/low_rank.h"
#include "trireme/comm/tree_sum.h"

namespace trireme::exec {
namespace {

constexpr std::int64_t kRounded = 1 << 14;  // elements that are converted at a time

float* floats_at(const Flat& flat, std::int64_t element) {
  return static_cast<float*>(flat.at(element));
}

// Calls use(first, count) for segments of so many elements.
template <typename Use>
void in_segments(std::int64_t count, const Use& use) {
  for (std::int64_t first = 0; first < count; first += kRounded)
    use(first, std::min(kRounded, count - first));
}

// Calls use(begin, end) for the elements that both ranges have, if any.
template <typename Use>
void where_both(std::int64_t begin, std::int64_t end, std::int64_t other_begin,
                std::int64_t other_end, const Use& use) {
  const std::int64_t first = std::max(begin, other_begin), last = std::min(end, other_end);
  if (first < last) use(first, last);
}

}  // namespace

LowRankSums::LowRankSums(const plan::PlanSet& plan, int rank, const Groups& groups,
                         MemoryCount& memory, plan::UnitId id, UnitState& unit)
    : groups_(groups),
      memory_(memory),
      unit_(unit),
      state_(unit.low_rank),
      low_(plan::low_rank(plan, id)),
      place_(plan::low_rank_place(plan, rank, id)),
      mine_(low_.owner(place_)) {}

template <typename Use>
void LowRankSums::for_own(const Use& use) const {
  const int owner = low_.distributed() ? place_ : 0;
  for (const plan::FactoredMatrix& one : low_.matrices)
    if (one.owner == owner) use(one);
}

float* LowRankSums::matrix(int sender, const plan::FactoredMatrix& one) const {
  return floats_at(low_.distributed() ? state_.matrices : state_.sums[sender], one.held);
}

at::Tensor LowRankSums::residual(const Flat& all, int sender,
                                 const plan::FactoredMatrix& one) const {
  return all.tensor(sender * mine_.held + one.held, one.matrix.numel());
}

void LowRankSums::allocate() {
  state_.factors = Flat(memory_, low_.factors, DType::kF32);
  state_.products =
      Flat(memory_, low_.reduction.own() * std::max(mine_.left, mine_.right), DType::kF32);
  state_.first = Flat(memory_, low_.dense_sent(place_) + mine_.left, DType::kF32);
  if (low_.reduction.scatters)
    state_.dense_part = Flat(memory_, low_.dense_of_part(place_), DType::kF32);
  if (low_.distributed()) state_.matrices = Flat(memory_, mine_.matrices, DType::kF32);
  unit_.next_residual = Flat(memory_, unit_.residual.count(), unit_.residual.type());
  unit_.next_residual.zero();
  state_.next_start = Flat(memory_, low_.starts, DType::kF32);
  state_.next_start.zero();
}

// Elements without factors, added over own senders.
void LowRankSums::add_dense(const std::vector<Flat>& sums) {
  const std::int64_t begin = low_.distributed() ? unit_.part_begin : 0;
  const std::int64_t end = begin + sums.front().count();
  std::int64_t at = 0;
  for (const auto& range : low_.dense)
    where_both(range.begin, range.end, begin, end, [&](std::int64_t first, std::int64_t last) {
      std::vector<const void*> leaves;
      for (const Flat& sum : sums) leaves.push_back(sum.at(first - begin));
      comm::tree_reduce(state_.first.at(std::exchange(at, at + last - first)), leaves, last - first,
                        DType::kF32, comm::Reduce::kSum);
    });
}

comm::Ticket LowRankSums::send_first() {
  const std::int64_t dense = low_.dense_sent(place_);
  state_.dense_reduce = comm::Ticket();
  if (!low_.reduction.scatters)
    return add_over_ranks(floats_at(state_.first, 0), dense + mine_.left);
  if (dense > 0) {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < low_.reduction.ranks; ++rank)
      counts.push_back(low_.dense_of_part(rank));
    state_.dense_reduce =
        exchanging().reduce_scatter_v(comm::Buffer{state_.first.at(0), dense, DType::kF32},
                                      state_.dense_part.buffer(), counts, comm::Reduce::kSum);
  }
  return add_over_ranks(floats_at(state_.first, dense), mine_.left);
}

// Ranks have shards of the sender's sum; each gets its matrices whole.
void LowRankSums::move_to_owners(const Flat& shard) {
  const auto owners = static_cast<int>(low_.owners.size());
  std::vector<std::int64_t> to, from;
  std::int64_t all = 0;
  for (int other = 0; other < owners; ++other) {
    all += to.emplace_back(low_.moved(place_, other));
    from.push_back(low_.moved(other, place_));
  }
  const Flat sent(memory_, all, DType::kF32), received(memory_, mine_.matrices, DType::kF32);
  std::int64_t at = 0;
  for (const plan::FactoredMatrix& one : low_.matrices)  // by owner
    where_both(one.matrix.offset, one.matrix.end(), unit_.part_begin, unit_.part_begin + low_.part,
               [&](std::int64_t first, std::int64_t last) {
                 std::copy_n(floats_at(shard, first - unit_.part_begin), last - first,
                             floats_at(sent, std::exchange(at, at + last - first)));
               });
  groups_.over(unit_.sharing.shards).all_to_all(sent.buffer(), to, received.buffer(), from).wait();
  at = 0;
  for (int other = 0; other < owners; ++other)
    for_own([&](const plan::FactoredMatrix& one) {
      where_both(one.matrix.offset, one.matrix.end(), other * low_.part, (other + 1) * low_.part,
                 [&](std::int64_t first, std::int64_t last) {
                   std::copy_n(floats_at(received, std::exchange(at, at + last - first)),
                               last - first, matrix(0, one) + (first - one.matrix.offset));
                 });
    });
}

void LowRankSums::add_residuals() const {
  for (int sender = 0; sender < low_.reduction.own(); ++sender)
    for_own([&](const plan::FactoredMatrix& one) {
      const at::Tensor left = residual(unit_.residual, sender, one);
      in_segments(left.numel(), [&](std::int64_t first, std::int64_t count) {
        const at::Tensor added =
            left.narrow(0, first, count).to(at::kFloat).mul(state_.scale).contiguous();
        const float* const from = added.data_ptr<float>();
        float* const to = matrix(sender, one) + first;
        for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
      });
    });
}

void LowRankSums::add_products(float* to, std::int64_t count) const {
  if (count == 0) return;
  std::vector<const void*> leaves;
  for (int sender = 0; sender < low_.reduction.own(); ++sender)
    leaves.push_back(state_.products.at(sender * count));
  comm::tree_reduce(to, leaves, count, DType::kF32, comm::Reduce::kSum);
}

comm::Ticket LowRankSums::add_over_ranks(float* sum, std::int64_t count) const {
  if (count == 0) return {};
  return exchanging().all_reduce(comm::Buffer{sum, count, DType::kF32}, comm::Reduce::kSum);
}

void LowRankSums::begin(double gradient_scale) {
  state_.scale = gradient_scale;
  std::vector<Flat> sums = unit_.on_way().sender_sums();
  TRIREME_CHECK(std::ssize(sums) == low_.reduction.own(), "{} sums of {} senders", sums.size(),
                low_.reduction.own());
  allocate();
  add_dense(sums);
  if (low_.distributed()) {
    move_to_owners(sums.front());
    unit_.on_way().sum = std::move(sums.front());  // its memory takes the result
  } else {
    state_.sums = std::move(sums);
  }
  add_residuals();
  for_own([&](const plan::FactoredMatrix& one) {
    std::copy_n(floats_at(state_.start, one.start), one.shape.right(), factor(one.right));
    codec::begin_columns(one.shape,
                         mix(unit_.draws.places, static_cast<std::uint64_t>(one.matrix.offset)),
                         factor(one.right));
  });
  for (int sender = 0; sender < low_.reduction.own(); ++sender)
    for_own([&](const plan::FactoredMatrix& one) {
      codec::multiply(one.shape, matrix(sender, one), factor(one.right),
                      floats_at(state_.products, sender * mine_.left + (one.left - mine_.first)));
    });
  add_products(floats_at(state_.first, low_.dense_sent(place_)), mine_.left);
  unit_.reduce = send_first();
}

// What factors of its own leave of each sender's matrices.
void LowRankSums::leave_residuals() const {
  const at::Tensor factored = at::empty({kRounded}, at::kFloat);
  auto* const sent = factored.data_ptr<float>();
  for (int sender = 0; sender < low_.reduction.own(); ++sender)
    for_own([&](const plan::FactoredMatrix& one) {
      const at::Tensor left = residual(unit_.next_residual, sender, one);
      const float* const right =
          floats_at(state_.products, sender * mine_.right + (one.right - mine_.first - mine_.left));
      in_segments(left.numel(), [&](std::int64_t first, std::int64_t count) {
        codec::expand(one.shape, factor(one.left), right, first, count, sent);
        const float* const whole = matrix(sender, one) + first;
        for (std::int64_t i = 0; i < count; ++i) sent[i] = whole[i] - sent[i];
        left.narrow(0, first, count).copy_(factored.narrow(0, 0, count).div(state_.scale));
      });
    });
}

// Elements of the unit from `begin` on.
void LowRankSums::write_sum(const Flat& sum, std::int64_t begin) const {
  const std::int64_t end = begin + sum.count();
  for (const plan::FactoredMatrix& one : low_.matrices)
    where_both(one.matrix.offset, one.matrix.end(), begin, end,
               [&](std::int64_t first, std::int64_t last) {
                 codec::expand(one.shape, factor(one.left), factor(one.right),
                               first - one.matrix.offset, last - first,
                               floats_at(sum, first - begin));
               });
  const Flat& dense = low_.reduction.scatters ? state_.dense_part : state_.first;
  std::int64_t at = 0;
  for (const auto& range : low_.dense)
    where_both(range.begin, range.end, begin, end, [&](std::int64_t first, std::int64_t last) {
      std::copy_n(floats_at(dense, std::exchange(at, at + last - first)), last - first,
                  floats_at(sum, first - begin));
    });
  const std::int64_t padding = std::max(begin, std::min(unit_.numel, end));
  std::fill_n(floats_at(sum, padding - begin), end - padding, 0.0f);
}

void LowRankSums::finish() {
  state_.dense_reduce.wait();
  std::copy_n(floats_at(state_.first, low_.dense_sent(place_)), mine_.left, factor(mine_.first));
  for_own(
      [&](const plan::FactoredMatrix& one) { codec::orthonormalise(one.shape, factor(one.left)); });
  const std::int64_t rights = mine_.first + mine_.left;  // the first of own Q
  for (int sender = 0; sender < low_.reduction.own(); ++sender)
    for_own([&](const plan::FactoredMatrix& one) {
      codec::multiply_transposed(
          one.shape, matrix(sender, one), factor(one.left),
          floats_at(state_.products, sender * mine_.right + (one.right - rights)));
    });
  add_products(factor(rights), mine_.right);
  add_over_ranks(factor(rights), mine_.right).wait();
  leave_residuals();
  if (low_.distributed()) {
    std::vector<std::int64_t> counts;
    for (const plan::FactorOwner& owner : low_.owners) counts.push_back(owner.left + owner.right);
    groups_.over(unit_.sharing.shards)
        .all_gather_v(comm::Buffer{state_.factors.at(mine_.first), counts[place_], DType::kF32},
                      state_.factors.buffer(), counts)
        .wait();
  }
  for (const plan::FactoredMatrix& one : low_.matrices)
    std::copy_n(factor(one.right), one.shape.right(), floats_at(state_.next_start, one.start));
  Flat& sum = unit_.on_way().sum;
  if (low_.reduction.scatters) {
    state_.sums.clear();
    sum = Flat(memory_, unit_.part_count, DType::kF32);
  } else if (!low_.distributed()) {
    sum = std::move(state_.sums.front());
  }
  write_sum(sum, low_.distributed() || low_.reduction.scatters ? unit_.part_begin : 0);
  state_.sums.clear();
  for (Flat* one :
       {&state_.matrices, &state_.factors, &state_.products, &state_.first, &state_.dense_part})
    *one = Flat();
}

}  // namespace trireme::exec
