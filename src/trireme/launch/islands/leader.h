// Leader of islands, as a pure state machine of members, open rounds and the next entries of the tape. No I/O, no clock,
// no bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/launch/islands/messages.h"

namespace trireme::islands {

// Digests of the leader's lines before Hello::position and Hello::copied; 0: not known.
struct LinesHere {
  std::uint64_t position = 0, copied = 0;
};

class Leader {
 public:
  struct Config {
    int quorum = 0;  // islands that a merge needs; 0: a majority
    // Seconds to wait for further islands once a merge has its quorum; none: `gamma` of what a delay leaves.
    std::optional<double> grace_s{};
    double gamma = 0.5;
    double absent_s = 60;  // an island without a connection for longer is left out
  };

  // Continues the tape in the next term. The caller writes every entry that take_entries() returns, in order, before it
  // calls anything else. Merges lack their digests. Throws
  // Error{kUsage} for an island's copy of a tape.
  Leader(const Config& config, const std::vector<Entry>& tape, std::optional<Recipe> recipe,
         double now);

  // A rank has connected: nothing, or why it is refused.
  std::optional<std::string> hello(const Hello& hello, double now, const LinesHere& lines = {});
  // Entries of an island's copy that are also here: all, or, where the copy ends with entries of an earlier term that this
  // leader has not, those that the island has applied.
  std::int64_t copied(const Hello& hello, const LinesHere& lines) const;
  // A first rank can hand this state over.
  void shows(int island, const State& state);
  // The state that an island which is about to start takes: the newest one that a connected island shows, for an island
  // without a checkpoint, or with one that lacks more bytes of means than the state has. Nothing: it takes means.
  std::optional<State> state_for(const Seek& seek) const;
  // Whether the bytes are wanted. An island that is late learns so from the tape.
  bool offered(int island, int rank, const Offer& offer, double now);
  // The bytes of a rank are complete.
  void arrived(int island, int rank, int fragment, std::int64_t round, double now);
  // The island has so many entries on its disk.
  void acknowledged(int island, std::int64_t entries);
  void left(int island, const Leave& leave);
  void closed(int island, int rank, double now);
  void tick(double now);

  std::vector<Entry> take_entries() { return std::exchange(new_, {}); }
  // Entries that a majority of islands has on its disk.
  std::int64_t committed() const;
  std::int64_t entries() const { return entries_; }
  std::int64_t round(int fragment) const { return rounds_[static_cast<std::size_t>(fragment)]; }
  // Islands that have joined and not left.
  int members() const { return static_cast<int>(members_.size()); }
  std::int64_t term() const { return term_; }
  const std::optional<Recipe>& recipe() const { return recipe_; }

 private:
  struct Member {
    std::string run;
    int ranks = 1;
    std::set<int> connected;
    double since = 0;           // of its last connection, or its loss
    std::int64_t on_disk = 0;   // entries
    std::int64_t position = 0;  // entries when it joined
    double step_s = 0;          // running mean of its steps
    std::optional<State> state{};
  };
  struct Given {
    Contribution what;
    std::set<int> ranks;  // whose bytes are complete
    double offered_at = 0;
    bool complete = false;
  };
  struct Open {
    std::map<int, Given> from;  // by island
    double first_at = 0;
    std::optional<double> quorum_at{};
  };
  void append(Entry entry);
  void count(const Entry& entry);
  int needed() const;
  double grace(const Open& round) const;
  std::vector<Pace> paces() const;
  std::string other_tape(const Hello& hello, const LinesHere& lines) const;
  void leave_out(int island, std::int64_t step, std::vector<Applied> applied);
  void drop(int island);

  Config config_;
  std::int64_t term_ = 1;
  std::int64_t entries_ = 0;
  std::optional<Recipe> recipe_;
  int islands_ = 0;  // at most
  std::map<int, Member> members_;
  std::vector<std::int64_t> rounds_;  // by fragment: the next
  std::vector<Open> open_;
  double step_s_ = 0, transfer_s_ = 0;  // running means
  std::vector<Entry> new_;
  std::vector<std::int64_t> mean_bytes_;  // of all merges up to each entry
};

}  // namespace trireme::islands
