#include "trireme/launch/elastic/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/os/stop.h"

namespace trireme::elastic {
Membership::Membership(Config config, double now)
    : config_(std::move(config)),
      seen_at_(now),
      not_before_(now),
      generation_(config_.last_generation) {
  if (generation_ > 0) not_before_ += config_.death_s;
  TRIREME_CHECK(1 <= config_.least && config_.least <= config_.most, "{} to {} hosts",
                config_.least, config_.most);
  durable_ = reached_ = config_.progress().durable_step;
}

void Membership::wake(double now) {
  const double missed = now - seen_at_;
  seen_at_ = now;
  if (missed <= config_.pause_s) return;
  for (auto& [id, host] : hosts_) host.heard_at += missed;
  // A clock that leapt is as one that was not looked at: leases of other hosts may not have aged.
  not_before_ += missed;
}

Membership::Actions Membership::report(const Report& report, double now) {
  wake(now);
  if (report.run_id != config_.run_id) {
    const std::string cause = fmt::format("{} runs '{}', this leader '{}'; give both one --rdzv-id",
                                          report.name, report.run_id, config_.run_id);
    return {.send = {{.host = report.host,
                      .heard = report.sequence,
                      .what = Order::What::kFinish,
                      .outcome = {exit_code(ErrorKind::kUsage), -1, cause}}}};
  }
  Host& host = hosts_[report.host];
  if (report.sequence <= host.report.sequence) return {};
  if (host.report.sequence == 0) host.joined = ++joined_;
  host.report = report;
  host.heard_at = now;
  if (finished_ && report.what == Order::What::kFinish && report.host != config_.own) {
    hosts_.erase(report.host);  // it knows, and has left
    return {};
  }
  for (Part& part : parts_)
    if (part.host == report.host && phase_ != Phase::kGathering) hear(part, report, now);
  advance(now);
  return take(report.host);
}

void Membership::hear(Part& part, const Report& report, double now) {
  const bool started = report.generation == generation_;
  const bool will_not = report.ordered == generation_ && report.what > Order::What::kRun;
  if (report.ranks != Report::Ranks::kAlive && (started || will_not)) part.gone = true;
  if (!started) return;
  part.outcome = report.outcome;
  part.complete = part.gone && report.outcome.exit_code == 0;
  if (report.outcome.exit_code != 0) note(part, report.outcome, now);
}

Membership::Actions Membership::tick(double now) {
  wake(now);
  advance(now);
  make_good(now);
  return take(std::nullopt);
}

void Membership::advance(double now) {
  bury(now);
  if (finished_) return;
  if (phase_ != Phase::kGathering) {
    if (phase_ == Phase::kRunning) look_for_change(now);
    if (phase_ == Phase::kStopping && now >= kill_at_) kill();
    if (std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.gone; }))
      conclude(now);
  }
  if (!finished_ && phase_ == Phase::kGathering) gather(now);
}

// A host that is lost has killed its ranks by now: its lease was shorter.
void Membership::bury(double now) {
  for (auto it = hosts_.begin(); it != hosts_.end();) {
    if (now - it->second.heard_at <= config_.death_s || it->first == config_.own) {
      ++it;
      continue;
    }
    for (Part& part : parts_) {
      if (part.host != it->first || part.gone || phase_ == Phase::kGathering) continue;
      part.gone = true;
      const std::string cause =
          fmt::format("host {} was silent for {:.1f} s", part.name, now - it->second.heard_at);
      const int rank = static_cast<int>(part.assignment.first_rank);
      blame(part, "host lost", {kLost, rank, cause}, /*echo=*/false, now);
      kill();
    }
    it = hosts_.erase(it);
  }
}

std::vector<HostId> Membership::ready(bool servers) const {
  std::vector<std::tuple<bool, std::uint64_t, std::uint64_t, HostId>> order;
  for (const auto& [id, host] : hosts_)
    if (host.report.leaving == 0 && (host.report.slots == 0) == servers)
      order.emplace_back(id != config_.own, host.report.place, host.joined, id);
  std::sort(order.begin(), order.end());
  std::vector<HostId> ids;
  for (const auto& entry : order) ids.push_back(std::get<3>(entry));
  return ids;
}

// The most of the ready hosts that the job can have; none if that is too few.
std::vector<HostId> Membership::chosen() const {
  std::vector<HostId> ids = ready();
  for (ids.resize(std::min(ids.size(), config_.most)); ids.size() >= config_.least;
       ids.pop_back()) {
    std::uint64_t world = 0;
    for (const HostId id : ids) world += hosts_.at(id).report.slots;
    if (!config_.fits || config_.fits(world)) return ids;
    if (ids.size() == 1) break;
  }
  return {};
}

std::uint64_t Membership::own_leaving() const {
  const auto own = hosts_.find(config_.own);
  return own == hosts_.end() ? 0 : own->second.report.leaving;
}

void Membership::gather(double now) {
  if (const auto signal = static_cast<int>(own_leaving()); signal != 0)
    return finish({.exit_code = kSignalled + signal,
                   .cause = fmt::format("{} came while no rank ran; nothing new was saved",
                                        os::signal_name(signal))},
                  now);
  if (now < not_before_) return;
  for (const auto& [id, host] : hosts_)
    if (host.report.ranks == Report::Ranks::kAlive) return;
  const std::vector<HostId> hosts = chosen();
  if (hosts.empty()) return wait_for_more(ready().size(), now);
  short_since_.reset();
  if (!enough_since_) enough_since_ = now;
  // Later generations begin at once: every host that was there before is there.
  if (first_ && hosts.size() < config_.most && now - *enough_since_ < config_.gather_s) return;
  start(hosts, now);
}

void Membership::wait_for_more(std::size_t ready, double now) {
  enough_since_.reset();
  if (!short_since_) short_since_ = now;
  if (now - *short_since_ < config_.patience_s) return;
  finish({kLost, -1,
          ready >= config_.least
              ? fmt::format("the job cannot be spread over the ranks of {} to {} hosts",
                            config_.least, ready)
              : fmt::format("{} of at least {} hosts were there for {:.0f} s", ready, config_.least,
                            config_.patience_s)},
         now);
}

void Membership::start(const std::vector<HostId>& hosts, double now) {
  parts_.clear();
  std::uint64_t world = 0;
  ++generation_;
  for (const HostId id : hosts) {
    const Report& report = hosts_.at(id).report;
    parts_.push_back(
        {.host = id, .name = report.name, .assignment = {generation_, 0, world, hosts.size()}});
    world += report.slots;
  }
  const std::vector<HostId> serving = ready(true);
  for (std::size_t i = 0; i < serving.size(); ++i)
    parts_.push_back({.host = serving[i],
                      .name = hosts_.at(serving[i]).report.name,
                      .assignment = {generation_, 0, world + i, hosts.size()}});
  for (Part& part : parts_) {
    part.assignment.world = world;
    part.assignment.servers = serving.size();
  }
  phase_ = Phase::kRunning;
  what_ = Order::What::kRun;
  started_at_ = now;
  failure_.reset();
  enough_since_.reset();
  first_ = false;
  changed_ = true;
  actions_.serve = generation_;
}

// What ends a generation in which nothing failed.
void Membership::look_for_change(double now) {
  const bool leaving = std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    const auto host = hosts_.find(part.host);
    return host != hosts_.end() && host->second.report.leaving != 0;
  });
  const std::size_t count = parts_.size() - servers();
  const auto more = [&] {
    return (count < config_.most && chosen().size() > count) || ready(true).size() > servers();
  };
  const bool growth =
      now - started_at_ >= config_.settle_s && hosts_.size() > parts_.size() && more();
  if (leaving || growth) stop(Order::What::kInterrupt, now + config_.notice_s);
}

void Membership::stop(Order::What what, double kill_at) {
  kill_at_ = phase_ == Phase::kStopping ? std::min(kill_at_, kill_at) : kill_at;
  phase_ = Phase::kStopping;
  if (what <= what_) return;
  what_ = what;
  changed_ = true;
}

const Membership::Part* Membership::part_of_rank(int rank) const {
  const Part* found = nullptr;
  for (const Part& part : parts_)
    if (static_cast<int>(part.assignment.first_rank) <= rank) found = &part;
  return rank < world() ? found : nullptr;
}

std::size_t Membership::servers() const {
  return parts_.empty() ? 0 : parts_.front().assignment.servers;
}

int Membership::world() const {
  return parts_.empty() ? 0 : static_cast<int>(parts_.front().assignment.world);
}

void Membership::kill() {
  stop(Order::What::kKill, 0);
  actions_.serve = 0;
}

bool Membership::anybody_left() const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const auto& entry) { return entry.first != config_.own; });
}

const Membership::Part* Membership::part_of(HostId host) const {
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return part.host == host; });
  return found == parts_.end() ? nullptr : &*found;
}

// It was asked to leave, and no host waits for it any more.
bool Membership::released(const Host& host) const {
  const Report& report = host.report;
  if (report.leaving == 0 || report.ranks == Report::Ranks::kAlive || report.host == config_.own)
    return false;
  const Part* part = part_of(report.host);
  return phase_ == Phase::kGathering || part == nullptr || part->gone;
}

Order Membership::order_for(const Host& host) const {
  Order order{.host = host.report.host,
              .heard = host.report.sequence,
              .assignment = {.generation = generation_}};
  if (finished_) {
    order.what = Order::What::kFinish;
    order.outcome = *finished_;
  } else if (const Part* part = part_of(host.report.host)) {
    order.assignment = part->assignment;
    order.what = what_;
  }
  if (!finished_ && released(host)) {
    order.what = Order::What::kFinish;
    order.outcome = {.exit_code = kSignalled + static_cast<int>(host.report.leaving)};
  }
  return order;
}

Membership::Actions Membership::take(std::optional<HostId> reply) {
  for (const auto& [id, host] : hosts_)
    if (changed_ || id == reply) actions_.send.push_back(order_for(host));
  changed_ = false;
  return std::exchange(actions_, {});
}

}  // namespace trireme::elastic
