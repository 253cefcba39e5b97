#include "trireme/launch/elastic/standstill.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "trireme/base/os/stack.h"
#include "trireme/launch/watch/state.h"

namespace trireme::elastic {
namespace {

std::string_view process_words(char state) {
  switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "waiting for a disk";
    case 'T': return "stopped";
    case 't': return "held by a debugger";
    default: return "ended";
  }
}

// How far a rank has come.
std::string rank_words(const Watched& rank) {
  if (rank.area->version == watch::kVersion)
    return "at " + watch::doing(watch::read_state(*rank.area));
  return rank.area->process != 0 ? "connecting to the other ranks" : "starting";
}

}  // namespace

std::optional<double> Standstill::look(std::uint64_t sign, double now) {
  constexpr double kSlept = 1, kFactor = 2;
  if (now - seen_ > kSlept) since_ += now - seen_;
  seen_ = now;
  if (sign != sign_) {
    if (reported_) patience_s_ = std::max(patience_s_, kFactor * (now - since_));
    sign_ = sign;
    since_ = now;
    reported_ = false;
  }
  if (reported_ || now - since_ < patience_s_) return std::nullopt;
  reported_ = true;
  return now - since_;
}

std::uint64_t sign_of(const HostView& host) {
  constexpr std::uint64_t kPrime = 1099511628211u;  // FNV
  std::uint64_t sign = host.generation;
  const auto add = [&](std::uint64_t value) { sign = (sign ^ value) * kPrime; };
  for (const Watched& rank : host.ranks) {
    add(static_cast<std::uint64_t>(rank.process));
    add(static_cast<std::uint64_t>(rank.area->process));
    add(rank.area->version);
    add(rank.area->moves.load());
  }
  return sign;
}

std::string summary(const HostView& host, double seconds) {
  std::map<std::string, int> states;
  for (const Watched& rank : host.ranks)
    ++states[fmt::format("{}, process {}", rank_words(rank),
                         process_words(os::process_state(rank.process)))];
  std::string text = fmt::format("nothing has moved on host {} for {:.0f} s in generation {}",
                                 host.name, seconds, host.generation);
  constexpr std::size_t kMost = 4;  // kinds of ranks; all are in the lines
  std::size_t kinds = 0;
  for (const auto& [state, count] : states)
    if (++kinds <= kMost)
      text += fmt::format("; {} {}: {}", count, count == 1 ? "rank" : "ranks", state);
  if (states.empty()) text += "; no rank is here";
  return text + "; " + host.leader;
}

std::vector<std::string> describe(const HostView& host) {
  std::vector<std::string> lines = {
      fmt::format("agent of host {}: generation {}, {}; the longest time for which it did nothing "
                  "itself is {:.1f} s",
                  host.name, host.generation, host.leader, host.slept_s)};
  for (const Watched& rank : host.ranks)
    lines.push_back(fmt::format("rank {} (process {}): {}, process {}", rank.rank, rank.process,
                                rank_words(rank), process_words(os::process_state(rank.process))));
  return lines;
}

}  // namespace trireme::elastic
