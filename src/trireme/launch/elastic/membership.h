// Membership: the leader's view of a run, as a pure state machine: reports of hosts and the passing of time go in,
// orders come out. No threads, no I/O, no clock.
//
// A generation is one world of ranks: it gathers hosts, runs, and stops. It stops when a rank fails, a host falls
// silent or is asked to leave, or another can join. The next generation begins with the hosts that are present. A
// generation begins only when no rank of an older one can be alive. Hosts without slots are reduction servers: they do not
// count as hosts, and all that are ready take part.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/launch/elastic/fault.h"
#include "trireme/launch/elastic/messages.h"

namespace trireme::elastic {

class Membership {
 public:
  struct Config {
    HostId own = 0;  // the leader's host: the run ends when it is asked to leave
    std::string run_id{};
    std::size_t least = 1, most = 1;  // hosts
    int max_restarts = 3;             // in a row that bring no new checkpoint
    std::uint64_t last_generation = 0;
    double death_s = 3;       // a host silent for longer is lost
    double gather_s = 3;      // the first generation waits so long for more than the least
    double patience_s = 600;  // and so long for the least
    double notice_s = 30;     // that interrupted ranks have to save
    double grace_s = 0;       // that the others have to end by themselves when a rank failed
    double echo_s = 1;        // as grace_s, when it failed only because another had
    double settle_s = 5;      // a generation runs so long before another host may join
    double pause_s = 1;       // pause of the leader itself: no host's fault
    std::function<Progress()> progress{};  // required
    // Whether all that the run is to do is saved: then a rank that fails has lost nothing.
    std::function<bool()> complete = [] { return false; };
    // Whether the job can have so many ranks; none: any.
    std::function<bool(std::uint64_t world)> fits{};
  };
  struct Actions {
    // The generation that the store serves from now on, 0: none. To be remembered before anything is sent.
    std::optional<std::uint64_t> serve{};
    std::vector<Order> send{};
    std::vector<Fault> faults{};
    std::vector<std::string> notes{};  // for people, at once
  };

  Membership(Config config, double now);

  Actions report(const Report& report, double now);
  Actions tick(double now);
  // A rank of a generation delays the others; it may continue.
  Actions suspect(std::uint64_t generation, int rank, const std::string& op,
                  const std::string& cause);
  // It will not.
  Actions accuse(std::uint64_t generation, const Outcome& outcome, double now);
  // The leader's host cannot continue: the run ends with `outcome`, and every host is informed.
  Actions abandon(const Outcome& outcome, double now);
  // The generation that runs, 0: none; and its ranks.
  std::uint64_t running() const { return phase_ == Phase::kRunning ? generation_ : 0; }
  int world() const;

  // The end of the run, once it has ended. Orders continue, to inform hosts that do not know it.
  const std::optional<Outcome>& finished() const { return finished_; }
  // Whether a host other than the leader's may have yet to hear it.
  bool anybody_left() const;

 private:
  struct Host {
    Report report{};
    double heard_at = 0;
    std::uint64_t joined = 0;  // counts up
  };
  struct Part {
    HostId host = 0;
    std::string name{};
    Assignment assignment{};
    bool gone = false;      // it has no ranks of the generation and will not have any
    bool complete = false;  // all have ended with 0
    Outcome outcome{};
  };
  enum class Phase { kGathering, kRunning, kStopping };

  void wake(double now);
  void advance(double now);
  void bury(double now);
  void gather(double now);
  void wait_for_more(std::size_t ready, double now);
  void start(const std::vector<HostId>& hosts, double now);
  void look_for_change(double now);
  void stop(Order::What what, double kill_at);
  void hear(Part& part, const Report& report, double now);
  void note(const Part& part, const Outcome& outcome, double now);
  void blame(const Part& part, const char* kind, const Outcome& outcome, bool echo, double now);
  void kill();
  void conclude(double now);
  void restart_or_finish(double now);
  void finish(const Outcome& outcome, double now);
  void make_good(double now);
  std::vector<HostId> ready(bool servers = false) const;
  std::vector<HostId> chosen() const;
  std::size_t servers() const;  // of the generation
  Order order_for(const Host& host) const;
  const Part* part_of(HostId host) const;
  const Part* part_of_rank(int rank) const;
  bool released(const Host& host) const;
  std::uint64_t own_leaving() const;
  Actions take(std::optional<HostId> reply);

  Config config_;
  Phase phase_ = Phase::kGathering;
  std::map<HostId, Host> hosts_;
  std::uint64_t joined_ = 0;
  double seen_at_;
  double not_before_;  // leases that an earlier leader gave may last until then
  std::optional<double> short_since_, enough_since_;

  std::uint64_t generation_;
  std::vector<Part> parts_;
  Order::What what_ = Order::What::kKill;
  double started_at_ = 0, kill_at_ = 0;
  std::optional<Outcome> failure_;  // of this generation
  bool echo_ = false;               // it seems to be another's
  bool first_ = true;
  int restarts_ = 0;
  std::int64_t durable_ = 0;  // as of the last restart
  std::int64_t reached_ = 0;  // by a checkpoint or snapshot since durable_ changed

  std::vector<std::pair<Fault, double>> unmended_;  // and since when
  double looked_at_ = 0;
  std::optional<Outcome> finished_;
  bool changed_ = false;
  Actions actions_;
};

}  // namespace trireme::elastic
