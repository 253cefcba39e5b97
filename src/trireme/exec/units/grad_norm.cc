#include "trireme/exec/units/grad_norm.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::exec {
namespace {

using mesh::Axis;

// Adds neighbours, then sums of neighbours: the tree that gradients are added along.
double tree_sum(std::vector<double> terms) {
  while (terms.size() > 1) {
    std::vector<double> sums;
    for (std::size_t i = 0; i < terms.size(); i += 2)
      sums.push_back(i + 1 < terms.size() ? terms[i] + terms[i + 1] : terms[i]);
    terms = std::move(sums);
  }
  return terms.empty() ? 0 : terms[0];
}

// A micro-batch's sums as numbers that are added, and back.
std::vector<double> numbers_of(const MicroBatchSums& sums) {
  std::vector<double> numbers = {sums.loss};
  for (const Counts::Count& count : sums.counts)
    numbers.insert(numbers.end(), {count.sum, count.of});
  return numbers;
}

MicroBatchSums sums_of(const std::vector<double>& numbers) {
  MicroBatchSums sums{.loss = numbers[0]};
  for (std::size_t i = 1; i < numbers.size(); i += 2)
    sums.counts.push_back({.sum = numbers[i], .of = numbers[i + 1]});
  return sums;
}

// Islands have gradients of their own.
int island_count(const plan::PlanSet& plan) {
  return plan.recipe.outer ? plan.recipe.outer->islands : 1;
}

constexpr std::size_t kOwnSquareSum = 2;       // place in what a rank sends
constexpr std::size_t kHead = 3 + kBusyKinds;  // what it sends before its losses

// Where the sums of every unit stand in what its owners send. All ranks send equally much.
class Parts {
 public:
  explicit Parts(const plan::PlanSet& plan) {
    const auto shards = [&](const plan::Unit& unit) {
      return plan::sharing_of(plan.mesh, plan.recipe, unit).shards;
    };
    travels_ = plan.mesh.degree(Axis::kTp) > 1 || plan.mesh.degree(Axis::kPp) > 1 ||
               std::ranges::any_of(plan.program.units,
                                   [&](const plan::Unit& unit) { return !shards(unit).empty(); });
    std::vector<std::size_t> lengths(static_cast<std::size_t>(plan.mesh.degree(Axis::kPp)));
    for (plan::UnitId unit = 0; unit < static_cast<plan::UnitId>(plan.program.units.size());
         ++unit) {
      const plan::Unit& one = plan.program.units[unit];
      Place place{.axes = shards(one), .owner = plan::stages_of_unit(plan.program, unit)[0]};
      std::size_t& length = lengths[place.owner];
      place.position = length;
      if (one.trainable)
        place.chunks =
            static_cast<std::size_t>(plan::shard_numel(one.numel, plan.mesh.degree(place.axes)) /
                                     plan::norm_chunk(one.numel));
      if (travels_) length += place.chunks;
      places_.push_back(place);
    }
    length_ = *std::ranges::max_element(lengths);
  }

  // Whether a rank has only a part of the units, or only some.
  bool travel() const { return travels_; }
  mesh::AxisSet axes(plan::UnitId unit) const { return at(unit).axes; }
  int owner(plan::UnitId unit) const { return at(unit).owner; }
  std::size_t position(plan::UnitId unit) const { return at(unit).position; }
  std::size_t chunks(plan::UnitId unit) const { return at(unit).chunks; }
  std::size_t length(std::size_t losses) const { return kHead + losses + length_; }

 private:
  struct Place {
    mesh::AxisSet axes;  // over which its parts are
    int owner = 0;       // stage
    std::size_t position = 0;
    std::size_t chunks = 0;
  };
  const Place& at(plan::UnitId unit) const { return places_[unit]; }

  bool travels_ = false;
  std::size_t length_ = 0;
  std::vector<Place> places_;
};

// Numbers that all ranks have sent, equally many each, and the place of the chunk sums among them.
struct Sent {
  std::span<const double> all;
  std::size_t stride = 0;
  std::size_t first = 0;
};

// Of all trained units, as the ranks have them that share an island with `member`.
double square_sum(const plan::PlanSet& plan, const Parts& parts, const Sent& sent, int member) {
  double total = 0;
  for (plan::UnitId unit = 0; unit < static_cast<plan::UnitId>(plan.program.units.size()); ++unit) {
    if (!plan.program.units[unit].trainable) continue;
    const int owner = plan.mesh.peer(member, Axis::kPp, parts.owner(unit));
    for (int t = 0; t < plan.mesh.degree(Axis::kTp); ++t)
      for (int r : plan.mesh.group(plan.mesh.peer(owner, Axis::kTp, t), parts.axes(unit)))
        for (double sum : sent.all.subspan(
                 static_cast<std::size_t>(r) * sent.stride + sent.first + parts.position(unit),
                 parts.chunks(unit)))
          total += sum;
  }
  return total;
}

// A NaN is the larger one.
double larger(double a, double b) { return std::isnan(b) || b > a ? b : a; }

// Of the rank's island, and the largest of all islands.
void set_square_sums(GlobalSums& result, const plan::PlanSet& plan, int rank, const Parts& parts,
                     const Sent& sent) {
  const auto of_rank = [&](int r) {
    return parts.travel() ? square_sum(plan, parts, sent, r)
                          : sent.all[static_cast<std::size_t>(r) * sent.stride + kOwnSquareSum];
  };
  result.largest_square_sum = result.square_sum = of_rank(rank);
  for (int island = 0; island < island_count(plan); ++island)
    result.largest_square_sum =
        larger(result.largest_square_sum, of_rank(plan.mesh.peer(rank, Axis::kIsland, island)));
}

}  // namespace

GlobalSums exchange_sums(const plan::PlanSet& plan, int rank, Units& units, const Groups& groups,
                         const std::vector<MicroBatchSums>& own, const RankReport& report) {
  // Each rank sends flag, operations, square sum (0 where parts travel), busy time and losses, then the chunk sums of
  // its parts of units.
  const Parts parts(plan);
  const int stage = plan.mesh.coordinate(rank, Axis::kPp);
  std::vector<double> mine = {report.flag ? 1.0 : 0.0, report.flops, 0.0};
  mine.insert(mine.end(), report.busy.begin(), report.busy.end());
  const std::size_t width = 1 + 2 * own[0].counts.size();  // numbers of a micro-batch
  const std::size_t losses = width * own.size();
  for (const MicroBatchSums& sums : own) {
    const std::vector<double> numbers = numbers_of(sums);
    mine.insert(mine.end(), numbers.begin(), numbers.end());
  }
  std::vector<std::vector<double>> whole(plan.program.units.size());
  for (plan::UnitId unit : plan::units_of_stage(plan.program, stage)) {
    if (!plan.program.units[unit].trainable) continue;
    std::vector<double> sums = units.chunk_square_sums(unit);
    if (!parts.travel())
      whole[unit] = std::move(sums);
    else if (parts.owner(unit) == stage)
      mine.insert(mine.end(), sums.begin(), sums.end());
  }
  for (const std::vector<double>& sums : whole)  // empty where parts travel
    for (double sum : sums) mine[kOwnSquareSum] += sum;
  mine.resize(parts.length(losses));
  const int world = plan.mesh.world();
  const auto count = static_cast<std::int64_t>(mine.size());
  std::vector<double> all(mine.size() * static_cast<std::size_t>(world));
  groups.world()
      .all_gather(comm::Buffer{mine.data(), count, DType::kF64},
                  comm::Buffer{all.data(), count * world, DType::kF64})
      .wait();
  GlobalSums result;
  const auto of_rank = [&](int r) {
    return std::span<const double>(all).subspan(static_cast<std::size_t>(r) * mine.size(),
                                                mine.size());
  };
  const auto micro_batches =
      static_cast<std::size_t>(plan::global_micro_batches(plan.mesh, plan.recipe));
  std::vector<std::vector<double>> ordered(width, std::vector<double>(micro_batches));
  // cp ranks have losses of their own tokens, stages those of their own nodes, tp ranks the same one: that of
  // the first counts.
  for (int r : plan.mesh.group(plan.mesh.peer(rank, Axis::kTp, 0), mesh::kReplicas | Axis::kPp))
    for (int mb = 0; mb < plan.recipe.micro_batches; ++mb) {
      const auto id = static_cast<std::size_t>(plan::micro_batch_id(plan.mesh, plan.recipe, r, mb));
      for (std::size_t number = 0; number < width; ++number)
        ordered[number][id] += of_rank(r)[kHead + static_cast<std::size_t>(mb) * width + number];
    }
  for (int r = 0; r < world; ++r) {
    result.flag = result.flag || of_rank(r)[0] != 0;
    result.flops += of_rank(r)[1];
    std::copy_n(of_rank(r).begin() + kOwnSquareSum + 1, kBusyKinds,
                result.busy.emplace_back().begin());
  }
  std::vector<double> totals;
  for (std::vector<double>& terms : ordered) totals.push_back(tree_sum(std::move(terms)));
  result.batch = sums_of(totals);

  const Sent sent{.all = all, .stride = mine.size(), .first = kHead + losses};
  set_square_sums(result, plan, rank, parts, sent);
  return result;
}

double clip_scale(double norm, double clip) {
  return clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1;
}

}  // namespace trireme::exec
