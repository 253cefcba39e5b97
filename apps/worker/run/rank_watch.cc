#include "rank_watch.h"

#include <chrono>

#include "trireme/base/os/clock.h"
#include "trireme/launch/watch/state.h"

namespace trireme::app {
namespace {

constexpr std::chrono::milliseconds kEvery{250};
constexpr std::size_t kRecords = 20;

double now() { return os::MonotonicClock().seconds(); }

}  // namespace

RankWatch::RankWatch(const watch::Patience& patience, int ranks, OnHang on_hang)
    : patience_(patience), ranks_(ranks), on_hang_(std::move(on_hang)), silences_(patience, now()) {
  if (patience_.steps > 0) thread_ = std::thread([this] { run(); });
}

RankWatch::~RankWatch() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  over_.notify_all();
  if (thread_.joinable()) thread_.join();
}

RankWatch::Member::Member(RankWatch& watch, const comm::World& world)
    : watch_(watch), rank_(world.rank()) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.areas_[rank_] = &world.flight().area();
}

RankWatch::Member::~Member() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.areas_.erase(rank_);
}

void RankWatch::run() {
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, kEvery, [this] { return done_; })) look();
}

void RankWatch::look() {
  const double at = now();
  silences_.look(at);
  std::map<int, watch::Silent> silent;
  for (const auto& [rank, area] : areas_) {
    watch::State state = watch::read_state(*area);
    const auto heard = silences_.heard(rank, state.moves, state.phase, state.step, at);
    if (heard.seconds > 0) silent[rank] = {std::move(state), heard.seconds, heard.in_step};
  }
  const auto hang = watch::judge(silent, ranks_);
  if (!hang) reported_.clear();
  if (!hang || hang->ranks == reported_) return;
  reported_ = hang->ranks;
  std::vector<std::string> lines = watch::describe(silent, ranks_);
  const auto now_ns = static_cast<std::int64_t>(at * 1e9);
  for (const auto& [rank, one] : silent) {
    lines.push_back("rank " + std::to_string(rank) + ", its last operations:");
    for (std::string& line : watch::last_records(*areas_.at(rank), kRecords, now_ns))
      lines.push_back(std::move(line));
  }
  on_hang_(*hang, lines);
}

}  // namespace trireme::app
