// GlooLink: one process's connection to all others through c10d; where LibTorch's versions differ.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trireme/comm/network.h"
#include "trireme/comm/rank_common.h"
#include "trireme/comm/rendezvous/rendezvous.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

class GlooLink {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  // As connect_gloo; Error{kInternal} in a process that SIGPIPE would end.
  explicit GlooLink(std::shared_ptr<Rendezvous> rendezvous);
  ~GlooLink();

  // Post bytes to or from a world rank; messages with one tag of one pair keep their order. The
  // memory must stay until wait() ended, or until the work is destroyed, which takes it back. All
  // three throw Lost.
  Work send(int rank, int tag, const std::byte* data, std::size_t bytes);
  Work recv(int rank, int tag, std::byte* data, std::size_t bytes);
  // Blocks until work posted with the rank is done.
  void wait(const Work& work, int rank);
  std::int64_t bytes_sent() const { return bytes_sent_; }

  const c10::intrusive_ptr<c10d::Store>& store() const { return rendezvous_->store(); }

  // The first of four tags for a group: equal on all its ranks without a round through the store.
  int claim_tag(const std::string& key);

  void abort(const std::string& cause) { rendezvous_->abort(cause); }
  std::optional<std::string> cause() const { return rendezvous_->cause(); }
  void check_current() { rendezvous_->check_current(); }
  const RendezvousConfig& config() const { return config_; }

 private:
  void wake_all();

  std::shared_ptr<Rendezvous> rendezvous_;
  const RendezvousConfig& config_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> process_group_;
  std::mutex post_mutex_;
  std::atomic<std::int64_t> bytes_sent_ = 0;
  std::set<int> tags_;
  std::mutex waiting_mutex_;
  std::set<c10d::Work*> waiting_;
};

std::shared_ptr<Network> make_gloo_network(std::shared_ptr<GlooLink> link);

}  // namespace trireme::comm
