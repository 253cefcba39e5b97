#include "trireme/comm/composed_group.h"

#include <algorithm>
#include <utility>

namespace trireme::comm {
namespace {

// Operations that are worth a lane's attention at once: large ones, and those with only one other rank, which may not
// wait for it until later.
bool prompt(const Operation& op) {
  const bool pair = op.verb == Verb::kSend || op.verb == Verb::kRecv;
  return pair || op.bytes() > kSmallBytes;
}

std::string spell(const Stamp& stamp) {
  std::string text = fmt::format("{} #{}", name(stamp.verb), stamp.sequence);
  if (stamp.verb == Verb::kAllReduce || stamp.verb == Verb::kReduceScatter)
    text += fmt::format(" {}", name(stamp.reduce));
  if (stamp.verb == Verb::kBroadcast) text += fmt::format(" from {}", stamp.root);
  if (stamp.algorithm != 0)
    text += fmt::format(" by {}", algorithm::name(static_cast<algorithm::Kind>(stamp.algorithm)));
  if (stamp.verb != Verb::kBarrier)
    text += fmt::format(" of {} {} (this message {} bytes)", stamp.count, name(stamp.type),
                        stamp.bytes);
  return stamp.line < 0 ? text : text + fmt::format(", line {} of its plan", stamp.line);
}

}  // namespace

ComposedGroup::ComposedGroup(std::string name, std::vector<int> ranks, int rank,
                             std::unique_ptr<Transport> transport,
                             std::shared_ptr<RankCommon> common,
                             const std::optional<Levels>& levels, const algorithm::Choice& choice)
    : Group(std::move(name), rank, static_cast<int>(ranks.size())),
      ranks_(std::move(ranks)),
      transport_(std::move(transport)),
      common_(std::move(common)),
      track_(common_->flight->make_track(this->name(), ranks_)),
      collectives_(*transport_, ranks_, rank, levels, choice),
      sends_started_(ranks_.size()),
      recvs_started_(ranks_.size()) {
  transport_->record_in(*common_->flight, track_);
}

ComposedGroup::~ComposedGroup() {
  common_->postponed.replace(nullptr, this);
  std::unique_lock lock(mutex_);
  if (!queue_.empty())
    transport_->abort(fmt::format("rank {} left group '{}' with {} unfinished operation(s)",
                                  ranks_[rank()], name(), queue_.size()));
  closing_ = true;
  changed_.notify_all();
  if (lane_.joinable()) {
    lock.unlock();
    lane_.join();
    lock.lock();
  }
  while (!queue_.empty()) run_front(lock);  // which fails them
}

Ticket ComposedGroup::start(Operation op) {
  std::unique_lock lock(mutex_);
  const bool wait = queue_.empty() && !prompt(op);
  op.line = common_->flight->line();
  const std::uint64_t sequence = next_sequence(op);
  queue_.push_back({std::move(op), sequence, Pledge(this, common_->flight)});
  Ticket ticket = queue_.back().pledge.ticket();
  lock.unlock();
  common_->postponed.replace(wait ? this : nullptr, this);
  if (!wait) begin();
  return ticket;
}

void ComposedGroup::begin() {
  std::lock_guard lock(mutex_);
  if (queue_.empty()) return;
  if (!lane_.joinable()) lane_ = std::thread([this] { run_lane(); });
  changed_.notify_all();
}

void ComposedGroup::help(const std::function<bool()>& ended) {
  common_->postponed.replace(nullptr, this);
  std::unique_lock lock(mutex_);
  while (!running_ && !queue_.empty() && !ended()) run_front(lock);
  const bool left = !running_ && !queue_.empty();
  lock.unlock();
  if (left) begin();
}

std::uint64_t ComposedGroup::next_sequence(const Operation& op) {
  const auto peer = static_cast<std::size_t>(op.peer);
  if (op.verb == Verb::kSend) return sends_started_[peer]++;
  if (op.verb == Verb::kRecv) return recvs_started_[peer]++;
  return collectives_started_++;
}

void ComposedGroup::run_lane() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || (!running_ && !queue_.empty()); });
    if (running_ || queue_.empty()) return;
    run_front(lock);
  }
}

void ComposedGroup::run_front(std::unique_lock<std::mutex>& lock) {
  Job& job = queue_.front();
  running_ = true;
  lock.unlock();
  const std::optional<Error> error = run(job);
  if (error) transport_->abort(error->what());
  lock.lock();
  Job finished = std::move(queue_.front());
  queue_.pop_front();
  running_ = false;
  lock.unlock();
  // Last, so that a group whose tickets were all waited for has an empty queue.
  error ? finished.pledge.fail(*error) : finished.pledge.keep();
  lock.lock();
}

std::optional<Error> ComposedGroup::run(Job& job) {
  if (const auto cause = transport_->cause())
    return Error(ErrorKind::kPeerLost, fmt::format("{} not started: {}", describe(job), *cause));
  const Operation& op = job.op;
  const bool pair = op.verb == Verb::kSend || op.verb == Verb::kRecv;
  const watch::Underway underway(*common_->flight, track_,
                                 {.what = comm::name(op.verb),
                                  .sequence = job.sequence,
                                  .bytes = op.bytes(),
                                  .peer = pair ? ranks_[op.peer] : watch::kAllMembers,
                                  .line = op.line});
  try {
    collectives_.run(op, job.sequence);
    return std::nullopt;
  } catch (const Lost& e) {
    return lost(job, e);
  } catch (const Mismatch& e) {
    return mismatch(e);
  } catch (const Error& e) {
    return e;
  } catch (const std::exception& e) {
    return Error(ErrorKind::kInternal, fmt::format("{}: {}", describe(job), e.what()));
  }
}

Error ComposedGroup::lost(const Job& job, const Lost& lost) const {
  // Another rank may know better: what this one saw is then only the echo.
  if (const auto cause = transport_->cause())
    return Error(ErrorKind::kPeerLost,
                 fmt::format("{} stopped while waiting for rank {} ({:.1f} s): {}", describe(job),
                             lost.rank, lost.seconds, *cause));
  common_->flight->lose(lost.culprit >= 0 ? lost.culprit : lost.rank);
  if (lost.culprit >= 0)
    return Error(
        ErrorKind::kPeerLost,
        fmt::format("{} lost rank {} after {:.1f} s: {}; rank {}, the next to answer, runs "
                    "and waits as well",
                    describe(job), lost.culprit, lost.seconds, lost.why, lost.rank));
  return Error(ErrorKind::kPeerLost, fmt::format("{} lost rank {} after {:.1f} s: {}",
                                                 describe(job), lost.rank, lost.seconds, lost.why));
}

Error ComposedGroup::mismatch(const Mismatch& m) const {
  return Error(
      ErrorKind::kInternal,
      fmt::format("group '{}': rank {} runs {} but rank {} runs {}; every rank must submit the "
                  "same operations in the same order",
                  name(), ranks_[rank()], spell(m.mine), m.rank, spell(m.theirs)));
}

std::string ComposedGroup::describe(const Job& job) const {
  return fmt::format("rank {}: {} #{} of group '{}' ({} bytes)", ranks_[rank()],
                     comm::name(job.op.verb), job.sequence, name(), job.op.bytes());
}

}  // namespace trireme::comm
