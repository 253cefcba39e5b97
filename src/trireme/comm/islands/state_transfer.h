// Transfer of the state of an island that trains to one that is about to start, through the leader.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/base/os/address.h"
#include "trireme/launch/islands/messages.h"

namespace trireme::comm {

struct StateTransfer {
  os::Address leader{};
  std::string token{};
  Path incoming{};         // directory of what has arrived, which continues after a restart
  Path checkpoints{};      // where the checkpoint then is, as step-N
  double patience_s = 20;  // without a chunk, or without the leader
  const std::atomic<int>* asked = nullptr;                      // nonzero: stop
  std::function<std::string(const islands::State&)> refuses{};  // why it is not taken, or ""
  std::function<void(const std::string&)> on_note = [](const std::string&) {};
};

// The checkpoint that the island took. Nothing where the leader has none that is newer than the island's own, or does not
// answer: the island then takes means. Throws Error{kData} where the disk fails.
std::optional<Path> take_state(const StateTransfer& transfer, const islands::Seek& seek);

}  // namespace trireme::comm
