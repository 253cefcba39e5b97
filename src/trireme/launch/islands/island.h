// Island: one rank's part in elastic islands, as a pure state machine. All ranks of an island give it the same inputs
// and so decide the same. No I/O, no clock, no bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/launch/islands/tape.h"

namespace trireme::islands {

// What a checkpoint keeps.
struct IslandState {
  int island = -1;                     // none: of no island
  std::string run{};                   // that wrote it
  std::int64_t position = 0;           // entries that the weights hold
  std::uint64_t line = 0;              // digest of the last of them; 0: not known
  std::vector<std::int64_t> rounds{};  // by fragment: the next
  std::vector<std::int64_t> since{};   // by fragment: the step of the last own contribution
  std::vector<std::int64_t> turns{};   // by fragment: the step of its last turn to be sent
  std::int64_t every = 0;              // steps of a round of a slow island; 0: as the job has it
  std::vector<Applied> applied{};      // since the last contribution that was merged
  bool operator==(const IslandState&) const = default;
};
Json to_json(const IslandState& state);
// Throws Error{kData} naming `where`.
IslandState island_state_from(const Json& json, const std::string& where);

class Island {
 public:
  struct Config {
    int island = 0;
    std::string run{};
    int fragments = 1;
    std::int64_t every = 30;  // steps of a round
    int delay = 0;            // steps from sending to applying
    int max_lag = 2;  // times that a fragment is not sent before training waits for its last round
  };
  enum class How {
    kNothing,  // no merge
    kBlend,    // own differences are in it: weights = blend weights + (1 - blend) G
    kShift,    // the island was late: weights += G_new - G_old, and it keeps what codes left out
    kAdopt,    // weights = G: they hold nothing that G lacks
  };
  struct Step {
    How how = How::kNothing;
    bool sent = false;  // the last code was merged: what it left out replaces the residual
    bool lost = false;  // a code of an earlier process was merged: what it left out is gone
  };
  enum class Send { kNow, kSkip, kWait };

  // Starts after `step` steps. The state of another island, or none, begins with G.
  Island(Config config, const IslandState& state, std::int64_t step);

  // Applies the entry at state().position, or nothing if it is not due. `when` as of Applied; `at_once`: a delay is not
  // waited for.
  std::optional<Step> apply(const Entry& entry, std::int64_t when, bool at_once);
  // The digest of the line of the entry that was applied.
  void applied(std::uint64_t line) { state_.line = line; }
  // Fragments whose turn it is after `step`: so many steps after the last one, first as plan/outer_steps.h has it.
  std::vector<int> due(std::int64_t step) const;
  // Whether to send the fragment, whose turn it is. After kNow, sent() follows.
  Send turn(int fragment, std::int64_t step);
  // Steps of a round: fewer than the job's where the island is slow.
  std::int64_t every() const { return state_.every > 0 ? state_.every : config_.every; }
  std::int64_t round(int fragment) const;
  void sent(int fragment, std::int64_t step);
  // Steps since the last own contribution to the fragment.
  std::int64_t steps_since(int fragment, std::int64_t step) const;
  bool on_way(int fragment) const { return way_.at(fragment).has_value(); }
  bool any_on_way() const;
  const IslandState& state() const { return state_; }
  void trained() { fresh_ = false; }
  bool adopts() const { return adopts_; }  // it begins with G

 private:
  struct OnWay {
    std::int64_t round = 0;
    std::int64_t step = 0;
    std::size_t applied = 0;  // that it names
  };
  void merged(const OnWay& way);
  void follow_pace(const Entry& entry);
  std::int64_t delay() const;  // of this island: at most half of its round

  Config config_;
  IslandState state_;
  std::int64_t start_;  // steps
  bool adopts_ = false;
  bool fresh_ = false;  // weights are G
  std::vector<std::optional<OnWay>> way_;
  std::vector<int> skipped_;
  std::size_t dropped_ = 0;  // of state_.applied, ever
};

}  // namespace trireme::islands
