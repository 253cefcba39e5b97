// LocalWorld: ranks are threads of one process, which add and copy straight from each other's memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/comm/world.h"

namespace trireme::comm {

// State shared by the threads of a world. Outlived by the handles it gives out.
class LocalWorld {
 public:
  // A rank that waits longer than `timeout_s` seconds for another fails with Error{kPeerLost}.
  LocalWorld(int size, double timeout_s);
  ~LocalWorld();

  // The handle of one rank; each rank takes its own, once, from any thread.
  std::unique_ptr<World> rank(int rank);
  void abort(const std::string& cause);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// Runs body(world) as `size` ranks in threads of this process and joins them. If a rank throws, the world is aborted
// with its message. The first error is rethrown here, if possible one that is not the echo of another rank's failure
// (kPeerLost).
void run_local_ranks(int size, double timeout_s, const std::function<void(World&)>& body);

// The same for worlds of any kind: `join` makes the handle of a rank, in the rank's thread.
void run_ranks(int size, const std::function<void(World&)>& body,
               const std::function<std::unique_ptr<World>(int rank)>& join);

}  // namespace trireme::comm
