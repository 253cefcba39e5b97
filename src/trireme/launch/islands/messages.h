// Messages between the leader of islands and the ranks of an island.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "trireme/launch/islands/pieces.h"
#include "trireme/launch/islands/recipe.h"
#include "trireme/launch/islands/tape.h"

namespace trireme::islands {

// Of a rank, when it has connected.
struct Hello {
  int island = 0;
  int islands = 1;    // at most, which share the samples
  std::string run{};  // drawn at every start of the island
  int rank = 0;
  int ranks = 1;
  std::int64_t step = 0;           // after which it starts
  std::int64_t position = 0;       // entries that its state holds
  std::uint64_t line = 0;          // digest of the last of them; 0: not known
  std::int64_t copied = 0;         // entries of its copy of the tape
  std::uint64_t copied_line = 0;   // digest of the last of them
  std::int64_t term = 0;           // and its term
  std::vector<Applied> applied{};  // of which the run before wrote nothing down
  std::string resumes{};           // run of the checkpoint that it continues
  std::uint64_t state = 0;         // digest_of() that checkpoint
  Recipe recipe{};
  std::vector<Part> parts{};
  std::string machine{}, job{};
  bool operator==(const Hello&) const = default;
};

// A rank's codes of a fragment, which follow in chunks once the leader wants them.
struct Offer {
  int fragment = 0;
  std::int64_t round = 0;
  std::int64_t step = 0;
  double weight = 0;
  double step_s = 0;  // seconds of a step
  std::int64_t bytes = 0;
  std::uint64_t digest = 0;
  std::vector<Applied> applied{};
  bool operator==(const Offer&) const = default;
};

// The bytes that are named `key` from chunk `from` on: an Offer's offer_key(), or the mean of the entry of that index.
struct Want {
  std::uint64_t key = 0;
  std::int64_t from = 0;
  bool operator==(const Want&) const = default;
};
// Of a rank: its copy of the tape has so many entries on its disk. Of the leader: so many are committed.
struct Have {
  std::int64_t entries = 0;
  bool operator==(const Have&) const = default;
};
// An entry of the tape, as its line. A rank's part of a mean has so many bytes, with this digest.
struct News {
  std::int64_t index = 0;
  std::string line{};
  std::int64_t bytes = 0;
  std::uint64_t digest = 0;
  bool operator==(const News&) const = default;
};
struct Welcome {
  std::int64_t entries = 0;  // of the tape, which the island applies before its first step
  std::int64_t term = 0;     // of the leader
  std::int64_t copied = 0;   // entries of the island's copy that the leader has as well
  bool operator==(const Welcome&) const = default;
};
// Of the leader: it does not take the island. Without a reason: the island has left.
struct Refusal {
  std::string why{};
  bool operator==(const Refusal&) const = default;
};
// Of the first rank: the island ends here.
struct Leave {
  std::int64_t step = 0;
  std::vector<Applied> applied{};
  bool operator==(const Leave&) const = default;
};

// Of a process that is about to start: it asks for the state of an island that trains. The leader answers with a State.
struct Seek {
  int island = 0;
  std::int64_t step = 0, position = 0;  // of its own checkpoint
  bool operator==(const Seek&) const = default;
};
struct StateFile {
  std::string name;
  std::int64_t bytes = 0;
  bool operator==(const StateFile&) const = default;
};
// Of a first rank: the checkpoint that it can hand over. Of the leader: the one to take; without files, none.
struct State {
  std::uint64_t key = 0;  // of its chunks
  int island = 0;
  std::int64_t step = 0, position = 0;
  std::uint64_t line = 0;        // digest of the last entry that it holds
  std::string job{}, dataset{};  // YAML, and the digest of the data
  std::vector<StateFile> files{};
  std::int64_t bytes() const;
  bool operator==(const State&) const = default;
};
// Of a process that takes a state, and of the leader to the island that has it: some of its chunks.
struct Fetch {
  std::uint64_t key = 0;
  std::int64_t from = 0, count = 0;
  bool operator==(const Fetch&) const = default;
};

inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 38;   // of one transfer
inline constexpr std::int64_t kMostState = std::int64_t{1} << 46;   // of a state
inline constexpr std::int64_t kMostFetched = 64;                    // chunks at a time
inline constexpr std::uint64_t kStateKey = std::uint64_t{1} << 63;  // in keys of states alone
constexpr std::uint64_t offer_key(int fragment, std::int64_t round) {
  return static_cast<std::uint64_t>(round) << 10 | static_cast<std::uint64_t>(fragment);
}

using Message =
    std::variant<Hello, Offer, Want, Have, News, Welcome, Refusal, Leave, Seek, State, Fetch>;
// Version 3. parse_message() throws Error{kData} for anything else.
std::string print(const Message& message);
Message parse_message(const std::string& text);

}  // namespace trireme::islands
