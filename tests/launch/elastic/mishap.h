// Mishap: what may be done to a simulated run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trireme::elastic {

// What is done to a life.
enum class Mishap {
  kLeaderKilled,
  kLeaderKilledBeforeNote,
  kLeaderKilledAfterNote,
  kMemberKilled,
  kAgentPaused,
  kAllPaused,
  kCutUp,
  kCutDown,
  kCut,
  kClockLeap,
  kRankNotStarted,
  kRankKilled,
  kRankFailed,
  kRankHung,
  kRankDeaf,
  kDiskFull,
  kNoteFailed,
  kMessageLost,  // and those below: single messages
  kMessageLate,
  kMessageTwice,
  kCount
};
inline const char* name(Mishap kind) {
  switch (kind) {
    case Mishap::kLeaderKilled: return "leader killed";
    case Mishap::kLeaderKilledBeforeNote: return "leader killed before it noted a generation";
    case Mishap::kLeaderKilledAfterNote: return "leader killed before it told of one it noted";
    case Mishap::kMemberKilled: return "another agent killed";
    case Mishap::kAgentPaused: return "agent paused, its ranks go on";
    case Mishap::kAllPaused: return "all agents paused";
    case Mishap::kCutUp: return "network cut, towards the leader";
    case Mishap::kCutDown: return "network cut, from the leader";
    case Mishap::kCut: return "network cut, both ways";
    case Mishap::kClockLeap: return "monotonic clock leaps";
    case Mishap::kRankNotStarted: return "rank that cannot be started";
    case Mishap::kRankKilled: return "rank killed";
    case Mishap::kRankFailed: return "rank failed";
    case Mishap::kRankHung: return "rank hung, then accused";
    case Mishap::kRankDeaf: return "rank deaf to SIGTERM";
    case Mishap::kDiskFull: return "checkpoint not written";
    case Mishap::kNoteFailed: return "generation not noted: the end of the run";
    case Mishap::kMessageLost: return "message lost";
    case Mishap::kMessageLate: return "message late by up to 2 s";
    case Mishap::kMessageTwice: return "message repeated";
    case Mishap::kCount: break;
  }
  return "";
}
using MishapCounts = std::array<std::uint64_t, static_cast<std::size_t>(Mishap::kCount)>;

}  // namespace trireme::elastic
