// ComposedGroup: a Group over any Transport, with one lane (thread) that runs its operations in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/collectives.h"
#include "trireme/comm/group.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

// Destroying it with operations that nobody waited for aborts the world: their buffers are about to go.
class ComposedGroup : public Group {
 public:
  // `ranks` are the world ranks of the group in order; `rank` is this one's position.
  ComposedGroup(std::string name, std::vector<int> ranks, int rank,
                std::unique_ptr<Transport> transport);
  ~ComposedGroup() override;
  void abort(const std::string& cause) override { transport_->abort(cause); }

 private:
  struct Job {
    Operation op;
    std::uint64_t sequence;
    Pledge pledge;
  };
  Ticket start(Operation op) override;
  std::uint64_t next_sequence(const Operation& op);
  void run_lane();
  void run(Job& job);
  Error lost(const Job& job, const Lost& lost) const;
  Error mismatch(const Mismatch& mismatch) const;
  std::string describe(const Job& job) const;

  std::vector<int> ranks_;
  std::unique_ptr<Transport> transport_;
  Collectives collectives_;
  std::uint64_t collectives_started_ = 0;
  std::vector<std::uint64_t> sends_started_;
  std::vector<std::uint64_t> recvs_started_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;  // the front one is running
  bool closing_ = false;
  std::thread lane_;
};

}  // namespace trireme::comm
