#include "tests/launch/islands/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "trireme/launch/islands/island.h"
#include "trireme/launch/islands/leader.h"

namespace trireme::islands {

namespace {

class IslandsSimulation {
 public:
  static constexpr int kFragments = 2, kDelay = 5;
  static constexpr std::int64_t kEvery = 60, kAtOnce = 5, kSaved = 50;  // steps

  IslandsSimulation(std::uint64_t seed, const Weather& weather)
      : random_(seed),
        weather_(weather),
        leader_({.quorum = weather.quorum, .absent_s = 600}, {}, std::nullopt, 0) {
    for (int i = 0; i < weather.islands; ++i) {
      Place& place = places_.emplace_back();
      place.step_s = 20 + 20 * uniform();
      place.half = weather.half > 0 && uniform() < weather.half;
      if (weather.half > 0) place.step_s = place.half ? 60 : 30;
      place.transfer_s = 5 + 60 * uniform();
      if (uniform() < weather.slow) place.transfer_s *= 10;
      at(uniform() * 600, Kind::kStart, i);
      at(often(weather_.crash_hours), Kind::kCrash, i);
      at(often(weather_.suspend_hours), Kind::kSuspend, i);
    }
    at(0, Kind::kTick, -1);
    at(often(weather_.suspend_hours), Kind::kSuspend, -1);
  }

  Day live() {
    while (!events_.empty() && wrong_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (now_ > weather_.hours * 3600) break;
      ++day_.events;
      take(event);
    }
    if (!wrong_.empty()) day_.wrong = fmt::format("at {:.0f} s: {}", now_, wrong_);
    for (const Place& place : places_) {
      day_.behind += place.state.position + 100 < entries();
      for (int f = 0; f < kFragments; ++f)
        day_.lag = std::max(day_.lag, leader_.round(f) - 1 - place.merged[f]);
      if (place.half || place.began < 0) continue;
      const double trained = static_cast<double>(place.step) * place.step_s;
      day_.speed = std::min(day_.speed, trained / (weather_.hours * 3600 - place.began));
    }
    return day_;
  }

 private:
  std::int64_t entries() const { return std::ssize(tape_); }
  enum class Kind { kStart, kSteps, kCrash, kSuspend, kTick, kOffer, kArrived, kKnows };
  struct Event {
    double time = 0;
    std::uint64_t order = 0;
    Kind kind{};
    int island = 0;
    int run = 0;
    Offer offer{};
    std::int64_t entries = 0;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct Weights {
    std::int64_t own[kFragments] = {}, outer[kFragments] = {};
  };
  struct Place {
    double step_s = 30, transfer_s = 10, suspended_until = 0;
    bool half = false;
    double began = -1;                           // its first step
    std::int64_t merged[kFragments] = {-1, -1};  // the last round that it was in
    int run = 0;                                 // odd: it lives
    std::int64_t step = 0;
    Weights weights{};
    IslandState state{};  // as of the machine
    std::optional<Island> machine{};
    std::int64_t known = 0;  // entries
    bool connected = false;
    // Its checkpoint.
    std::int64_t saved_step = 0;
    Weights saved{};
    IslandState saved_state{};
  };

  double uniform() { return std::uniform_real_distribution<>()(random_); }
  double often(double hours) { return now_ - 3600 * hours * std::log(1 - uniform()); }
  void at(double time, Kind kind, int island) { at(time, kind, island, Event()); }
  void at(double time, Kind kind, int island, Event more) {
    more.time = time;
    more.order = order_++;
    more.kind = kind;
    more.island = island;
    if (island >= 0) more.run = places_[island].run;
    events_.push(more);
  }
  static std::string run_name(int island, int run) { return fmt::format("{}.{}", island, run); }

  void take(const Event& event) {
    switch (event.kind) {
      case Kind::kTick: return tick();
      case Kind::kSuspend: return suspend(event.island);
      case Kind::kCrash: return crash(event.island);
      case Kind::kStart: return start(event.island);
      default: break;
    }
    Place& place = places_[event.island];
    if (event.run != place.run) return;  // of a process that is gone
    if (event.kind == Kind::kSteps) return train(event.island);
    if (leader_until_ > now_) {  // it is suspended: messages wait
      Event later = event;
      later.time = leader_until_ + 0.001;
      later.order = order_++;
      return events_.push(later);
    }
    if (event.kind == Kind::kOffer) {
      if (!leader_.offered(event.island, 0, event.offer, now_)) return;
      at(now_ + place.transfer_s, Kind::kArrived, event.island, event);
    } else if (event.kind == Kind::kArrived) {
      leader_.arrived(event.island, 0, event.offer.fragment, event.offer.round, now_);
    } else if (event.kind == Kind::kKnows) {
      place.known = std::max(place.known, event.entries);
      leader_.acknowledged(event.island, place.known);
      acknowledged_ = true;
    }
  }

  void tick() {
    at(now_ + 5, Kind::kTick, -1);
    if (leader_until_ > now_) return;
    leader_.tick(now_);
    write();
    if (std::exchange(acknowledged_, false)) committed_ = leader_.committed();
  }

  void write() {
    const std::int64_t before = entries();
    for (const Entry& entry : leader_.take_entries()) {
      if (entry.kind == Entry::Kind::kMerge) {
        ++day_.merges;
        day_.contributions += std::ssize(entry.from);
        for (const Contribution& one : entry.from) {
          std::int64_t& last = places_[one.island].merged[entry.fragment];
          if (last >= 0) day_.lag = std::max(day_.lag, entry.round - last - 1);
          last = entry.round;
        }
        if (!std::ranges::is_sorted(entry.from, {}, &Contribution::island))
          wrong_ = "contributions are not in order";
      }
      if (entry.kind == Entry::Kind::kLeave) ++day_.leaves;
      tape_.push_back(entry);
    }
    if (entries() == before) return;
    for (int i = 0; i < weather_.islands; ++i)
      if (places_[i].connected) tell(i);
  }
  void tell(int island) {
    Event event;
    event.entries = entries();
    at(now_ + places_[island].transfer_s, Kind::kKnows, island, event);
  }

  void suspend(int island) {
    const double length = uniform() < 0.8 ? 60 * uniform() : 7200 * uniform();
    at(often(weather_.suspend_hours), Kind::kSuspend, island);
    if (island < 0) {
      leader_until_ = now_ + length;
      return;
    }
    Place& place = places_[island];
    place.suspended_until = now_ + length;
    if (place.run % 2 == 0 || length < 15 || !place.connected) return;
    place.connected = false;
    leader_.closed(island, 0, now_);
  }

  void crash(int island) {
    at(often(weather_.crash_hours), Kind::kCrash, island);
    Place& place = places_[island];
    if (place.run % 2 == 0) return;
    ++day_.crashes;
    ++place.run;
    if (std::exchange(place.connected, false)) leader_.closed(island, 0, now_);
    at(now_ + 60 + 1200 * uniform(), Kind::kStart, island);
  }

  void connect(int island) {
    Place& place = places_[island];
    const auto refused = leader_.hello({.island = island,
                                        .islands = weather_.islands,
                                        .run = run_name(island, place.run),
                                        .step = place.step,
                                        .position = place.state.position,
                                        .copied = place.known,
                                        .recipe = {.fragments = kFragments, .delay = kDelay}},
                                       now_);
    if (refused) wrong_ = *refused;
    place.connected = true;
    write();
    tell(island);
  }

  void start(int island) {
    Place& place = places_[island];
    if (leader_until_ > now_) {
      at(leader_until_ + 1, Kind::kStart, island);
      return;
    }
    ++place.run;
    place.step = place.saved_step;
    place.weights = place.saved;
    place.machine.emplace(Island::Config{.island = island,
                                         .run = run_name(island, place.run),
                                         .fragments = kFragments,
                                         .every = kEvery,
                                         .delay = kDelay},
                          place.saved_state, place.step);
    place.state = place.machine->state();
    place.known = place.state.position;
    waiting_.erase(island);
    connect(island);
    first_[island] = entries();
    at(now_ + place.transfer_s, Kind::kSteps, island);
  }

  void apply(int island, std::int64_t when, bool at_once) {
    Place& place = places_[island];
    while (place.machine->state().position < std::min(place.known, committed_)) {
      const std::int64_t index = place.machine->state().position;
      const Entry& entry = tape_[index];
      const auto how = place.machine->apply(entry, when, at_once);
      if (!how) break;
      if (how->how == Island::How::kNothing) continue;
      std::int64_t sum = 0, own = 0;
      for (const Contribution& one : entry.from) {
        sum += static_cast<std::int64_t>(one.weight);
        if (one.island == island) own = static_cast<std::int64_t>(one.weight);
      }
      std::int64_t& outer = place.weights.outer[entry.fragment];
      std::int64_t& weights = place.weights.own[entry.fragment];
      outer += sum;
      if (how->how == Island::How::kBlend) weights += sum - own;
      if (how->how == Island::How::kShift) weights += sum, ++day_.late;
      if (how->how == Island::How::kAdopt) weights = outer, ++day_.adopted;
      // All islands have the same outer weights at the same position.
      const auto [known, added] = outer_.emplace(index, outer);
      if (!added && known->second != outer)
        wrong_ = fmt::format("island {} has other outer weights after entry {}", island, index);
    }
    place.state = place.machine->state();
  }

  // Nothing is lost and nothing counted twice: an island's own part is its steps since its last contribution.
  void check(int island) {
    Place& place = places_[island];
    for (int f = 0; f < kFragments; ++f) {
      const std::int64_t own = place.weights.own[f] - place.weights.outer[f];
      if (own != place.machine->steps_since(f, place.step))
        wrong_ = fmt::format("island {} at step {} has {} of its own in fragment {}, not {}",
                             island, place.step, own, f, place.machine->steps_since(f, place.step));
    }
  }

  void train(int island) {
    Place& place = places_[island];
    if (place.suspended_until > now_) return at(place.suspended_until + 1, Kind::kSteps, island);
    if (!place.connected) {
      if (leader_until_ > now_) return at(now_ + 60, Kind::kSteps, island);
      connect(island);
    }
    // Before its first step it applies what there was, and a fragment's last round where it has waited too long.
    if (place.state.position < first_[island] || waiting_.contains(island)) {
      apply(island, after_sending(place.step), true);
      check(island);
      const auto awaited = waiting_.find(island);
      const bool still = place.state.position < first_[island] ||
                         (awaited != waiting_.end() && place.machine->on_way(awaited->second));
      if (still) {
        ++day_.waits;
        return at(now_ + place.step_s, Kind::kSteps, island);
      }
      if (awaited != waiting_.end()) {
        const int fragment = awaited->second;
        waiting_.erase(awaited);
        send(island, fragment);
      }
    }
    if (place.began < 0) place.began = now_;
    place.machine->trained();
    place.step += kAtOnce;
    day_.steps += kAtOnce;
    for (std::int64_t& weights : place.weights.own) weights += kAtOnce;
    apply(island, before_sending(place.step), false);
    for (const int f : place.machine->due(place.step)) {
      const Island::Send turn = place.machine->turn(f, place.step);
      if (turn == Island::Send::kWait) waiting_[island] = f;
      if (turn == Island::Send::kNow) send(island, f);
    }
    check(island);
    if (place.step % kSaved == 0 && !waiting_.contains(island)) {
      place.saved_step = place.step;
      place.saved = place.weights;
      place.saved_state = place.state;
    }
    at(now_ + place.step_s * kAtOnce, Kind::kSteps, island);
  }

  void send(int island, int fragment) {
    Place& place = places_[island];
    Event event;
    event.offer = {.fragment = fragment,
                   .round = place.machine->round(fragment),
                   .step = place.step,
                   .weight = static_cast<double>(place.machine->steps_since(fragment, place.step)),
                   .step_s = place.step_s};
    place.machine->sent(fragment, place.step);
    at(now_ + 0.1, Kind::kOffer, island, event);
  }

  std::mt19937_64 random_;
  Weather weather_;
  double now_ = 0, leader_until_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<Place> places_;
  Leader leader_;
  std::vector<Entry> tape_;
  std::int64_t committed_ = 0;
  bool acknowledged_ = false;
  std::map<std::int64_t, std::int64_t> outer_;  // by entry
  std::map<int, std::int64_t> first_;           // by island: entries when it started
  std::map<int, int> waiting_;                  // by island: the fragment
  std::string wrong_;
  Day day_;
};

}  // namespace

Day live(std::uint64_t seed, const Weather& weather) {
  return IslandsSimulation(seed, weather).live();
}

}  // namespace trireme::islands
