#include "trireme/comm/composed_group.h"

#include <algorithm>
#include <utility>

namespace trireme::comm {
namespace {

std::string spell(const Stamp& stamp) {
  std::string text = fmt::format("{} #{}", name(stamp.verb), stamp.sequence);
  if (stamp.verb == Verb::kAllReduce || stamp.verb == Verb::kReduceScatter)
    text += fmt::format(" {}", name(stamp.reduce));
  if (stamp.verb == Verb::kBroadcast) text += fmt::format(" from {}", stamp.root);
  if (stamp.verb == Verb::kBarrier) return text;
  return text + fmt::format(" of {} {} (this message {} bytes)", stamp.count, name(stamp.type),
                            stamp.bytes);
}

}  // namespace

ComposedGroup::ComposedGroup(std::string name, std::vector<int> ranks, int rank,
                             std::unique_ptr<Transport> transport)
    : Group(std::move(name), rank, static_cast<int>(ranks.size())),
      ranks_(std::move(ranks)),
      transport_(std::move(transport)),
      collectives_(*transport_, rank, size()),
      sends_started_(ranks_.size()),
      recvs_started_(ranks_.size()) {
  if (size() > 1) lane_ = std::thread([this] { run_lane(); });
}

ComposedGroup::~ComposedGroup() {
  if (!lane_.joinable()) return;
  std::size_t unfinished = 0;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    unfinished = queue_.size();
    changed_.notify_all();
  }
  if (unfinished > 0)
    transport_->abort(fmt::format("rank {} left group '{}' with {} unfinished operation(s)",
                                  ranks_[static_cast<std::size_t>(rank())], name(), unfinished));
  lane_.join();
}

Ticket ComposedGroup::start(Operation op) {
  std::unique_lock lock(mutex_);
  const std::uint64_t sequence = next_sequence(op);
  queue_.push_back({std::move(op), sequence, {}});
  Ticket ticket = queue_.back().pledge.ticket();
  lock.unlock();
  changed_.notify_one();
  return ticket;
}

std::uint64_t ComposedGroup::next_sequence(const Operation& op) {
  const auto peer = static_cast<std::size_t>(op.peer);
  if (op.verb == Verb::kSend) return sends_started_[peer]++;
  if (op.verb == Verb::kRecv) return recvs_started_[peer]++;
  return collectives_started_++;
}

void ComposedGroup::run_lane() {
  for (;;) {
    Job* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      job = &queue_.front();
    }
    std::optional<Error> error;
    try {
      run(*job);
    } catch (const Lost& e) {
      error = lost(*job, e);
    } catch (const Mismatch& e) {
      error = mismatch(e);
    } catch (const Error& e) {
      error = e;
    } catch (const std::exception& e) {
      error = Error(ErrorKind::kInternal, fmt::format("{}: {}", describe(*job), e.what()));
    }
    if (error) transport_->abort(error->what());
    Job finished = [&] {
      std::lock_guard lock(mutex_);
      Job front = std::move(queue_.front());
      queue_.pop_front();
      return front;
    }();
    // Last, so that a group whose tickets were all waited for has an empty queue.
    error ? finished.pledge.fail(*error) : finished.pledge.keep();
  }
}

void ComposedGroup::run(Job& job) {
  if (const auto cause = transport_->cause())
    fail(ErrorKind::kPeerLost, "{} not started: {}", describe(job), *cause);
  collectives_.run(job.op, job.sequence);
}

Error ComposedGroup::lost(const Job& job, const Lost& lost) const {
  const int peer = ranks_[static_cast<std::size_t>(lost.peer)];
  // Another rank may know better: what this one saw is then only the echo.
  if (const auto cause = transport_->cause())
    return Error(ErrorKind::kPeerLost,
                 fmt::format("{} stopped while waiting for rank {} ({:.1f} s): {}", describe(job),
                             peer, lost.seconds, *cause));
  if (lost.culprit >= 0)
    return Error(
        ErrorKind::kPeerLost,
        fmt::format("{} lost rank {} after {:.1f} s: {}; rank {}, the next to answer, runs "
                    "and waits as well",
                    describe(job), lost.culprit, lost.seconds, lost.why, peer));
  return Error(ErrorKind::kPeerLost, fmt::format("{} lost rank {} after {:.1f} s: {}",
                                                 describe(job), peer, lost.seconds, lost.why));
}

Error ComposedGroup::mismatch(const Mismatch& m) const {
  return Error(
      ErrorKind::kInternal,
      fmt::format("group '{}': rank {} runs {} but rank {} runs {}; every rank must submit the "
                  "same operations in the same order",
                  name(), ranks_[static_cast<std::size_t>(rank())], spell(m.mine),
                  ranks_[static_cast<std::size_t>(m.peer)], spell(m.theirs)));
}

std::string ComposedGroup::describe(const Job& job) const {
  return fmt::format("rank {}: {} #{} of group '{}' ({} bytes)",
                     ranks_[static_cast<std::size_t>(rank())], comm::name(job.op.verb),
                     job.sequence, name(),
                     static_cast<std::size_t>(job.op.count()) * size_of(job.op.type));
}

}  // namespace trireme::comm
