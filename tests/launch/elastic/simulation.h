// A run of several hosts in one thread: the real state machines of leader and members over a network, clocks and ranks
// that one seed decides about, with checks after every event.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/launch/elastic/mishap.h"
#include "trireme/launch/elastic/member.h"
#include "trireme/launch/elastic/membership.h"

namespace trireme::elastic {

// What is broken on purpose, to see that the checks find it.
struct Sabotage {
  double lease_s = 2.5;
  bool forget_generation = false;  // a leader that starts again counts from 0
  bool blame_pauses = false;       // of its own
  bool hide_missing = false;       // an agent that says nothing of ranks that it could not start
  bool early_end = false;          // a leader that takes half of the steps for all of them
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, const Sabotage& sabotage);

  // Lives through faults, their end, and the end of the run. Empty, or what went wrong and when.
  std::string live();

  std::uint64_t events = 0, commits = 0, generations = 0;
  std::uint64_t reported = 0;  // faults that the leader reported
  MishapCounts mishaps{};
  std::uint64_t overtaken = 0;  // messages that came after a later one

 private:
  enum class Kind { kTick, kMessage, kRankEnd, kStep, kFault, kRestart, kCommit, kAccuse };
  struct Event {
    double at = 0;
    std::uint64_t order = 0;  // breaks ties
    Kind kind{};
    std::size_t host = 0;
    HostId id = 0;                 // of the agent that it is for; another lives there now: nothing
    std::uint64_t generation = 0;  // of ranks and commits
    RankEnd end{};
    std::shared_ptr<const Message> message{};
    std::size_t from = 0;  // of a message
    std::uint64_t sent = 0;
    bool noticed_late = false;  // its agent was paused
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Agent {
    HostId id = 0;
    std::optional<Member> member{};
    double clock = 0;                             // its monotonic clock minus the time
    double paused_until = 0;                      // stopped, while its ranks go on
    double cut_up_until = 0, cut_down_until = 0;  // one-way partitions towards and from the leader
    double disturbed = -1e9;  // when something last gave reason to hold it for dead
    std::uint64_t ranks_of = 0;
    Assignment assignment{};
    std::set<int> ranks{};
    bool hung = false;  // its ranks: they live and make no step
    bool stalled =
        false;  // an agent that stood still while its ranks ran: they may outlive their lease
  };

  void boot(std::size_t host);
  void crash(std::size_t host);
  void push(double delay, Event event);
  void handle(const Event& event);
  void fault();
  void made(Mishap kind) { ++mishaps[static_cast<std::size_t>(kind)]; }
  bool happens(Mishap kind, double probability);
  void disturb(std::size_t host, double until);
  void cut(std::size_t host, Mishap kind, double until);
  void fail_rank(std::size_t host);
  void hang(std::size_t host);
  void excuse(double until);
  void do_member(std::size_t host, Member::Actions actions);
  void do_leader(Membership::Actions actions);
  void send(std::size_t from, std::size_t to, Message message);
  void deliver(std::size_t host, const Message& message);
  // The ranks that could not be started.
  std::vector<RankEnd> start(std::size_t host, const Assignment& assignment);
  void end_rank(std::size_t host, int rank, int code, int signal, double delay);
  void end_ranks(std::uint64_t generation);
  void step();
  void commit(std::uint64_t generation);
  void violate(const std::string& what);
  bool lives(std::size_t host) const;
  bool complete() const { return last_step_ > 0 && durable_ >= last_step_; }
  bool half_done() const { return last_step_ > 0 && durable_ >= last_step_ / 2; }
  bool over() const;
  bool up(std::size_t host) const { return agents_[host].member.has_value(); }
  double local(std::size_t host) const { return now_ + agents_[host].clock; }
  double draw(double low, double high);
  bool chance(double probability) { return draw(0, 1) < probability; }

  Sabotage sabotage_;
  std::mt19937_64 random_;
  std::priority_queue<Event> queue_;
  std::uint64_t order_ = 0;
  double now_ = 0;
  double calm_at_ = 0;  // when the last fault is over
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t>
      newest_sent_;  // from one host to another
  bool faulty_ = true, finishing_ = false;
  bool spoiled_ = false;  // the end: no generation can be noted any more
  std::vector<Agent> agents_;
  std::size_t least_ = 1, most_ = 1;
  std::optional<Membership> leader_;
  std::uint64_t remembered_ = 0, serving_ = 0, newest_ = 0;
  std::int64_t durable_ = 0;
  std::int64_t last_step_ = 0;  // of the run; 0: it ends when faults are over and all is well
  std::uint64_t whole_commits_ = 0;
  std::map<std::uint64_t, std::map<std::uint64_t, Assignment>>
      assignments_;  // by generation and first rank
  std::string violation_;
};

}  // namespace trireme::elastic
