// Faults in a generation: the blamed rank or host, the consequence, and the repair.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/os/stop.h"
#include "trireme/launch/elastic/membership.h"

namespace trireme::elastic {
namespace {

// Said of a rank that failed because another did, most likely.
bool is_echo(const Outcome& outcome) { return outcome.exit_code == kLost && outcome.signal == 0; }

// Whether the same command may do better: not where a person must decide.
bool may_restart(const Outcome& outcome) {
  for (const ErrorKind kind :
       {ErrorKind::kUsage, ErrorKind::kData, ErrorKind::kNonFinite, ErrorKind::kOutOfMemory})
    if (outcome.exit_code == exit_code(kind)) return false;
  return true;
}

std::string told(const Outcome& outcome) {
  if (!outcome.cause.empty()) return outcome.cause;
  return fmt::format("rank {} ended with exit code {}", outcome.rank, outcome.exit_code);
}

}  // namespace

Membership::Actions Membership::suspect(std::uint64_t generation, int rank, const std::string& op,
                                        const std::string& cause) {
  const Part* const part = part_of_rank(rank);
  if (generation != running() || part == nullptr) return {};
  actions_.notes.push_back(cause);
  actions_.faults.push_back({.kind = "rank silent",
                             .rank = rank,
                             .host = part->name,
                             .step = config_.progress().last_step + 1,
                             .op = op,
                             .generation = generation_,
                             .cause = cause,
                             .action = "report"});
  return take(std::nullopt);
}

Membership::Actions Membership::accuse(std::uint64_t generation, const Outcome& outcome,
                                       double now) {
  wake(now);
  const Part* const part = part_of_rank(outcome.rank);
  if (generation != running() || part == nullptr) return {};
  blame(*part, "rank hung", outcome, /*echo=*/false, now);
  kill();
  advance(now);
  return take(std::nullopt);
}

Membership::Actions Membership::abandon(const Outcome& outcome, double now) {
  if (finished_) return take(std::nullopt);
  // The last fault's restart did not come, unless a rank of a later generation has begun.
  if (!unmended_.empty()) {
    Fault& last = unmended_.back().first;
    const bool begun =
        last.generation < generation_ && std::any_of(hosts_.begin(), hosts_.end(), [&](auto& host) {
          return host.second.report.generation == generation_;
        });
    if (!begun) last.action = "stop";
  }
  finish(outcome, now);
  return take(std::nullopt);
}

void Membership::note(const Part& part, const Outcome& outcome, double now) {
  const bool interrupted = outcome.exit_code > kSignalled && outcome.signal == 0;
  if (interrupted && (phase_ == Phase::kStopping || own_leaving() != 0)) return;
  const char* kind = interrupted           ? "rank interrupted"
                     : outcome.signal != 0 ? "rank killed"
                                           : "rank failed";
  const bool echo = is_echo(outcome);
  blame(part, kind, outcome, echo, now);
  const double grace = echo ? std::max(config_.grace_s, config_.echo_s) : config_.grace_s;
  // The interrupted host saves; the others are to do so too.
  if (interrupted)
    stop(Order::What::kInterrupt, now + config_.notice_s);
  else if (phase_ != Phase::kStopping || !echo)
    stop(what_, now + grace);
}

// The first failure of a generation is its cause, unless it was an echo.
void Membership::blame(const Part& part, const char* kind, const Outcome& outcome, bool echo,
                       double now) {
  if (failure_ && (echo || !echo_)) return;
  const bool replaces = failure_.has_value();
  failure_ = outcome;
  echo_ = echo;
  const Part* const home = part_of_rank(outcome.rank);
  Fault fault{.kind = kind,
              .rank = outcome.rank,
              .host = home == nullptr ? part.name : home->name,
              .step = config_.progress().last_step + 1,
              .op = outcome.doing,
              .generation = generation_,
              .cause = told(outcome)};
  if (replaces)
    unmended_.back().first = std::move(fault);
  else
    unmended_.emplace_back(std::move(fault), now);
}

void Membership::conclude(double now) {
  actions_.serve = 0;
  phase_ = Phase::kGathering;
  what_ = Order::What::kKill;
  changed_ = true;
  if (failure_) return restart_or_finish(now);
  if (std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.complete; }))
    return finish({}, now);
  // After an ordered interrupt of the leader's host the run ends; else it continues with the present hosts.
  if (own_leaving() == 0) return;
  // Nothing is saved where one host's part of it is not.
  const auto worst = std::ranges::max_element(parts_, {}, [](const Part& part) {
    return part.outcome.exit_code == os::kEndedUnsaved ? 2 : part.outcome.exit_code != 0 ? 1 : 0;
  });
  if (worst != parts_.end() && worst->outcome.exit_code != 0) finish(worst->outcome, now);
}

void Membership::restart_or_finish(double now) {
  const Progress progress = config_.progress();
  const std::int64_t newest = std::max(progress.durable_step, progress.memory_step);
  // Fewer, after a return from a spike of the loss. Steps in memory may be lost and repeated.
  const bool other = progress.durable_step != durable_;
  if (other || newest > reached_) restarts_ = 0;
  reached_ = other ? newest : std::max(newest, reached_);
  durable_ = progress.durable_step;
  if (may_restart(*failure_) && config_.complete()) {
    actions_.notes.push_back(told(*failure_) + "; all was saved before");
    return finish({}, now);
  }
  ++restarts_;
  const bool restarted =
      may_restart(*failure_) && own_leaving() == 0 && restarts_ <= config_.max_restarts;
  unmended_.back().first.action = restarted ? "restart" : "stop";
  if (restarted) {
    actions_.notes.push_back(
        fmt::format("{}; restarting from step {}{}", told(*failure_), newest,
                    newest > durable_ ? fmt::format(" in memory, or {} on disk", durable_) : ""));
    return;
  }
  Outcome outcome = *failure_;
  if (may_restart(outcome) && config_.max_restarts > 0 && own_leaving() == 0) {
    outcome.exit_code = kLost;
    outcome.cause = fmt::format(
        "{}, in step {}; {} restarts since the checkpoint of step {} brought no newer one",
        told(outcome), unmended_.back().first.step, config_.max_restarts, reached_);
  }
  finish(outcome, now);
}

void Membership::finish(const Outcome& outcome, double now) {
  finished_ = outcome;
  changed_ = true;
  actions_.serve = 0;
  for (auto& [fault, since] : std::exchange(unmended_, {})) {
    fault.lost_s = now - since;
    if (fault.action.empty()) fault.action = "stop";
    actions_.faults.push_back(std::move(fault));
  }
}

void Membership::make_good(double now) {
  constexpr double kLook = 0.5;  // looking means reading files
  if (unmended_.empty() || phase_ != Phase::kRunning || now - looked_at_ < kLook) return;
  looked_at_ = now;
  const std::int64_t step = config_.progress().last_step;
  std::erase_if(unmended_, [&](auto& entry) {
    auto& [fault, since] = entry;
    if (fault.generation == generation_ || step < fault.step) return false;
    fault.lost_s = now - since;
    actions_.faults.push_back(std::move(fault));
    return true;
  });
}

}  // namespace trireme::elastic
