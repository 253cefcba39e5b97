// GlooLink: one process's connection to all others through c10d; where LibTorch's versions differ.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trireme/comm/gloo/gloo_world.h"
#include "trireme/comm/gloo/herald.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

class GlooLink {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  // As connect_gloo.
  explicit GlooLink(const GlooConfig& config);
  ~GlooLink();

  // Post bytes to or from a world rank; messages with one tag of one pair keep their order. The
  // memory must stay until wait() ended, or until the work is destroyed, which takes it back.
  // `position` is the rank's place in its group, for the Lost that all three may throw.
  Work send(int rank, int tag, const std::byte* data, std::size_t bytes, int position);
  Work recv(int rank, int tag, std::byte* data, std::size_t bytes, int position);
  // Blocks until posted work is done.
  void wait(const Work& work, int rank, int position);

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  // The first of four tags for a group: equal on all its ranks without a round through the store.
  int claim_tag(const std::string& key);

  void abort(const std::string& cause) { herald_->publish(cause); }
  std::optional<std::string> cause() const { return herald_->cause(); }

 private:
  void open_stores();
  void gather_ranks();
  void connect_ranks();
  void wake_all();
  // The world rank to blame when a wait timed out, -1 where it is the awaited one.
  int culprit(int awaited);
  [[noreturn]] void lost(int rank, int position, double seconds, const std::string& why);

  GlooConfig config_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> herald_store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> process_group_;
  std::mutex post_mutex_;
  std::set<int> tags_;
  std::mutex waiting_mutex_;
  std::set<c10d::Work*> waiting_;
  std::unique_ptr<Herald> herald_;
};

// A host-memory group over the link; arguments as World::open.
std::unique_ptr<Group> open_gloo_group(std::shared_ptr<GlooLink> link,
                                       std::shared_ptr<Postponed> postponed,
                                       const std::string& name, const std::string& key,
                                       const std::vector<int>& ranks, int rank);

}  // namespace trireme::comm
