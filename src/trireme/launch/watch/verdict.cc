#include "trireme/launch/watch/verdict.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace trireme::watch {
namespace {

using All = std::map<int, Silent>;

struct Wait {
  int rank;                    // waited for
  const Operation* operation;  // in which
  bool missing;                // that one has not begun it
};

bool has_begun(const State& state, const Operation& operation) {
  for (const Reached& reached : state.reached)
    if (reached.track == operation.track && reached.members == operation.members)
      return reached.begun > operation.sequence;
  return false;
}

// Whether it is in the other end of a message.
bool answers(const State& state, int rank, const Operation& message) {
  for (const Operation& operation : state.operations)
    if (operation.track == message.track && operation.peer == rank &&
        operation.what != message.what)
      return true;
  return false;
}

bool stopped(const State& state) { return state.process == 'T'; }

// The ranks that a rank waits for; if some of them have not begun an operation, those alone.
std::vector<Wait> waits_of(const State& state, const All& silent) {
  std::vector<Wait> all;
  for (const Operation& operation : state.operations) {
    if (operation.peer >= 0) {
      const auto other = silent.find(operation.peer);
      all.push_back(
          {operation.peer, &operation,
           other == silent.end() || !answers(other->second.state, state.rank, operation)});
      continue;
    }
    for (const int member : operation.members) {
      if (member == state.rank) continue;
      const auto other = silent.find(member);
      all.push_back({member, &operation,
                     other == silent.end() || !has_begun(other->second.state, operation)});
    }
  }
  if (std::any_of(all.begin(), all.end(), [](const Wait& wait) { return wait.missing; }))
    std::erase_if(all, [](const Wait& wait) { return !wait.missing; });
  return all;
}

// Ranks that wait for each other to begin something, in the order in which they do; none where somebody waits for data
// alone. Every rank of `silent` waits.
std::vector<int> circle(const All& silent) {
  std::vector<int> path;
  for (int rank = silent.begin()->first;;) {
    const auto seen = std::find(path.begin(), path.end(), rank);
    if (seen != path.end()) return {seen, path.end()};
    path.push_back(rank);
    const std::vector<Wait> waits = waits_of(silent.at(rank).state, silent);
    if (waits.empty() || !waits.front().missing || !silent.contains(waits.front().rank)) return {};
    rank = waits.front().rank;
  }
}

std::string waits_text(const Silent& one, const All& silent) {
  std::string text;
  const std::vector<Wait> waits = waits_of(one.state, silent);
  for (const Operation& operation : one.state.operations) {
    std::vector<int> missing, inside;
    for (const Wait& wait : waits)
      if (wait.operation == &operation) (wait.missing ? missing : inside).push_back(wait.rank);
    if (missing.empty() && inside.empty()) continue;
    const std::vector<int>& named = missing.empty() ? inside : missing;
    text += fmt::format("{}waits in {} for rank{} {}{}", text.empty() ? "" : "; ",
                        describe(operation), named.size() == 1 ? "" : "s", fmt::join(named, ", "),
                        missing.empty()       ? ", in it as well"
                        : operation.peer >= 0 ? ""
                                              : ", not in it yet");
  }
  return text.empty() && !stopped(one.state) ? "waits for other ranks" : text;
}

std::string inside_text(const Operation& stuck) {
  return fmt::format("inside {}, waiting for no rank after {} chunk{} of data", describe(stuck),
                     stuck.chunks, stuck.chunks == 1 ? "" : "s");
}

std::string process_text(const State& state) {
  switch (state.process) {
    case 'T': return "its process is stopped";
    case 't': return "a debugger holds its process";
    case 'D': return "its process waits for a disk";
    case 'Z':
    case 'X': return "its process has ended";
    default: return "";
  }
}

std::string op_of(const State& state) {
  if (const Operation* stuck = stuck_in(state)) return describe(*stuck);
  if (state.waiting && !state.operations.empty()) return describe(state.operations.front());
  return doing(state);
}

std::string accuse(const Silent& one) {
  std::string text = fmt::format("rank {} has been at {} for {:.1f} s", one.state.rank,
                                 doing(one.state), one.seconds);
  if (const Operation* stuck = stuck_in(one.state)) text += ", " + inside_text(*stuck);
  if (const std::string process = process_text(one.state); !process.empty()) text += ": " + process;
  return text;
}

}  // namespace

std::optional<Hang> judge(const All& silent, int world) {
  Hang hang;
  for (const auto& [rank, one] : silent)
    if (!waits(one.state) && one.state.process != 't') hang.ranks.push_back(rank);
  if (hang.ranks.empty()) {
    if (static_cast<int>(silent.size()) < world || world < 2) return std::nullopt;
    for (const auto& [rank, one] : silent)
      if (!waits(one.state)) return std::nullopt;  // held by a debugger
    hang.ranks = circle(silent);
    if (hang.ranks.empty()) return std::nullopt;
    hang.deadlock = hang.final = true;
    for (const int rank : hang.ranks)
      hang.cause += fmt::format("{}rank {} {}", hang.cause.empty() ? "deadlock: " : "; ", rank,
                                waits_text(silent.at(rank), silent));
  } else {
    std::stable_sort(hang.ranks.begin(), hang.ranks.end(), [&](int a, int b) {
      return stopped(silent.at(a).state) > stopped(silent.at(b).state);
    });
    hang.final = stopped(silent.at(hang.ranks.front()).state);
    for (const int rank : hang.ranks)
      hang.cause += (hang.cause.empty() ? "" : "; ") + accuse(silent.at(rank));
  }
  const Silent& first = silent.at(hang.ranks.front());
  hang.seconds = first.seconds;
  hang.step = first.state.step;
  hang.in_step = first.in_step;
  hang.op = op_of(first.state);
  return hang;
}

std::vector<std::string> describe(const All& silent, int world) {
  std::vector<std::string> lines;
  for (int rank = 0; rank < world; ++rank) {
    const auto found = silent.find(rank);
    if (found == silent.end()) {
      lines.push_back(fmt::format("rank {}: continues", rank));
      continue;
    }
    const State& state = found->second.state;
    std::string line =
        fmt::format("rank {}: silent for {:.1f} s, {}", rank, found->second.seconds, doing(state));
    if (const std::string process = process_text(state); !process.empty()) line += "; " + process;
    if (const Operation* stuck = stuck_in(state); stuck != nullptr && !stopped(state))
      line += "; " + inside_text(*stuck);
    else if (state.waiting || stopped(state))
      if (const std::string waits = waits_text(found->second, silent); !waits.empty())
        line += "; " + waits;
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace trireme::watch
