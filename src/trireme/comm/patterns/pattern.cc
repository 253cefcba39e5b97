#include "trireme/comm/patterns/pattern.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/comm/copy_bytes.h"
#include "trireme/comm/patterns/served_pattern.h"
#include "trireme/comm/patterns/stages.h"
#include "trireme/comm/patterns/tree_pattern.h"

namespace trireme::comm {
namespace {

// Pairs at distances 1, 2, 4, ...: what a pair has added is the sum of an aligned block of ranks. Slices lie in the
// order of algorithm::reversed, in which every round divides a range.
class HalvingPattern : public Pattern {
 public:
  HalvingPattern(Transport& transport, const std::vector<int>& ranks, int rank)
      : Pattern(transport, ranks, rank) {
    for (int distance = 1; distance < static_cast<int>(ranks.size()); distance *= 2) {
      const int low = rank & ~distance, high = rank | distance;
      pairs_.emplace_back(transport, std::vector<int>{ranks[low], ranks[high]},
                          rank == low ? 0 : 1);
    }
  }

  void begin(const Stamp& stamp) override {
    Pattern::begin(stamp);
    for (Exchange& pair : pairs_) pair.begin(stamp);
  }

  void add(const std::byte* data, const Slices& slices, const Reduction& reduction,
           std::byte* out) override {
    const Stages stages(reduction);
    in_steps(slices, width(reduction.from), [&](std::size_t begin, std::size_t end) {
      const Slices parts = cut(slices, begin, end);
      pack(data, parts);
      std::vector<std::size_t> counts;
      for (std::size_t place = 0; place < size(); ++place)
        counts.push_back(parts[rank_at(place)].bytes / width(reduction.from));
      const std::size_t done = std::min(begin, slices[own()].bytes) / width(reduction.from);
      std::byte* const to = out + done * width(reduction.to);
      std::size_t low = 0, high = size();
      for (std::size_t round = 0; round < pairs_.size(); ++round) {
        const bool ends = round + 1 == pairs_.size();
        const Reduction& stage = stages.of(round == 0, ends);
        const std::size_t middle = (low + high) / 2;
        const auto bytes = [&](std::size_t from, std::size_t until) {
          std::size_t count = 0;
          for (std::size_t place = from; place < until; ++place) count += counts[place];
          return count * width(stage.from);
        };
        const Slices halves = {{0, bytes(low, middle)}, {bytes(low, middle), bytes(middle, high)}};
        (pairs_[round].own() == 0 ? high : low) = middle;
        const std::size_t kept = bytes(low, high) / width(stage.from) * width(stage.to);
        if (!ends) next_.resize(kept);
        pairs_[round].add(held_.data(), halves, stage, ends ? to : next_.data());
        held_.swap(next_);
      }
    });
  }

  void gather(std::byte* data, const Slices& slices) override {
    in_steps(slices, 1, [&](std::size_t begin, std::size_t end) {
      const Slices parts = cut(slices, begin, end);
      const Slices places = pack(data, parts);
      const auto range = [&](std::size_t low, std::size_t high) {
        const Slice& last = places[high - 1];
        return Slice{places[low].begin, last.begin + last.bytes - places[low].begin};
      };
      std::size_t low = static_cast<std::size_t>(
          algorithm::reversed(static_cast<int>(own()), static_cast<int>(size())));
      for (std::size_t round = pairs_.size(), held = 1; round-- > 0; held *= 2) {
        const bool upper = pairs_[round].own() == 1;
        const Slice mine = range(low, low + held);
        if (upper) low -= held;
        pairs_[round].swap(held_.data(), {mine, mine}, held_.data(),
                           {range(low, low + held), range(low + held, low + 2 * held)});
      }
      for (std::size_t place = 0; place < size(); ++place)
        if (rank_at(place) != own())
          copy_bytes(data + parts[rank_at(place)].begin, held_.data() + places[place].begin,
                     places[place].bytes);
    });
  }

  void add_to_all(std::byte* data, const Slices& slices, const Reduction& reduction) override {
    add_and_gather(data, slices, reduction);
  }

  // Every pair sends all that it has.
  void add_whole(const std::byte* data, std::size_t bytes, const Reduction& reduction,
                 std::byte* out) override {
    const Stages stages(reduction);
    const std::size_t count = bytes / width(reduction.from);
    held_.assign(data, data + bytes);
    for (std::size_t round = 0; round < pairs_.size(); ++round) {
      const bool ends = round + 1 == pairs_.size();
      const Reduction& stage = stages.of(round == 0, ends);
      const Slice all{0, count * width(stage.from)};
      if (!ends) next_.resize(count * width(stage.to));
      pairs_[round].add(held_.data(), {all, all}, stage, ends ? out : next_.data());
      held_.swap(next_);
    }
  }
  bool gathers_directly() const override { return false; }

 private:
  std::size_t rank_at(std::size_t place) const {
    return static_cast<std::size_t>(
        algorithm::reversed(static_cast<int>(place), static_cast<int>(size())));
  }
  // Copies the ranks' parts into held_ by place; returns where each lies.
  Slices pack(const std::byte* data, const Slices& parts) {
    Slices places;
    std::size_t end = 0;
    for (std::size_t place = 0; place < size(); ++place) {
      places.push_back({end, parts[rank_at(place)].bytes});
      end += places.back().bytes;
    }
    held_.resize(end);
    for (std::size_t place = 0; place < size(); ++place)
      copy_bytes(held_.data() + places[place].begin, data + parts[rank_at(place)].begin,
                 places[place].bytes);
    return places;
  }

  std::vector<Exchange> pairs_;  // by round
  std::vector<std::byte> held_, next_;
};

// Every rank gets slices from the one before it in the order, and passes them on to the next.
class RingGatherPattern : public Pattern {
 public:
  RingGatherPattern(Transport& transport, const std::vector<int>& ranks, int rank,
                    std::vector<int> order)
      : Pattern(transport, ranks, rank), order_(std::move(order)) {
    if (order_.empty()) {
      order_.resize(ranks.size());
      std::iota(order_.begin(), order_.end(), 0);
    }
    place_ = static_cast<std::size_t>(std::ranges::find(order_, rank) - order_.begin());
  }

  void gather(std::byte* data, const Slices& slices) override {
    for (std::size_t round = 1; round < size(); ++round) {
      const Slice &on = slices[behind(round - 1)], &next = slices[behind(round)];
      direct().pass(data + on.begin, on.bytes, ahead(), data + next.begin, next.bytes, before());
    }
  }
  void add_to_all(std::byte* data, const Slices& slices, const Reduction& reduction) override {
    add_and_gather(data, slices, reduction);
  }
  bool gathers_directly() const override { return false; }

 protected:
  // The rank so many places before this one.
  std::size_t behind(std::size_t places) const {
    return static_cast<std::size_t>(order_[(place_ + size() - places % size()) % size()]);
  }
  int before() const { return static_cast<int>(behind(1)); }
  int ahead() const { return order_[(place_ + 1) % size()]; }

 private:
  std::vector<int> order_;
  std::size_t place_ = 0;  // of this rank in it
};

// Each rank adds its values to the sum of those before it, from the rank after the slice's own on. With `integers_only`
// other sums go directly.
class RingPattern : public RingGatherPattern {
 public:
  RingPattern(Transport& transport, const std::vector<int>& ranks, int rank, std::vector<int> order,
              bool integers_only)
      : RingGatherPattern(transport, ranks, rank, std::move(order)),
        integers_only_(integers_only) {}

  void add(const std::byte* data, const Slices& slices, const Reduction& reduction,
           std::byte* out) override {
    if (integers_only_ && !is_integral(reduction.from))
      return Pattern::add(data, slices, reduction, out);
    const Stages stages(reduction);
    const std::size_t given = width(reduction.from);
    in_steps(slices, given, [&](std::size_t begin, std::size_t end) {
      const Slices parts = cut(slices, begin, end);
      const std::size_t done = std::min(begin, slices[own()].bytes) / given;
      const std::byte* sum = data + parts[before()].begin;
      DType type = reduction.from;
      for (std::size_t round = 1; round < size(); ++round) {
        const bool ends = round + 1 == size();
        const Slice &on = parts[behind(round)], &mine = parts[behind(round + 1)];
        const std::size_t count = mine.bytes / given;
        received_.resize(count * width(type));
        direct().pass(sum, on.bytes / given * width(type), ahead(), received_.data(),
                      received_.size(), before());
        const std::byte* own_part = data + mine.begin;
        if (type != reduction.from) {
          widened_.resize(count * width(type));
          add_up({own_part}, count, stages.first, widened_.data());
          own_part = widened_.data();
        }
        std::vector<const void*> both = {received_.data(), own_part};
        if (own() == 0) std::ranges::reverse(both);  // by rank, as all sums of two
        next_.resize(count * width(stages.sum));
        std::byte* const to = ends ? out + done * width(reduction.to) : next_.data();
        add_up(both, count, stages.of(round == 1, ends), to);
        held_.swap(next_);
        sum = held_.data();
        type = stages.sum;
      }
    });
  }

 private:
  static void add_up(const std::vector<const void*>& leaves, std::size_t count,
                     const Reduction& reduction, std::byte* out) {
    void* const outs[] = {out};
    tree_reduce(outs, leaves, static_cast<std::int64_t>(count), reduction);
  }

  bool integers_only_;
  std::vector<std::byte> received_, widened_, held_, next_;
};

}  // namespace

void Pattern::add(const std::byte* data, const Slices& slices, const Reduction& reduction,
                  std::byte* out) {
  all_.add(data, slices, reduction, out);
}

void Pattern::gather(std::byte* data, const Slices& slices) {
  all_.swap(data, Slices(size(), slices[own()]), data, slices);
}

void Pattern::add_to_all(std::byte* data, const Slices& slices, const Reduction& reduction) {
  all_.add_there_and_back(data, slices, reduction);
}

void Pattern::add_whole(const std::byte* data, std::size_t bytes, const Reduction& reduction,
                        std::byte* out) {
  all_.add(data, Slices(size(), Slice{0, bytes}), reduction, out);
}

std::unique_ptr<Pattern> make_pattern(const algorithm::Choice& choice, Transport& transport,
                                      const std::vector<int>& ranks, int rank) {
  if (!choice.servers.empty())
    return std::make_unique<ServedPattern>(transport, ranks, rank, choice.servers);
  switch (choice.kind) {
    case algorithm::Kind::kHalving: return std::make_unique<HalvingPattern>(transport, ranks, rank);
    case algorithm::Kind::kTree: return std::make_unique<TreePattern>(transport, ranks, rank);
    case algorithm::Kind::kRing:
      return std::make_unique<RingPattern>(transport, ranks, rank, choice.order,
                                           choice.canonical && choice.integers && ranks.size() > 2);
    case algorithm::Kind::kRingGather:
      return std::make_unique<RingGatherPattern>(transport, ranks, rank, choice.order);
    case algorithm::Kind::kAuto:
    case algorithm::Kind::kDirect:
    case algorithm::Kind::kHierarchical: break;
  }
  return std::make_unique<Pattern>(transport, ranks, rank);
}

}  // namespace trireme::comm
