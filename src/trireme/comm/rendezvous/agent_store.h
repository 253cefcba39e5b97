// AgentStore: c10d's key-value store, kept by the agent that started the ranks. Its connection is under TLS, and
// ranks of an older generation are refused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trireme/base/os/net.h"
#include "trireme/launch/elastic/frame.h"
#include "trireme/launch/elastic/messages.h"

namespace trireme::comm {

// The agent is there, as far as the kernel knows, and does not answer: its process is stopped, or its host is cut off.
class AgentSilent final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class AgentStore final : public c10d::Store {
 public:
  // Connects within the timeout, which also bounds every later call. It retries if the connection ends before both
  // sides have shown the token, because strangers may push it out; it does not retry if nothing listens. Throws
  // std::runtime_error, as all calls do. `address` is as os::parse_address reads it.
  AgentStore(std::string address, std::string token, std::uint64_t generation,
             std::chrono::milliseconds timeout);

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  // Throws std::runtime_error where the generation is over or the agent is gone, AgentSilent where it does not answer
  // within so many seconds.
  void check_generation(double seconds);
  // Whether it is an agent of this host. Only that agent begins newer generations here, and only when all ranks have ended.
  bool local() const { return local_; }
  // LibTorch's newest asks for it.
  c10::intrusive_ptr<c10d::Store> clone();

 private:
  using Kind = elastic::StoreRequest::Kind;
  elastic::StoreReply ask(Kind kind, const std::string& key,
                          const std::vector<std::uint8_t>& value = {},
                          const std::vector<std::uint8_t>& expected = {}, std::int64_t amount = 0);
  elastic::StoreReply exchange(elastic::StoreRequest request, double seconds);
  void connect(double seconds);
  // Handles what comes until `done`, or until no answer can come any more, `seconds` at most.
  template <typename Done>
  void handle_until(double seconds, const Done& done);
  void handle(const os::NetEvent& event);
  std::string why_gone() const;

  std::string address_, token_;
  elastic::Sessions sessions_;
  std::uint64_t generation_;
  bool local_ = false;
  std::mutex mutex_;
  std::unique_ptr<os::Net> net_;
  os::ConnectionId connection_ = 0;
  std::optional<elastic::Session> session_;
  std::uint64_t id_ = 0;
  std::optional<os::NetEvent> gone_;  // how the connection ended
  std::map<std::uint64_t, elastic::StoreReply> replies_;
};

}  // namespace trireme::comm
