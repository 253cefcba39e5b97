// Rendezvous: how processes come together and learn each other's fate, through c10d's key-value store or
// the one of the agent that started them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trireme/comm/rendezvous/agent_store.h"
#include "trireme/comm/rendezvous/config.h"
#include "trireme/comm/rendezvous/herald.h"

namespace trireme::comm {

class Rendezvous {
 public:
  // Blocks until all ranks are there. Throws Error{kUsage} if rank 0 cannot listen on the port or the config is wrong.
  // Throws Error{kPeerLost} naming the missing ranks if not all arrive in time.
  explicit Rendezvous(const RendezvousConfig& config);
  // Rank 0 waits for the others (30 s at most) where it hosts the store.
  ~Rendezvous();

  const RendezvousConfig& config() const { return config_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  // The text of rank `by`, which passes it, on every rank that asks. Throws Error{kPeerLost}.
  std::string text_of(int by, const std::string& key, const std::string& text);
  // Which of the ranks say the same as each: by rank the first that does. Every rank must call it. Throws
  // Error{kPeerLost}.
  std::vector<int> ranks_by_text(const std::string& key, const std::string& mine);
  // Whether every rank says yes; every rank must call it. Throws Error{kPeerLost}.
  bool all_agree(const std::string& key, bool mine);

  // From now on causes of aborts travel; `on_cause` is called once, from any thread, at the first.
  void watch(std::function<void()> on_cause);
  void abort(const std::string& cause) { herald_->publish(cause); }
  std::optional<std::string> cause() const { return herald_ ? herald_->cause() : std::nullopt; }

  // Throws Error{kPeerLost} where the agent that started the ranks has begun a newer generation of them, is gone, or does
  // not answer from another host. An agent of this host that is stopped has begun none. Nothing where no agent has started
  // them.
  void check_current();

  // Throws Lost for the rank, after hearing what others know of it.
  [[noreturn]] void lost(int rank, double seconds, const std::string& why);
  // As lost(), where the rank kept silent for the whole timeout.
  [[noreturn]] void lost_in_silence(int rank, double seconds);

  // Ends watching and waits as the destructor does. Recomputed: nothing.
  void leave();

 private:
  void open_stores();
  void join_agent();
  void gather_ranks();
  // The world rank to blame when a wait timed out, -1 where it is the awaited one.
  int culprit(int awaited);

  RendezvousConfig config_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<AgentStore> agent_;  // the same, where an agent keeps it
  c10::intrusive_ptr<c10d::Store> herald_store_;
  std::unique_ptr<Herald> herald_;
  bool left_ = false;
};

// The first line of a LibTorch or Gloo message, without the source location in front.
std::string gist(const std::exception& error);

}  // namespace trireme::comm
