// Relay: joins connections of hosts that can only dial out, in pairs, and passes on their bytes, which it cannot read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "trireme/base/os/descriptor.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic {

// The relay sends a nonce; a host answers with this, and gets one byte once another host has come with the same name and
// the other side. From then on every byte is the hosts' own.
struct RelayHello {
  std::array<char, kMacBytes> name{};  // of a job and pair
  std::uint32_t side = 0;              // 0 or 1
  std::uint32_t unused = 0;
  std::array<char, kMacBytes> proof{};  // HMAC of nonce, name and side by the relay's key
};
static_assert(sizeof(RelayHello) == 2 * kMacBytes + 8);
std::string relay_proof(const std::string& key, std::string_view nonce, const RelayHello& hello);

class Relay {
 public:
  struct Stats {
    std::int64_t pairs = 0;  // that were joined
    std::int64_t bytes = 0;  // passed on
  };

  // After how many seconds the pair of a host that is gone without a word is over. An idle connection is probed, and bytes
  // that were sent must be acknowledged. A host whose process reads nothing still acknowledges.
  struct Silence {
    int idle_s = 10, between_s = 5, probes = 4;
    double seconds() const { return idle_s + between_s * probes; }
  };

  // Listens on HOST:PORT; port 0: a free one. Throws Error{kUsage}.
  Relay(const std::string& address, std::string key, const Silence& silence);
  Relay(const std::string& address, std::string key) : Relay(address, std::move(key), Silence{}) {}
  int port() const { return port_; }
  // Until stop(), which any thread or signal handler may call.
  void run();
  void stop() { stopping_ = true; }
  Stats stats() const { return {pairs_.load(), bytes_.load()}; }

 private:
  os::Descriptor listener_;
  int port_ = 0;
  std::string key_;
  Silence silence_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> pairs_ = 0, bytes_ = 0;
};

}  // namespace trireme::elastic
