#include "trireme/train/watch/stragglers.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme::train {
namespace {

constexpr std::size_t kWindow = 18, kMost = 16;  // steps looked at, and late ones among them
constexpr std::int64_t kWarmUp =
    2;  // steps that count for nothing: memory is touched for the first time
constexpr double kFactor = 1.3, kLeast = 5e-3;

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

std::string describe(const Straggler& s) {
  return fmt::format("rank {} takes {:.1f} ms a step for {}, {} {:.1f} ms", s.rank, 1e3 * s.seconds,
                     exec::kBusyNames[s.kind], s.alone ? "before" : "others with its work",
                     1e3 * s.others);
}

// Time of this rank's work on other ranks; its own first steps if there are none, 0 while those are not known.
double Stragglers::usual(std::size_t rank, std::size_t kind,
                         const std::vector<exec::Busy>& busy) const {
  constexpr std::size_t kEnough = 16;  // as good as all
  std::vector<double> others;
  for (std::size_t r = 1; r < work_.size() && others.size() < kEnough; ++r) {
    const std::size_t other = (rank + r) % work_.size();
    if (work_[other] == work_[rank]) others.push_back(busy[other][kind]);
  }
  if (!others.empty()) return middle(std::move(others));
  const std::vector<double>& first = ranks_[rank][kind].first;
  return first.size() < kWindow ? 0 : middle(first);
}

std::vector<Straggler> Stragglers::add(const std::vector<exec::Busy>& busy) {
  if (busy.size() != work_.size() || ++steps_ <= kWarmUp) return {};
  last_.push_back(busy);
  if (last_.size() > kWindow) last_.pop_front();
  std::vector<Straggler> found;
  for (std::size_t rank = 0; rank < work_.size(); ++rank)
    for (std::size_t kind = 0; kind < exec::kBusyKinds; ++kind) {
      Series& series = ranks_[rank][kind];
      const double seconds = busy[rank][kind], usual = this->usual(rank, kind, busy);
      series.late.push_back(usual > 0 && seconds > kFactor * usual && seconds - usual > kLeast);
      if (series.late.size() > kWindow) series.late.pop_front();
      if (series.first.size() < kWindow) series.first.push_back(seconds);
      const auto late = static_cast<std::size_t>(std::ranges::count(series.late, true));
      if (late == 0) series.reported = false;
      if (late < kMost || series.reported) continue;
      series.reported = true;
      std::vector<double> mine, others;
      for (const auto& step : last_) {
        mine.push_back(step[rank][kind]);
        others.push_back(this->usual(rank, kind, step));
      }
      found.push_back({.rank = static_cast<int>(rank),
                       .kind = kind,
                       .seconds = middle(std::move(mine)),
                       .others = middle(std::move(others)),
                       .alone = std::ranges::count(work_, work_[rank]) == 1});
    }
  return found;
}

}  // namespace trireme::train
