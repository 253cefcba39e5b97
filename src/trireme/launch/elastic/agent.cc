#include "trireme/launch/elastic/agent.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/os/wait.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic {
namespace {

HostId draw_host() {
  HostId id = 0;
  for (const char c : random_bytes(sizeof id)) id = id << 8 | static_cast<unsigned char>(c);
  return id | 1;
}

}  // namespace

Agent::Agent(AgentConfig config)
    : config_(std::move(config)),
      processes_(os::make_processes()),
      net_(os::make_sockets()),
      stacks_(*processes_, config_.stack_command, config_.ranks.environment),
      lookout_(config_.patience, stacks_, now()),
      standstill_(config_.standstill_s, now()),
      ticked_at_(now()) {
  Report& self = config_.member.self;
  self.host = draw_host();
  self.slots = config_.serves ? 0 : static_cast<std::uint64_t>(config_.ranks.count);
  const std::string token = config_.ranks.token;
  if (config_.leads) {
    config_.leads->own = self.host;
    server_.emplace(
        *net_, config_.endpoint, token,
        Server::Callbacks{.on_message = [this](os::ConnectionId from,
                                               Message message) { received(from, message); },
                          .on_closed = [this](os::ConnectionId client) { store_.forget(client); }},
        Server::Limits{});
    config_.endpoint = server_->address();
    leader_.emplace(*config_.leads, now());
  } else {
    link_.emplace(*net_, config_.endpoint, token,
                  [this](const Message& message) { received(0, message); });
  }
  config_.ranks.store = config_.endpoint;
  ranks_.emplace(*processes_, config_.ranks);
  member_.emplace(config_.member, now());
}

Outcome Agent::run() {
  double next = now();
  while (!done()) {
    os::wait({processes_->descriptor(), net_->descriptor()}, next - now());
    take_processes();
    take_net();
    if (now() < next) continue;
    tick();
    next = now() + config_.tick_s;
  }
  return *left_;
}

bool Agent::done() const { return left_ && !(leader_ && leader_->anybody_left()); }

void Agent::take_processes() {
  for (const os::ProcessEvent& event : processes_->take()) {
    stacks_.handle(event);
    if (event.kind == os::ProcessEvent::Kind::kSignal)
      do_member(member_->interrupt(event.signal, now()));
    else
      ranks_->handle(event, [&](const RankEnd& end) { do_member(member_->ended(end, now())); });
    deliver_own();
  }
}

void Agent::take_net() {
  for (const os::NetEvent& event : net_->take()) {
    if (server_) server_->handle(event, now());
    if (link_) link_->handle(event);
    deliver_own();
  }
}

void Agent::tick() {
  if (link_) link_->tick(now());
  if (server_) server_->tick(now());
  if (leader_) lead([&] { return leader_->tick(now()); });
  if (!left_) do_member(member_->tick(now()));
  if (config_.patience.steps > 0) look_out();
  if (leader_ && config_.patience.steps > 0) judge_silence();
  if (config_.patience.steps > 0) look_at_itself(now() - std::exchange(ticked_at_, now()));
  deliver_own();
  report_strangers();
}

void Agent::look_out() {
  std::optional<Silence> silence = lookout_.look(member_->started(), ranks_->watched(), now());
  if (!silence) return;
  silence->host = config_.member.self.host;
  if (leader_)
    hangs_.heard(*silence, now());
  else
    link_->send(*silence);
}

// A slow rank may yet continue; one that is stopped, or waits in a circle, will not.
void Agent::judge_silence() {
  const std::uint64_t generation = leader_->running();
  const auto found = hangs_.look(generation, leader_->world(), now());
  if (!found) return;
  const watch::Hang& hang = found->hang;
  if (found->fresh && config_.on_hang) {
    config_.on_hang(hang.cause, found->lines);
  }
  if (found->fresh)
    lead([&] { return leader_->suspect(generation, hang.ranks.front(), hang.op, hang.cause); });
  if (!hang.final && (!hang.in_step || found->reported_s < config_.give_up_s)) return;
  const Outcome outcome{
      .exit_code = kLost, .rank = hang.ranks.front(), .cause = hang.cause, .doing = hang.op};
  lead([&] { return leader_->accuse(generation, outcome, now()); });
}

HostView Agent::view() const {
  HostView view{.name = config_.member.self.name,
                .generation = member_->started(),
                .ranks = ranks_->watched(),
                .slept_s = slept_s_,
                .leader = "its agent leads the run"};
  if (leader_ && leader_->running() == 0) view.leader += " and waits for hosts or for ranks to end";
  if (!link_) return view;
  view.leader =
      link_->connected()
          ? fmt::format("its agent is connected to the leader at {}", print(config_.endpoint))
          : fmt::format("its agent has no connection to the leader at {} ({})",
                        print(config_.endpoint),
                        link_->trouble().empty() ? "it tries" : link_->trouble());
  return view;
}

// Any cause that delays the ranks and the process that should have noticed.
void Agent::look_at_itself(double slept_s) {
  if (member_->started() != std::exchange(slept_in_, member_->started())) slept_s_ = 0;
  slept_s_ = std::max(slept_s_, slept_s);
  if (left_) return;
  const HostView here = view();
  const auto seconds = standstill_.look(sign_of(here), now());
  if (!seconds) return;
  const std::string text = summary(here, *seconds);
  if (config_.on_note) config_.on_note(text);
  if (config_.on_hang) config_.on_hang(text, describe(here));
}

// Without a word of those that are missing the others would wait for them.
std::vector<RankEnd> Agent::start(const Assignment& assignment) {
  std::vector<RankEnd> missing;
  try {
    if (config_.on_start) config_.on_start(assignment.generation);
    ranks_->start(assignment);
  } catch (const Error& error) {
    std::set<int> there;
    for (const Watched& rank : ranks_->watched()) there.insert(rank.rank);
    for (int local = 0; local < config_.ranks.count; ++local)
      if (const int rank = static_cast<int>(assignment.first_rank) + local; !there.contains(rank))
        missing.push_back({.rank = rank, .code = exit_code(error.kind()), .cause = error.what()});
  }
  return missing;
}

void Agent::do_member(Member::Actions actions) {
  if (left_) return;
  std::vector<RankEnd> missing;
  if (actions.start) missing = start(*actions.start);
  if (actions.signal != 0) ranks_->signal(actions.signal);
  if (!actions.note.empty() && config_.on_note) config_.on_note(actions.note);
  if (actions.report && leader_)
    own_.emplace_back(std::move(*actions.report));
  else if (actions.report)
    link_->send(*actions.report);
  for (RankEnd& end : missing) do_member(member_->ended(std::move(end), now()));
  if (!actions.leave) return;
  left_ = std::move(actions.leave);
  if (link_ && left_->exit_code != 0 && !link_->trouble().empty())
    left_->cause +=
        (left_->cause.empty() ? "" : " (") + link_->trouble() + (left_->cause.empty() ? "" : ")");
}

// A disk that takes no note of a generation is a person's to mend: without a word the other hosts would wait for us.
void Agent::remember(Membership::Actions& actions) {
  if (!actions.serve || *actions.serve == 0 || !config_.remember) return;
  try {
    config_.remember(*actions.serve);
  } catch (const Error& error) {
    const std::string cause =
        fmt::format("generation {} cannot begin: {}", *actions.serve, error.what());
    Membership::Actions end =
        leader_->abandon({.exit_code = exit_code(error.kind()), .rank = -1, .cause = cause}, now());
    actions.serve = end.serve;
    actions.send = std::move(end.send);
    actions.notes = std::move(end.notes);  // not of the restart that does not come
    std::move(end.faults.begin(), end.faults.end(), std::back_inserter(actions.faults));
  }
}

// A mistake in the job may appear late, where the leader asks whether it fits. The other hosts must nevertheless be
// informed.
void Agent::lead(const std::function<Membership::Actions()>& step) {
  Membership::Actions actions;
  try {
    actions = step();
  } catch (const Error& error) {
    actions = leader_->abandon(
        {.exit_code = exit_code(error.kind()), .rank = -1, .cause = error.what()}, now());
  }
  do_leader(std::move(actions));
}

void Agent::do_leader(Membership::Actions actions) {
  remember(actions);
  if (actions.serve) reply(store_.serve(*actions.serve));
  for (Order& order : actions.send) {
    if (order.host == config_.member.self.host)
      own_.emplace_back(std::move(order));
    else if (const auto found = connection_of_.find(order.host); found != connection_of_.end())
      server_->send(found->second, order);
  }
  for (const Fault& fault : actions.faults)
    if (config_.on_fault) config_.on_fault(fault);
  for (const std::string& note : actions.notes)
    if (config_.on_note) config_.on_note(note);
}

// Leader and member of one host talk without a network, and not inside each other's calls.
void Agent::deliver_own() {
  while (!own_.empty()) {
    const Message message = std::move(own_.front());
    own_.pop_front();
    if (const auto* report = std::get_if<Report>(&message))
      lead([&] { return leader_->report(*report, now()); });
    else
      do_member(member_->order(std::get<Order>(message), now()));
  }
}

void Agent::received(os::ConnectionId from, const Message& message) {
  if (const auto* request = std::get_if<StoreRequest>(&message); request && server_) {
    reply(store_.ask(from, *request));
  } else if (const auto* report = std::get_if<Report>(&message); report && leader_) {
    connection_of_[report->host] = from;
    lead([&] { return leader_->report(*report, now()); });
  } else if (const auto* silence = std::get_if<Silence>(&message); silence && leader_) {
    hangs_.heard(*silence, now());
  } else if (const auto* order = std::get_if<Order>(&message); order && link_) {
    do_member(member_->order(*order, now()));
  }
}

void Agent::reply(const Store::Replies& replies) {
  for (const auto& [client, reply] : replies) server_->send(client, reply);
}

void Agent::report_strangers() {
  constexpr double kPause = 60;  // between two such notes
  const std::uint64_t refused = server_ ? server_->refused() : 0;
  if (refused == strangers_reported_ || now() - reported_at_ < kPause) return;
  if (config_.on_note)
    config_.on_note(
        fmt::format("{} connections to {} did not show this run's token and were closed",
                    refused - strangers_reported_, print(config_.endpoint)));
  strangers_reported_ = refused;
  reported_at_ = now();
}

}  // namespace trireme::elastic
