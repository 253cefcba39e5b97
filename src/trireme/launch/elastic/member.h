// Member: one host's part in a run, as a pure state machine. Inputs are orders of the leader, ends of ranks, signals
// and the passing of time; outputs are actions. No threads, no I/O, no clock.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/os/stop.h"
#include "trireme/launch/elastic/messages.h"

namespace trireme::elastic {

class Member {
 public:
  struct Config {
    Report self{};  // its identity and number of ranks; the rest is filled in
    double heartbeat_s = 0.25;
    // Without a message from the leader for longer, its ranks are killed. It is shorter than the leader's limit for the
    // host: an old generation has ended before a new one begins.
    double lease_s = 2.5;
    double patience_s = 60;  // and after this it leaves
    double pause_s = 1;  // pause of this host itself, when it handled nothing for longer: no rank's
                         // fault
    // Whether all that the run is to do is saved: then a leader that is gone will not come back.
    std::function<bool()> complete = [] { return false; };
  };
  struct Actions {
    std::optional<Report> report{};
    std::optional<Assignment> start{};  // config.self.slots ranks of it, or a server
    int signal = 0;                     // to every rank; 0: none
    std::optional<Outcome> leave{};     // no rank is left, and nothing will follow
    std::string note{};                 // for people
  };

  Member(Config config, double now);

  Actions order(const Order& order, double now);
  // A rank's place in the world, and how it ended.
  Actions ended(RankEnd end, double now);
  // A stop signal: the ranks save and end, or are killed at once (os::StopRequest). A rank that ends by the signal itself had
  // not begun; then no rank has anything to save, and the others are killed.
  Actions interrupt(int signal, double now);
  Actions tick(double now);
  // The newest generation that has begun here.
  std::uint64_t started() const { return started_; }

 private:
  void wake(double now);
  Actions act(double now);
  int signal_wanted(double now) const;
  void follow(Actions& actions, double now);
  bool deserted(double now) const { return now - heard_at_ > config_.lease_s; }
  Outcome outcome() const;
  Report report() const;

  Config config_;
  Order current_{};
  double
      heard_at_;  // when the newest report was sent that the leader has heard; later by own pauses
  double sure_at_ = -1e9;  // as it was: an order that waited through a pause begins nothing
  double seen_at_;         // when anything was handled
  std::deque<std::pair<std::uint64_t, double>> unheard_;  // reports: sequence, when
  Report last_{};
  double reported_at_ = -1e9;
  std::uint64_t sequence_ = 0;

  std::uint64_t started_ = 0;  // generation
  double started_at_ = 0;
  std::uint64_t alive_ = 0;
  int interrupt_ = 0;  // sent to the ranks
  bool killed_ = false;
  std::vector<RankEnd> ends_;
  bool unbegun_ = false;  // a rank ended by the signal itself
  os::StopRequest stop_;
};

}  // namespace trireme::elastic
