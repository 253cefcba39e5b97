// AgentStore: c10d's key-value store, kept by the agent that started the ranks. Every message is authenticated, and
// ranks of an older generation are refused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trireme/elastic/frame.h"
#include "trireme/elastic/messages.h"
#include "trireme/env/net.h"

namespace trireme::comm {

class AgentStore final : public c10d::Store {
 public:
  // Connects within the timeout, which also bounds every later call. Throws std::runtime_error, as all calls do.
  // `address` is as env::parse_address reads it.
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
  // LibTorch's newest asks for it.
  c10::intrusive_ptr<c10d::Store> clone();

 private:
  using Kind = elastic::StoreRequest::Kind;
  elastic::StoreReply ask(Kind kind, const std::string& key,
                          const std::vector<std::uint8_t>& value = {},
                          const std::vector<std::uint8_t>& expected = {}, std::int64_t amount = 0);
  elastic::StoreReply exchange(elastic::StoreRequest request, double seconds);
  // Handles what comes until `done`, `seconds` at most.
  template <typename Done>
  void await(double seconds, const char* what, const Done& done);

  std::string address_, token_;
  std::uint64_t generation_;
  std::mutex mutex_;
  std::unique_ptr<env::Net> net_;
  env::ConnectionId connection_ = 0;
  elastic::Session session_;
  std::uint64_t id_ = 0;
  std::string gone_;  // why no answer can come any more
  std::map<std::uint64_t, elastic::StoreReply> replies_;
};

}  // namespace trireme::comm
