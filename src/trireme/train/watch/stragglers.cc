#include "trireme/train/watch/stragglers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace trireme::train {
namespace {

constexpr std::size_t kWindow = 18, kMost = 16;  // steps looked at, and late ones among them
constexpr std::size_t kSome = 6;                 // late ones where the mean of the window decides
constexpr std::int64_t kWarmUp =
    2;  // steps that count for nothing: memory is touched for the first time
constexpr double kLate = 1.3, kLateInTheMean = 1.25, kLeast = 5e-3;
constexpr double kCap = 2;  // a single halt is not taken for a slow rank

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double mean(std::vector<double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string_view name(std::size_t kind) {
  return kind < exec::kBusyKinds ? exec::kBusyNames[kind] : "all work";
}

Stragglers::Times with_sum(const exec::Busy& busy) {
  Stragglers::Times times{};
  std::ranges::copy(busy, times.begin());
  times.back() = std::accumulate(busy.begin(), busy.end(), 0.0);
  return times;
}

}  // namespace

std::string describe(const Straggler& s) {
  return fmt::format("rank {} takes {:.1f} ms a step for {}, {} {:.1f} ms", s.rank, 1e3 * s.seconds,
                     s.kind, s.alone ? "before" : "others with its work", 1e3 * s.others);
}

// Time of this rank's work on other ranks; its own first steps if there are none, 0 while those are not known.
double Stragglers::usual(std::size_t rank, std::size_t kind,
                         const std::vector<Times>& times) const {
  constexpr std::size_t kEnough = 16;  // as good as all
  std::vector<double> others;
  for (std::size_t r = 1; r < work_.size() && others.size() < kEnough; ++r) {
    const std::size_t other = (rank + r) % work_.size();
    if (work_[other] == work_[rank]) others.push_back(times[other][kind]);
  }
  if (!others.empty()) return middle(std::move(others));
  const std::vector<double>& first = ranks_[rank].series[kind].first;
  return first.size() < kWindow ? 0 : middle(first);
}

bool Stragglers::is_slow(const Series& series, std::size_t kind) {
  const std::size_t late = series.late_steps();
  if (kind < exec::kBusyKinds) return late >= kMost;
  return late >= kSome && series.mean() >= kLateInTheMean && series.ratios.size() == kWindow;
}

std::vector<Straggler> Stragglers::add(const std::vector<exec::Busy>& busy) {
  if (busy.size() != work_.size() || ++steps_ <= kWarmUp) return {};
  std::vector<Times>& now = last_.emplace_back();
  std::ranges::transform(busy, std::back_inserter(now), with_sum);
  if (last_.size() > kWindow) last_.pop_front();
  std::vector<Straggler> found;
  for (std::size_t rank = 0; rank < work_.size(); ++rank) {
    std::optional<std::size_t> slow;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      Series& series = ranks_[rank].series[kind];
      series.add(last_.back()[rank][kind], usual(rank, kind, last_.back()));
      if (!slow && is_slow(series, kind)) slow = kind;
    }
    std::optional<std::size_t>& reported = ranks_[rank].reported;
    if (reported && ranks_[rank].series[*reported].late_steps() == 0) reported.reset();
    if (!slow || reported) continue;
    reported = slow < exec::kBusyKinds ? *slow : cause(rank);
    found.push_back(straggler(rank, *reported));
  }
  return found;
}

// The kind with two thirds of what a rank takes longer than the others; else the sum of all.
std::size_t Stragglers::cause(std::size_t rank) const {
  Times more{};
  for (const std::vector<Times>& step : last_)
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      more[kind] += step[rank][kind] - usual(rank, kind, step);
  const auto most = std::max_element(more.begin(), std::prev(more.end()));
  return 3 * *most >= 2 * more.back() ? static_cast<std::size_t>(most - more.begin())
                                      : exec::kBusyKinds;
}

Straggler Stragglers::straggler(std::size_t rank, std::size_t kind) const {
  // Where only some steps are late, the mean is reported.
  const auto typical = ranks_[rank].series[kind].late_steps() >= kMost ? middle : mean;
  std::vector<double> mine, others;
  for (const std::vector<Times>& step : last_) {
    mine.push_back(step[rank][kind]);
    others.push_back(usual(rank, kind, step));
  }
  return {.rank = static_cast<int>(rank),
          .kind = name(kind),
          .seconds = typical(std::move(mine)),
          .others = typical(std::move(others)),
          .alone = std::ranges::count(work_, work_[rank]) == 1};
}

void Stragglers::Series::add(double seconds, double usual) {
  const bool counts = usual > 0 && std::abs(seconds - usual) > kLeast;
  ratios.push_back(counts ? std::min(seconds / usual, kCap) : 1);
  if (ratios.size() > kWindow) ratios.pop_front();
  if (first.size() < kWindow) first.push_back(seconds);
}

std::size_t Stragglers::Series::late_steps() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ratios, [](double ratio) { return ratio > kLate; }));
}

double Stragglers::Series::mean() const { return train::mean({ratios.begin(), ratios.end()}); }

}  // namespace trireme::train
