#include "trireme/launch/elastic/lookout.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

namespace trireme::elastic {
namespace {

constexpr double kRepeat_s = 0.5;  // seconds between tellings
constexpr double kStale = 2;       // after which a report no longer counts
constexpr std::size_t kRecords = 20;
constexpr int kMostReports = 20;  // of a generation; then each is a line

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

std::optional<std::string> Lookout::details(const Watched& watched, const watch::State& state,
                                            double now) {
  std::string stack;
  if (!watch::waits(state)) {
    const auto read = stacks_.read(watched.process, state.process, now);
    if (!read) return std::nullopt;
    stack = *read;
  }
  const auto now_ns =
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  return fmt::format("rank {} (process {}), its last operations:\n{}{}", watched.rank,
                     watched.process, joined(watch::last_records(*watched.area, kRecords, now_ns)),
                     stack);
}

std::optional<Silence> Lookout::look(std::uint64_t generation, const std::vector<Watched>& ranks,
                                     double now) {
  if (generation != std::exchange(generation_, generation)) {
    silences_ = watch::Silences(patience_, now);
    detailed_.clear();
    in_full_.clear();
  }
  silences_.look(now);
  Silence silence{.generation = generation};
  for (const Watched& one : ranks) {
    const bool begun = one.area->version == watch::kVersion;
    watch::State state = begun ? watch::read_state(*one.area) : watch::State{};
    state.process = process_state_(one.process);
    // Our own reader holds it, which says nothing about the rank: else a stopped one would count as new at every reading.
    if (const auto found = stacks_.found(one.process); found && state.process == 't')
      state.process = *found;
    const bool stopped = state.process == 'T';
    // A rank that has not come so far waits for others, which know the awaited ranks.
    if (!begun && !stopped) silences_.forget(one.rank);
    const auto heard = begun || stopped ? silences_.heard(one.rank, state.moves, state.phase,
                                                          state.step, now, stopped)
                                        : watch::Silences::Heard{};
    if (heard.seconds == 0) {
      stacks_.forget(one.process);
      detailed_.erase(one.rank);
      continue;
    }
    Silence::Rank rank{.seconds = heard.seconds, .in_step = heard.in_step};
    state.rank = one.rank;
    if (!detailed_.contains(one.rank)) {
      std::optional<std::string> details = this->details(one, state, now);
      if (!details) continue;
      rank.details = std::move(*details);
      detailed_.insert(one.rank);
    }
    rank.state = std::move(state);
    silence.ranks.push_back(std::move(rank));
  }
  if (silence.ranks.size() == reported_ && (reported_ == 0 || now - reported_at_ < kRepeat_s))
    return std::nullopt;
  reported_ = silence.ranks.size();
  reported_at_ = now;
  leave_out_what_is_known(silence, now);
  return silence;
}

// A state may be large, groups naming their ranks; one that got lost comes again soon.
void Lookout::leave_out_what_is_known(Silence& silence, double now) {
  auto known = std::exchange(in_full_, {});
  for (Silence::Rank& rank : silence.ranks) {
    const int number = rank.state.rank;
    const auto last = known.find(number);
    rank.same = rank.details.empty() && last != known.end() && last->second.first == rank.state &&
                now - last->second.second < kStale;
    in_full_[number] = rank.same ? last->second : std::pair(rank.state, now);
    if (rank.same) rank.state = {.rank = number};
  }
}

void Hangs::heard(const Silence& silence, double now) {
  if (silence.generation < generation_) return;
  if (silence.generation > std::exchange(generation_, silence.generation)) {
    ranks_.clear();
    of_host_.clear();
    reported_.clear();
    reports_ = 0;
  }
  const std::map<int, Entry> before = ranks_;
  for (const int rank : std::exchange(of_host_[silence.host], {})) ranks_.erase(rank);
  for (const Silence::Rank& rank : silence.ranks) {
    const int number = rank.state.rank;
    const auto old = before.find(number);
    if (rank.same && old == before.end()) continue;  // the earlier report got lost
    of_host_[silence.host].push_back(number);
    const watch::State& state = rank.same ? old->second.silent.state : rank.state;
    Entry entry{{state, rank.seconds, rank.in_step}, rank.details, now};
    if (entry.details.empty() && old != before.end()) entry.details = old->second.details;
    ranks_[number] = std::move(entry);
  }
}

std::optional<Hangs::Found> Hangs::look(std::uint64_t generation, int world, double now) {
  if (generation != generation_) return std::nullopt;
  std::erase_if(ranks_, [&](const auto& entry) { return now - entry.second.heard_at > kStale; });
  std::map<int, watch::Silent> silent;
  for (const auto& [rank, entry] : ranks_)
    if (rank < world) silent.emplace(rank, entry.silent);
  const std::optional<watch::Hang> hang = watch::judge(silent, world);
  if (!hang) {
    reported_.clear();
    return std::nullopt;
  }
  // Others may join the first: that is no other hang.
  Found found{.hang = *hang,
              .fresh = reported_.empty() || hang->ranks.front() != reported_.front()};
  if (!found.fresh) {
    found.reported_s = hang->seconds - reported_seconds_;
    return found;
  }
  reported_ = hang->ranks;
  reported_seconds_ = hang->seconds;
  if (++reports_ > kMostReports) return found;
  found.lines = watch::describe(silent, world);
  for (const auto& [rank, entry] : ranks_) found.lines.push_back(entry.details);
  return found;
}

}  // namespace trireme::elastic
