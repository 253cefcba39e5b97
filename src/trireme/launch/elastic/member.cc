#include "trireme/launch/elastic/member.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::elastic {
namespace {

std::pair<std::uint64_t, Order::What> height(const Order& order) {
  // The end of the run is above all generations.
  const bool last = order.what == Order::What::kFinish;
  return {last ? ~std::uint64_t{0} : order.assignment.generation, order.what};
}

}  // namespace

Member::Member(Config config, double now)
    : config_(std::move(config)), heard_at_(now), seen_at_(now) {}

void Member::wake(double now) {
  // Without the part that may have been no pause: several in a row must not make a lease longer.
  if (now - seen_at_ > config_.pause_s) heard_at_ += now - seen_at_ - config_.heartbeat_s;
  seen_at_ = now;
}

Member::Actions Member::order(const Order& order, double now) {
  wake(now);
  if (order.host != config_.self.host) return {};
  while (!unheard_.empty() && unheard_.front().first <= order.heard) {
    sure_at_ = unheard_.front().second;
    heard_at_ = std::max(heard_at_, sure_at_);
    unheard_.pop_front();
  }
  if (height(order) > height(current_)) current_ = order;
  return act(now);
}

Member::Actions Member::ended(RankEnd end, double now) {
  wake(now);
  end.by_us = killed_;
  end.at_s = now - started_at_;
  unbegun_ = unbegun_ || (interrupt_ != 0 && end.signal == interrupt_);
  ends_.push_back(end);
  --alive_;
  return act(now);
}

Member::Actions Member::interrupt(int signal, double now) {
  wake(now);
  const os::StopRequest::Means means = stop_.take(signal, now);
  Actions actions = act(now);
  if (means == os::StopRequest::Means::kSave) actions.note = stop_.note();
  return actions;
}

Member::Actions Member::tick(double now) {
  wake(now);
  return act(now);
}

// The signal that the ranks should have by now.
int Member::signal_wanted(double now) const {
  const bool overtaken = current_.assignment.generation > started_;
  if (stop_.at_once() || unbegun_ || overtaken || current_.what >= Order::What::kKill ||
      deserted(now))
    return SIGKILL;
  if (stop_.signal() != 0) return stop_.signal();
  return current_.what == Order::What::kInterrupt ? SIGTERM : 0;
}

void Member::follow(Actions& actions, double now) {
  if (alive_ > 0) {
    const int wanted = signal_wanted(now);
    if (wanted == 0 || killed_ || wanted == interrupt_ || (interrupt_ != 0 && wanted != SIGKILL))
      return;
    actions.signal = wanted;
    if (wanted == SIGKILL)
      killed_ = true;
    else
      interrupt_ = wanted;
    return;
  }
  if (current_.what == Order::What::kFinish) {
    actions.leave = current_.outcome;
  } else if (stop_.signal() != 0 && deserted(now)) {
    actions.leave = Outcome{.exit_code = kSignalled + stop_.signal()};
  } else if (started_ > 0 && deserted(now) && config_.complete()) {
    actions.leave = Outcome{};
  } else if (now - heard_at_ > config_.patience_s) {
    actions.leave =
        Outcome{kLost, -1,
                fmt::format("{}: no word from the leader for {:.0f} s; is its agent running?",
                            config_.self.name, now - heard_at_)};
  } else if (current_.what == Order::What::kRun && current_.assignment.generation > started_ &&
             stop_.signal() == 0 && now - sure_at_ <= config_.lease_s) {
    started_ = current_.assignment.generation;
    started_at_ = now;
    heard_at_ = sure_at_;  // nothing ran that a pause could excuse
    alive_ = std::max<std::uint64_t>(config_.self.slots, 1);  // a reduction server is one process
    interrupt_ = 0;
    killed_ = unbegun_ = false;
    ends_.clear();
    actions.start = current_.assignment;
  }
}

Outcome Member::outcome() const {
  Outcome outcome = judge(ends_, interrupt_);
  if (outcome.exit_code == os::kEndedUnsaved && stop_.at_once())
    outcome.cause = "a further SIGINT ended the run at once, without saving";
  return outcome;
}

Report Member::report() const {
  Report report = config_.self;
  report.sequence = sequence_ + 1;
  report.generation = started_;
  report.ranks = started_ == 0 ? Report::Ranks::kNone
                 : alive_ > 0  ? Report::Ranks::kAlive
                               : Report::Ranks::kGone;
  report.ordered = current_.assignment.generation;
  report.what = current_.what;
  report.outcome = outcome();
  report.leaving = static_cast<std::uint64_t>(stop_.signal());
  return report;
}

Member::Actions Member::act(double now) {
  Actions actions;
  follow(actions, now);
  Report next = report();
  last_.sequence = next.sequence;
  if (next != last_ || actions.leave || now - reported_at_ >= config_.heartbeat_s) {
    constexpr std::size_t kMost = 64;  // far more than a lease's worth
    unheard_.emplace_back(++sequence_, now);
    if (unheard_.size() > kMost) unheard_.pop_front();
    reported_at_ = now;
    last_ = next;
    actions.report = std::move(next);
  }
  return actions;
}

}  // namespace trireme::elastic
