#include "trireme/launch/islands/island.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/formats/json_fields.h"

namespace trireme::islands {

Json to_json(const IslandState& state) {
  Json applied = Json::array();
  for (const auto& [entry, when] : state.applied) applied.push_back(Json::array({entry, when}));
  return {{"island", state.island},    {"run", state.run},       {"position", state.position},
          {"line", hex64(state.line)}, {"rounds", state.rounds}, {"since", state.since},
          {"turns", state.turns},      {"every", state.every},   {"applied", applied}};
}

IslandState island_state_from(const Json& json, const std::string& where) {
  const formats::JsonFields fields(json, where);
  fields.only(
      {"island", "run", "position", "line", "rounds", "since", "turns", "every", "applied"});
  IslandState state{.island = static_cast<int>(fields.integer("island", 0, 1 << 20)),
                    .position = fields.integer("position")};
  const auto numbers = [&](const char* key) {
    std::vector<std::int64_t> found;
    for (const Json& one : fields.array(key)) found.push_back(formats::json_integer(one, where));
    return found;
  };
  state.rounds = numbers("rounds");
  state.since = numbers("since");
  // An older checkpoint lacks these.
  if (fields.has("line")) state.line = fields.hex("line");
  if (fields.has("run")) state.run = fields.string("run");
  if (fields.has("turns")) state.turns = numbers("turns");
  if (fields.has("every")) state.every = fields.integer("every");
  for (const Json& one : fields.array("applied")) {
    if (!one.is_array() || one.size() != 2)
      fail(ErrorKind::kData, "{}: {}; needs an entry and a time", where, one.dump());
    state.applied.push_back({.entry = formats::json_integer(one[0], where),
                             .when = formats::json_integer(one[1], where)});
  }
  return state;
}

Island::Island(Config config, const IslandState& state, std::int64_t step)
    : config_(std::move(config)), state_(state), start_(step) {
  const auto fragments = static_cast<std::size_t>(config_.fragments);
  adopts_ = state_.island != config_.island;
  fresh_ = adopts_;
  state_.island = config_.island;
  state_.run = config_.run;
  state_.rounds.resize(fragments);
  if (adopts_) {
    state_.since.assign(fragments, step);
    state_.applied.clear();
    state_.turns.clear();
    state_.every = 0;
  }
  state_.since.resize(fragments);
  for (std::size_t i = state_.turns.size(); i < fragments; ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * config_.every / config_.fragments;
    state_.turns.push_back(first +
                           std::max<std::int64_t>(0, step - first) / config_.every * config_.every);
  }
  way_.resize(fragments);
  skipped_.resize(fragments);
}

std::optional<Island::Step> Island::apply(const Entry& entry, std::int64_t when, bool at_once) {
  const std::int64_t step = step_at(when);
  Step result;
  if (entry.kind == Entry::Kind::kMerge) {
    const int fragment = entry.fragment;
    std::optional<OnWay>& way = way_.at(static_cast<std::size_t>(fragment));
    const auto own = std::ranges::find(entry.from, config_.island, &Contribution::island);
    const bool sent =
        own != entry.from.end() && own->run == config_.run && way && way->round == entry.round;
    if (sent && !at_once && step < way->step + delay()) return std::nullopt;
    if (sent) {
      result = {.how = How::kBlend, .sent = true};
      merged(*way);
    } else if (fresh_) {
      result.how = How::kAdopt;
    } else if (own != entry.from.end() && own->run != config_.run) {
      // Of a process that is gone: work up to that step is in G, whether these weights hold it or not.
      result = {.how = own->step > start_ ? How::kAdopt : How::kBlend, .lost = true};
    } else {
      result.how = How::kShift;
    }
    if (own != entry.from.end())
      state_.since[static_cast<std::size_t>(fragment)] = std::min(own->step, step);
    state_.rounds[static_cast<std::size_t>(fragment)] = entry.round + 1;
    follow_pace(entry);
    if (way && way->round <= entry.round) {
      // Late: where training does not wait for merges, it sends again at once and is in time for the next round.
      if (!sent && config_.delay > 0)
        state_.turns[static_cast<std::size_t>(fragment)] = step - every();
      way.reset();
      skipped_[static_cast<std::size_t>(fragment)] = 0;
    }
  }
  state_.applied.push_back({.entry = state_.position, .when = when});
  ++state_.position;
  return result;
}

void Island::follow_pace(const Entry& entry) {
  const auto own = std::ranges::find(entry.paces, config_.island, &Pace::island);
  state_.every = own == entry.paces.end()
                     ? 0
                     : std::max<std::int64_t>(1, config_.every * own->thousandths / 1000);
}

std::int64_t Island::delay() const { return std::min<std::int64_t>(config_.delay, every() / 2); }

std::vector<int> Island::due(std::int64_t step) const {
  std::vector<int> due;
  for (int fragment = 0; fragment < config_.fragments; ++fragment)
    if (step >= state_.turns[static_cast<std::size_t>(fragment)] + every()) due.push_back(fragment);
  return due;
}

void Island::merged(const OnWay& way) {
  const std::size_t known = way.applied > dropped_ ? way.applied - dropped_ : 0;
  state_.applied.erase(state_.applied.begin(),
                       state_.applied.begin() + static_cast<std::ptrdiff_t>(known));
  dropped_ += known;
}

Island::Send Island::turn(int fragment, std::int64_t step) {
  state_.turns.at(static_cast<std::size_t>(fragment)) = step;
  if (!on_way(fragment)) return Send::kNow;
  int& skipped = skipped_.at(static_cast<std::size_t>(fragment));
  if (skipped >= config_.max_lag) return Send::kWait;
  ++skipped;
  return Send::kSkip;
}

std::int64_t Island::round(int fragment) const {
  return state_.rounds.at(static_cast<std::size_t>(fragment));
}

void Island::sent(int fragment, std::int64_t step) {
  state_.turns.at(static_cast<std::size_t>(fragment)) = step;
  way_.at(static_cast<std::size_t>(fragment)) = {
      .round = round(fragment), .step = step, .applied = dropped_ + state_.applied.size()};
}

std::int64_t Island::steps_since(int fragment, std::int64_t step) const {
  return step - state_.since.at(static_cast<std::size_t>(fragment));
}

bool Island::any_on_way() const {
  return std::ranges::any_of(way_, [](const auto& way) { return way.has_value(); });
}

}  // namespace trireme::islands
