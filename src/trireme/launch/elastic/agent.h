// Agent: one host of a run. It starts the host's ranks and reports their state to the leader. If it owns the endpoint
// it is the leader itself: then ranks of all hosts meet in its store.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/os/clock.h"
#include "trireme/launch/elastic/link.h"
#include "trireme/launch/elastic/lookout.h"
#include "trireme/launch/elastic/member.h"
#include "trireme/launch/elastic/membership.h"
#include "trireme/launch/elastic/ranks.h"
#include "trireme/launch/elastic/server.h"
#include "trireme/launch/elastic/standstill.h"
#include "trireme/launch/elastic/store.h"

namespace trireme::elastic {

struct AgentConfig {
  Member::Config member{};                    // its host is drawn by the agent
  std::optional<Membership::Config> leads{};  // of the leader; `own` is set by the agent
  os::Address endpoint{};                     // where the leader listens
  Ranks::Config ranks{};                      // with the token; `store` is set by the agent
  bool serves = false;                        // they are one reduction server, and no rank
  double tick_s = 0.1;
  watch::Patience patience{};  // with ranks that do nothing; 0 in `steps`: they are never named
  double give_up_s = 25;       // so long after they were named they are stopped
  double standstill_s = 30;    // so long nothing may move here before the agent says what it sees
  std::vector<std::string> stack_command{};  // as of StackReader
  // Called before a generation begins; where it throws an Error, the run ends so on every host.
  std::function<void(std::uint64_t generation)> remember{};
  // Called before ranks of this host are started; where it throws an Error, none of them can be.
  std::function<void(std::uint64_t generation)> on_start{};
  std::function<void(const Fault&)> on_fault{};
  std::function<void(const std::string&)> on_note{};  // for people
  // Why ranks wait; what every rank was at.
  std::function<void(const std::string& cause, const std::vector<std::string>& lines)> on_hang{};
};

class Agent {
 public:
  // Must be made while the process has one thread. Throws Error{kUsage} where the endpoint cannot be listened on.
  explicit Agent(AgentConfig config);

  // Where the leader listens.
  const os::Address& endpoint() const { return config_.endpoint; }
  // Returns when no rank of this host is left, whatever happened; the leader's when every host knows the end.
  // Stop signals sent to this process reach every rank once. A rank that cannot be started is one that failed,
  // with the Error's exit code and words.
  Outcome run();

 private:
  void take_processes();
  void take_net();
  void tick();
  void look_out();
  void judge_silence();
  void look_at_itself(double slept_s);
  HostView view() const;
  void do_member(Member::Actions actions);
  // The ranks that could not be started.
  std::vector<RankEnd> start(const Assignment& assignment);
  void lead(const std::function<Membership::Actions()>& step);
  void do_leader(Membership::Actions actions);
  void remember(Membership::Actions& actions);
  void deliver_own();
  void received(os::ConnectionId from, const Message& message);
  void reply(const Store::Replies& replies);
  void report_strangers();
  bool done() const;
  double now() const { return clock_.seconds(); }

  AgentConfig config_;
  os::MonotonicClock clock_;
  std::unique_ptr<os::Processes> processes_;
  std::unique_ptr<os::Net> net_;
  std::optional<Server> server_;
  std::optional<Link> link_;
  std::optional<Ranks> ranks_;
  std::optional<Member> member_;
  std::optional<Membership> leader_;
  StackReader stacks_;
  Lookout lookout_;
  Hangs hangs_;
  Standstill standstill_;
  double ticked_at_, slept_s_ = 0;  // slept in this generation, at most
  std::uint64_t slept_in_ = 0;
  Store store_;
  std::map<HostId, os::ConnectionId> connection_of_;
  std::deque<Message> own_;  // between member and leader of this host
  std::optional<Outcome> left_;
  std::uint64_t strangers_reported_ = 0;
  double reported_at_ = -1e9;
};

}  // namespace trireme::elastic
