#include "trireme/launch/watch/state.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace trireme::watch {
namespace {

template <std::size_t N>
std::string text_of(const char (&from)[N]) {
  return std::string(from, ::strnlen(from, N));
}

// The writer may be in the midst of anything, or have written over it.
bool inside(std::uint64_t at, std::uint64_t bytes) { return at <= kWords && bytes <= kWords - at; }

std::vector<int> members_of(const Area& area, const Track& track) {
  const std::uint64_t count = track.members;
  if (!inside(track.members_at, count * sizeof(std::int32_t))) return {};
  std::vector<std::int32_t> ranks(count);
  std::memcpy(ranks.data(), area.words + track.members_at, count * sizeof(std::int32_t));
  return {ranks.begin(), ranks.end()};
}

std::string line_text(const Area& area, int number, int line) {
  if (number < 0 || number >= static_cast<int>(kLists)) return {};
  const List& list = area.described[number];
  const std::uint32_t count = list.lines.load(std::memory_order_acquire);
  if (line < 0 || static_cast<std::uint32_t>(line) >= count ||
      !inside(list.texts_at, count * sizeof(Text)))
    return {};
  Text text;
  std::memcpy(&text, area.words + list.texts_at + sizeof text * static_cast<std::size_t>(line),
              sizeof text);
  return inside(text.at, text.length) ? std::string(area.words + text.at, text.length)
                                      : std::string();
}

std::size_t tracks_of(const Area& area) {
  return std::min<std::size_t>(area.tracks.load(std::memory_order_acquire), kTracks);
}

std::string with_line(const Area& area, const Record& record) {
  const std::string text = line_text(area, record.peer, record.line);
  return fmt::format("line {} {}", record.line, text.empty() ? text_of(record.what) : text);
}

}  // namespace

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::kStart: return "start";
    case Phase::kTraining: return "training";
    case Phase::kEvaluation: return "evaluation";
    case Phase::kCheckpoint: return "checkpoint";
    case Phase::kCallbacks: return "callbacks";
    case Phase::kEnd: return "end";
  }
  return "unknown";
}

bool within_steps(Phase phase) {
  return phase == Phase::kTraining || phase == Phase::kEvaluation || phase == Phase::kCallbacks;
}

TRIREME_TORN State read_state(const Area& area) {
  State state;
  state.rank = area.rank;
  state.phase = static_cast<Phase>(area.phase.load(std::memory_order_acquire));
  state.step = area.step.load(std::memory_order_acquire);
  state.moves = area.moves.load(std::memory_order_acquire);
  state.line = area.line.load();
  state.micro_batch = area.micro_batch.load();
  state.line_text = line_text(area, area.list.load(), state.line);
  state.waiting = area.waiting.load() > 0;
  for (std::size_t i = 0; i < tracks_of(area); ++i) {
    const Track& track = area.track[i];
    std::vector<int> members = members_of(area, track);
    if (members.empty()) continue;  // being made
    if (track.running.load(std::memory_order_acquire) != 0)
      state.operations.push_back({.track = text_of(track.name),
                                  .members = members,
                                  .what = text_of(track.what),
                                  .sequence = track.sequence,
                                  .bytes = track.bytes,
                                  .peer = track.peer,
                                  .chunks = track.chunks.load(),
                                  .awaited = track.awaited.load()});
    state.reached.push_back(
        {.track = text_of(track.name), .members = std::move(members), .begun = track.begun.load()});
  }
  return state;
}

bool waits(const State& state) {
  return state.waiting && state.process != 'T' && stuck_in(state) == nullptr;
}

const Operation* stuck_in(const State& state) {
  const auto found = std::ranges::find(state.operations, kNoRank, &Operation::awaited);
  return found == state.operations.end() ? nullptr : &*found;
}

std::string doing(const State& state) {
  if (state.line >= 0) {
    const std::string where =
        fmt::format("line {} `{}` of step {}", state.line, state.line_text, state.step);
    return state.micro_batch < 0 ? where
                                 : fmt::format("{}, micro-batch {}", where, state.micro_batch);
  }
  if (state.phase == Phase::kTraining) return fmt::format("training, step {}", state.step);
  return fmt::format("{} after step {}", name(state.phase), state.step);
}

std::string describe(const Operation& operation) {
  std::string text =
      fmt::format("{} #{} of '{}'", operation.what, operation.sequence, operation.track);
  if (operation.peer >= 0)
    text += fmt::format(" {} rank {}", operation.what == "send" ? "to" : "from", operation.peer);
  return text + fmt::format(" ({} bytes)", operation.bytes);
}

TRIREME_TORN std::vector<std::string> last_records(const Area& area, std::size_t count,
                                                   std::int64_t now_ns) {
  const std::uint64_t newest = area.recorded.load(std::memory_order_acquire);
  const std::uint64_t kept = std::min<std::uint64_t>({newest, count, kRecords});
  std::vector<std::string> lines;
  for (std::uint64_t i = 0; i < kept; ++i) {
    const std::uint64_t number = newest - kept + 1 + i;
    const Record& record = area.record[number % kRecords];
    if (record.number.load(std::memory_order_acquire) != number) continue;
    const double ago = static_cast<double>(now_ns - record.begin_ns) * 1e-9;
    const std::string took =
        record.end_ns == 0
            ? "under way"
            : fmt::format("{:.3f} ms", static_cast<double>(record.end_ns - record.begin_ns) * 1e-6);
    std::string what;
    if (record.track < 0) {
      what = with_line(area, record);
    } else if (static_cast<std::size_t>(record.track) < tracks_of(area)) {
      what = describe({.track = text_of(area.track[record.track].name),
                       .members = {},
                       .what = text_of(record.what),
                       .sequence = record.sequence,
                       .bytes = record.bytes,
                       .peer = record.peer});
      if (record.line >= 0) what += fmt::format(", from line {}", record.line);
    }
    lines.push_back(fmt::format("{:9.3f} s ago  {:>12}  {}", ago, took, what));
  }
  return lines;
}

}  // namespace trireme::watch
