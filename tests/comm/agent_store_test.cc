#include "trireme/comm/rendezvous/agent_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "trireme/elastic/launch.h"
#include "trireme/elastic/server.h"
#include "trireme/elastic/store.h"
#include "trireme/env/wait.h"

namespace trireme::comm::agent_store_test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using std::chrono::milliseconds;

// What an agent does for its ranks, in a thread.
class KeptStore {
 public:
  explicit KeptStore(std::uint64_t generation) {
    store_.serve(generation);
    thread_ = std::thread([this] { serve(); });
  }
  ~KeptStore() {
    done_ = true;
    thread_.join();
  }

  std::string address() const { return env::print(server_.address()); }
  c10::intrusive_ptr<AgentStore> open(std::uint64_t generation, int timeout_ms = 20000,
                                      const std::string& token = kToken) const {
    return c10::make_intrusive<AgentStore>(address(), token, generation, milliseconds(timeout_ms));
  }
  static constexpr char kToken[] = "a token of this test";

 private:
  void serve() {
    while (!done_) {
      env::wait({net_->descriptor()}, 0.01);
      for (const env::NetEvent& event : net_->take()) server_.handle(event, 0);
    }
  }
  void reply(const elastic::Store::Replies& replies) {
    for (const auto& [client, reply] : replies) server_.send(client, reply);
  }

  std::unique_ptr<env::Net> net_ = env::make_sockets();
  elastic::Store store_;
  elastic::Server server_{*net_,
                          {.host = elastic::fresh_name(), .local = true},
                          kToken,
                          {.on_message =
                               [this](env::ConnectionId from, const elastic::Message& message) {
                                 reply(store_.ask(from, std::get<elastic::StoreRequest>(message)));
                               },
                           .on_closed = [this](env::ConnectionId from) { store_.forget(from); }},
                          {}};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

TEST(AgentStore, DoesWhatC10dsStoresDo) {
  const KeptStore kept(5);
  const auto store = kept.open(5);
  const Bytes value = {0, 1, 255, 0};
  store->set("k", value);
  EXPECT_EQ(store->get("k"), value);
  EXPECT_TRUE(store->check({"k"}));
  EXPECT_FALSE(store->check({"k", "other"}));
  EXPECT_EQ(store->add("n", 3), 3);
  EXPECT_EQ(store->add("n", -1), 2);
  EXPECT_EQ(store->compareSet("first", {}, {7}), Bytes{7});
  EXPECT_EQ(store->compareSet("first", {}, {8}), Bytes{7});
  EXPECT_EQ(store->getNumKeys(), 3);
  EXPECT_TRUE(store->deleteKey("k"));
  EXPECT_FALSE(store->deleteKey("k"));
  store->wait({"n", "first"});
  const Bytes large(std::size_t{8} << 20, 3);
  store->set("large", large);
  EXPECT_EQ(store->get("large"), large);
}

TEST(AgentStore, WaitsForWhatAnotherSets) {
  const KeptStore kept(5);
  const auto here = kept.open(5), there = kept.open(5);
  std::thread other([&] { there->set("late", {1}); });
  EXPECT_EQ(here->get("late"), Bytes{1});
  other.join();
  EXPECT_THROW(here->wait({"never"}, milliseconds(50)), std::runtime_error);
  EXPECT_TRUE(here->check({"late"})) << "a call that gave up must not spoil the next";
}

TEST(AgentStore, RefusesStrangersAndOlderGenerations) {
  const KeptStore kept(5);
  EXPECT_THROW(kept.open(4)->set("k", {1}), std::runtime_error);
  EXPECT_THROW(kept.open(5, 20000, "some other token"), std::exception);
  EXPECT_FALSE(kept.open(5)->check({"k"}));
}

TEST(AgentStore, NobodyThereIsSaidAtOnce) {
  EXPECT_THROW(AgentStore("unix:trireme-nobody-" + std::to_string(::getpid()), "token", 1,
                          milliseconds(20000)),
               std::runtime_error);
}

}  // namespace
}  // namespace trireme::comm::agent_store_test
