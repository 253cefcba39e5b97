#include "tests/launch/elastic/simulation.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>

namespace trireme::elastic {

namespace {
// Seconds of a life: when the last fault begins, how long it may take to mend all of them, and to end.
constexpr double kFaults = 8, kMended = 25, kEnd = 10;
constexpr double kNotice = 6;  // a host is given up so long after something happened to it, at most
constexpr double kTick = 0.2, kStep = 0.1;
constexpr std::uint64_t kSlots = 2;
constexpr int kNoNote = 3;  // the end of a run whose leader cannot note a generation
}  // namespace

Simulation::Simulation(std::uint64_t seed, const Sabotage& sabotage)
    : sabotage_(sabotage), random_(seed) {
  agents_.resize(1 + random_() % 4);
  most_ = 1 + random_() % agents_.size();
  least_ = 1 + random_() % most_;
  constexpr std::int64_t kLongest = 60;  // steps: some such runs end amid faults, some after them
  if (chance(0.5)) last_step_ = 1 + static_cast<std::int64_t>(random_() % kLongest);
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    agents_[host].clock = draw(-1000, 100000);
    boot(host);
  }
  push(kStep, {.kind = Kind::kStep});
  push(draw(0, 1.5), {.kind = Kind::kFault});
}

double Simulation::draw(double low, double high) {
  return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
}

bool Simulation::happens(Mishap kind, double probability) {
  const bool now = chance(probability);
  if (now) made(kind);
  return now;
}

void Simulation::push(double delay, Event event) {
  event.at = now_ + delay;
  event.order = ++order_;
  queue_.push(std::move(event));
}

void Simulation::violate(const std::string& what) {
  if (violation_.empty()) violation_ = fmt::format("{:.3f} s: {}", now_, what);
}

// A host whose run is complete has nothing to start.
void Simulation::boot(std::size_t host) {
  if (complete()) return;
  Agent& agent = agents_[host];
  agent.id = random_() | 1;
  if (host == 0)
    leader_.emplace(
        Membership::Config{
            .own = agent.id,
            .run_id = "r",
            .least = least_,
            .most = most_,
            .max_restarts = 1000000,
            .last_generation = sabotage_.forget_generation ? 0 : remembered_,
            .patience_s = 1e6,
            .notice_s = 2,
            .pause_s = sabotage_.blame_pauses ? 1e6 : 1,
            .progress =
                [this] { return Progress{.durable_step = durable_, .last_step = durable_}; },
            .complete = [this] { return complete() || (sabotage_.early_end && half_done()); }},
        local(0));
  agent.member.emplace(Member::Config{.self = {.host = agent.id,
                                               .name = std::to_string(host),
                                               .run_id = "r",
                                               .slots = kSlots,
                                               .place = host},
                                      .lease_s = sabotage_.lease_s,
                                      .patience_s = 1e6,
                                      .complete = [this] { return complete(); }},
                       local(host));
  push(draw(0, kTick), {.kind = Kind::kTick, .host = host, .id = agent.id});
}

// Agent and ranks are gone at once, and for the leader what it did not write down.
void Simulation::crash(std::size_t host) {
  Agent& agent = agents_[host];
  agent.member.reset();
  agent.ranks.clear();
  agent.ranks_of = 0;
  agent.disturbed = 1e9;
  if (host == 0) {
    leader_.reset();
    serving_ = 0;
  }
  const double away = draw(0.1, 4);
  push(away, {.kind = Kind::kRestart, .host = host});
  calm_at_ = std::max(calm_at_, now_ + away);
}

void Simulation::send(std::size_t from, std::size_t to, Message message) {
  double delay = draw(0.0001, 0.002);
  const std::size_t remote = std::max(from, to);
  if (remote != 0) {
    const Agent& agent = agents_[remote];
    if (now_ < (from == remote ? agent.cut_up_until : agent.cut_down_until)) return;
    if (faulty_ && happens(Mishap::kMessageLost, 0.05)) return;
    if (faulty_ && happens(Mishap::kMessageLate, 0.05)) delay = draw(0, 2);
  }
  const auto shared = std::make_shared<const Message>(std::move(message));
  const Event event{.kind = Kind::kMessage,
                    .host = to,
                    .id = agents_[to].id,
                    .message = shared,
                    .from = from,
                    .sent = order_ + 1};
  push(delay, event);
  if (remote != 0 && faulty_ && happens(Mishap::kMessageTwice, 0.05)) push(draw(0, 2), event);
}

void Simulation::do_member(std::size_t host, Member::Actions actions) {
  Agent& agent = agents_[host];
  std::vector<RankEnd> missing;
  if (actions.start) missing = start(host, *actions.start);
  if (actions.signal != 0)
    for (const int rank : agent.ranks) {
      const bool hangs = actions.signal == SIGTERM && happens(Mishap::kRankDeaf, 0.1);
      if (actions.signal == SIGKILL)
        end_rank(host, rank, 0, SIGKILL, 0.001);
      else if (!hangs)
        end_rank(host, rank, 143, 0, draw(0.05, 0.3));
    }
  if (actions.report) send(host, 0, std::move(*actions.report));
  if (sabotage_.hide_missing) missing.clear();
  for (const RankEnd& end : missing) do_member(host, agent.member->ended(end, local(host)));
  if (!actions.leave) return;
  if (!finishing_ || actions.leave->exit_code != (spoiled_ ? kNoNote : 0))
    violate(fmt::format("host {} left with {} after step {} of {}: {}", host,
                        actions.leave->exit_code, durable_, last_step_, actions.leave->cause));
  agent.member.reset();
}

// The leader stays until the others know.
bool Simulation::lives(std::size_t host) const {
  return agents_[host].member ||
         (host == 0 && leader_ && leader_->finished() && leader_->anybody_left());
}

void Simulation::do_leader(Membership::Actions actions) {
  const bool begins = actions.serve && *actions.serve != 0;
  if (begins && faulty_ && happens(Mishap::kLeaderKilledBeforeNote, 0.02)) return crash(0);
  if (begins && spoiled_) {
    made(Mishap::kNoteFailed);
    return do_leader(
        leader_->abandon({.exit_code = kNoNote, .rank = -1, .cause = "no note"}, local(0)));
  }
  if (actions.serve) {
    serving_ = *actions.serve;
    if (serving_ != 0) remembered_ = serving_;
  }
  if (begins && faulty_ && happens(Mishap::kLeaderKilledAfterNote, 0.02)) return crash(0);
  for (Order& order : actions.send)
    for (std::size_t host = 0; host < agents_.size(); ++host)
      if (agents_[host].id == order.host) send(0, host, order);
  for (const Fault& fault : actions.faults) {
    ++reported;
    if (fault.kind != "host lost") continue;
    const double since = now_ - fault.lost_s;
    if (agents_[std::stoul(fault.host)].disturbed < since - kNotice)
      violate(
          fmt::format("host {} was healthy when it was given up at {:.3f} s", fault.host, since));
  }
}

void Simulation::deliver(std::size_t host, const Message& message) {
  if (const auto* report = std::get_if<Report>(&message)) {
    if (leader_) do_leader(leader_->report(*report, local(0)));
  } else {
    if (up(host))
      do_member(host, agents_[host].member->order(std::get<Order>(message), local(host)));
  }
}

std::vector<RankEnd> Simulation::start(std::size_t host, const Assignment& assignment) {
  Agent& agent = agents_[host];
  if (assignment.generation > newest_) ++generations;
  newest_ = std::max(newest_, assignment.generation);
  auto& others = assignments_[assignment.generation];
  if (!others.emplace(assignment.first_rank, assignment).second)
    violate(fmt::format("rank {} of generation {} twice", assignment.first_rank,
                        assignment.generation));
  for (const auto& [first, other] : others)
    if (other.world != assignment.world || other.hosts != assignment.hosts || first % kSlots != 0 ||
        first >= other.world)
      violate(fmt::format("generation {} has two worlds", assignment.generation));
  for (const Agent& other : agents_)
    if (!other.ranks.empty() && !other.stalled && other.ranks_of != assignment.generation)
      violate(fmt::format("generation {} began beside {}", assignment.generation, other.ranks_of));
  agent.assignment = assignment;
  agent.ranks_of = assignment.generation;
  agent.stalled = agent.hung = false;
  std::vector<RankEnd> missing;
  for (std::uint64_t k = 0; k < kSlots; ++k) {
    const int rank = static_cast<int>(assignment.first_rank + k);
    if (faulty_ && happens(Mishap::kRankNotStarted, 0.02))
      missing.push_back({.rank = rank, .code = 1, .cause = "cannot start"});
    else
      agent.ranks.insert(rank);
  }
  if (complete()) end_ranks(assignment.generation);
  return missing;
}

void Simulation::end_rank(std::size_t host, int rank, int code, int signal, double delay) {
  push(delay, {.kind = Kind::kRankEnd,
               .host = host,
               .id = agents_[host].id,
               .generation = agents_[host].ranks_of,
               .end = {.rank = rank, .code = code, .signal = signal}});
}

// Those that are there end by themselves, as after the last step.
void Simulation::end_ranks(std::uint64_t generation) {
  for (std::size_t host = 0; host < agents_.size(); ++host)
    if (agents_[host].ranks_of == generation && !agents_[host].hung)
      for (const int rank : agents_[host].ranks) end_rank(host, rank, 0, 0, draw(0, 0.2));
}

// A step needs every rank of a generation; one of them asks the leader whether it counts.
void Simulation::step() {
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>
      worlds;  // ranks there, ranks needed
  for (const Agent& agent : agents_)
    if (!agent.ranks.empty() && !agent.hung) {
      worlds[agent.ranks_of].first += agent.ranks.size();
      worlds[agent.ranks_of].second = agent.assignment.world;
    }
  for (const auto& [generation, count] : worlds) {
    if (count.first != count.second) continue;
    if (faulty_ && happens(Mishap::kDiskFull, 0.005)) continue;
    push(faulty_ && chance(0.1) ? draw(0, 5) : 0.001,
         {.kind = Kind::kCommit, .generation = generation});
    if (finishing_ && !spoiled_ && last_step_ == 0) end_ranks(generation);
  }
}

void Simulation::commit(std::uint64_t generation) {
  if (serving_ != generation || complete()) return;
  if (generation != newest_)
    violate(fmt::format("generation {} committed after {} began", generation, newest_));
  ++durable_;
  ++commits;
  if (assignments_[generation].begin()->second.hosts == most_) ++whole_commits_;
  if (!complete()) return;
  finishing_ = true;
  end_ranks(generation);
}

// A leader that stands still sees later what has happened to others.
void Simulation::excuse(double until) {
  for (Agent& agent : agents_)
    if (agent.disturbed > now_ - kNotice) agent.disturbed = std::max(agent.disturbed, until);
}

void Simulation::fault() {
  const std::size_t host = random_() % agents_.size();
  Agent& agent = agents_[host];
  const double until = now_ + draw(0.1, 6);
  calm_at_ = std::max(calm_at_, until);
  switch (random_() % 9) {
    case 0:
      if (!up(host)) return;
      made(host == 0 ? Mishap::kLeaderKilled : Mishap::kMemberKilled);
      crash(host);
      break;
    case 1:
      made(Mishap::kAgentPaused);
      agent.paused_until = std::max(agent.paused_until, until);
      agent.stalled = true;
      break;
    case 2: return cut(host, Mishap::kCutUp, until);
    case 3: return cut(host, Mishap::kCutDown, until);
    case 4: return cut(host, Mishap::kCut, until);
    case 5:  // everything stands still, as on a machine that sleeps
      made(Mishap::kAllPaused);
      for (Agent& each : agents_) {
        each.paused_until = std::max(each.paused_until, until);
        each.stalled = true;
      }
      return excuse(until);
    case 6:  // as of a virtual machine that was away: no time has passed for the others
      made(Mishap::kClockLeap);
      agent.clock += draw(1.5, 20);
      return;
    case 7: return hang(host);
    default: return fail_rank(host);
  }
  disturb(host, until);
}

void Simulation::disturb(std::size_t host, double until) {
  Agent& agent = agents_[host];
  if (host != 0) agent.disturbed = std::max({agent.disturbed, until, agents_[0].paused_until});
  if (agents_[0].paused_until > now_) excuse(agents_[0].paused_until);
}

// The leader's own agent talks to it without a network.
void Simulation::cut(std::size_t host, Mishap kind, double until) {
  if (host == 0) return;
  made(kind);
  if (kind != Mishap::kCutDown) agents_[host].cut_up_until = until;
  if (kind != Mishap::kCutUp) agents_[host].cut_down_until = until;
  disturb(host, until);
}

void Simulation::fail_rank(std::size_t host) {
  Agent& agent = agents_[host];
  if (agent.ranks.empty()) return;
  const bool killed = chance(0.5);
  made(killed ? Mishap::kRankKilled : Mishap::kRankFailed);
  end_rank(host, *agent.ranks.begin(), killed ? 0 : 1, killed ? SIGSEGV : 0, 0);
  for (std::size_t other = 0; other < agents_.size(); ++other)
    for (const int rank : agents_[other].ranks)
      if (agents_[other].ranks_of == agent.ranks_of) end_rank(other, rank, 4, 0, draw(0, 1.5));
}

// No step comes from then on, and after a while the leader knows whose fault that is.
void Simulation::hang(std::size_t host) {
  Agent& agent = agents_[host];
  if (agent.ranks.empty() || agent.hung) return;
  made(Mishap::kRankHung);
  agent.hung = true;
  const double found = draw(0.2, 2);
  calm_at_ = std::max(calm_at_, now_ + found);
  push(found, {.kind = Kind::kAccuse,
               .id = agents_[0].id,
               .generation = agent.ranks_of,
               .end = {.rank = *agent.ranks.begin()}});
}

void Simulation::handle(const Event& event) {
  Agent& agent = agents_[event.host];
  switch (event.kind) {
    case Kind::kTick:
      if (up(event.host)) do_member(event.host, agent.member->tick(local(event.host)));
      if (event.host == 0 && leader_) do_leader(leader_->tick(local(0)));
      if (lives(event.host)) push(kTick, {.kind = Kind::kTick, .host = event.host, .id = agent.id});
      break;
    case Kind::kMessage: {
      std::uint64_t& newest = newest_sent_[{event.from, event.host}];
      if (event.sent < newest) ++overtaken;
      newest = std::max(newest, event.sent);
      deliver(event.host, *event.message);
      break;
    }
    case Kind::kRankEnd:
      do_member(event.host, agent.member->ended(event.end, local(event.host)));
      break;
    case Kind::kStep:
      step();
      push(kStep, {.kind = Kind::kStep});
      break;
    case Kind::kCommit: commit(event.generation); break;
    case Kind::kAccuse:
      if (leader_)
        do_leader(leader_->accuse(
            event.generation, {.exit_code = 4, .rank = event.end.rank, .cause = "hung"}, local(0)));
      break;
    case Kind::kFault:
      if (!faulty_) break;
      fault();
      push(draw(0.2, 2.5), {.kind = Kind::kFault});
      break;
    case Kind::kRestart:
      agent.disturbed = std::max(now_, agents_[0].paused_until);
      boot(event.host);
      break;
  }
}

// A host that has begun nothing waits for a leader, which does not come where all is saved.
bool Simulation::over() const {
  return finishing_ && std::none_of(agents_.begin(), agents_.end(), [&](const Agent& agent) {
           return agent.member && (agent.member->started() > 0 || !complete() || lives(0));
         });
}

std::string Simulation::live() {
  constexpr std::uint64_t kEnough = 10;  // a second: every host has been heard
  while (violation_.empty()) {
    Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    if (now_ > kFaults) faulty_ = false;
    if (faulty_ || now_ < calm_at_) whole_commits_ = 0;
    if (!finishing_ && last_step_ == 0 && whole_commits_ >= kEnough) {
      finishing_ = true;
      spoiled_ = chance(0.1) && !agents_[0].ranks.empty();
      if (spoiled_) fail_rank(0);
    }
    if (!finishing_ && now_ > kFaults + kMended) violate("no step of all hosts after the faults");
    if (now_ > kFaults + kMended + kEnd) violate("not every host left");
    if (over()) break;
    ++events;
    if (event.id != 0) {
      Agent& agent = agents_[event.host];
      if (agent.id != event.id || !lives(event.host)) continue;
      if (event.kind == Kind::kRankEnd && !event.noticed_late &&
          (agent.ranks_of != event.generation || agent.ranks.erase(event.end.rank) == 0))
        continue;
      if (now_ < agent.paused_until) {
        // A rank's end waits to be noticed, all else in the kernel's buffers: in order, later.
        event.at = agent.paused_until + 1e-9 * static_cast<double>(event.order);
        event.noticed_late = true;
        queue_.push(std::move(event));
        continue;
      }
    }
    handle(event);
  }
  return violation_;
}

}  // namespace trireme::elastic
