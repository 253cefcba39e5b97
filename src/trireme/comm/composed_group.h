// ComposedGroup: a Group over any Transport. Its operations run one by one, in a lane (thread) of the group's own or in
// the thread that waits for them, whichever comes first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/collectives.h"
#include "trireme/comm/group.h"
#include "trireme/comm/rank_common.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

// Destroying it with operations that no thread has waited for aborts the world, because their buffers are about to be
// freed.
class ComposedGroup : public Group, private Runner {
 public:
  // `ranks` are the world ranks of the group in order; `rank` is this one's position. With `levels`,
  // collectives go host by host. Throws as Collectives.
  ComposedGroup(std::string name, std::vector<int> ranks, int rank,
                std::unique_ptr<Transport> transport, std::shared_ptr<RankCommon> common,
                const std::optional<Levels>& levels = std::nullopt,
                const algorithm::Choice& choice = {});
  ~ComposedGroup() override;
  void abort(const std::string& cause) override { transport_->abort(cause); }

 private:
  struct Job {
    Operation op;
    std::uint64_t sequence;
    Pledge pledge;
  };
  Ticket start(Operation op) override;
  void begin() override;
  void help(const std::function<bool()>& ended) override;
  std::uint64_t next_sequence(const Operation& op);
  void run_lane();
  // Runs the front job, without the lock meanwhile.
  void run_front(std::unique_lock<std::mutex>& lock);
  std::optional<Error> run(Job& job);
  Error lost(const Job& job, const Lost& lost) const;
  Error mismatch(const Mismatch& mismatch) const;
  std::string describe(const Job& job) const;

  std::vector<int> ranks_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<RankCommon> common_;
  int track_;  // of the flight record
  Collectives collectives_;
  std::uint64_t collectives_started_ = 0;
  std::vector<std::uint64_t> sends_started_;
  std::vector<std::uint64_t> recvs_started_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  bool running_ = false;  // the front one
  bool closing_ = false;
  std::thread lane_;  // exists from the first operation on that is not waited for at once
};

}  // namespace trireme::comm
