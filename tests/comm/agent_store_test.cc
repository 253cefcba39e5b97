#include "trireme/comm/rendezvous/agent_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/os/wait.h"
#include "trireme/comm/rendezvous/rendezvous.h"
#include "trireme/launch/elastic/launch.h"
#include "trireme/launch/elastic/server.h"
#include "trireme/launch/elastic/store.h"

namespace trireme::comm::agent_store_test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using std::chrono::milliseconds;

// What an agent does for its ranks, in a thread.
class KeptStore {
 public:
  // The first `refused` connections end before anything was said, as those that strangers push out.
  explicit KeptStore(std::uint64_t generation, int refused = 0) : refused_(refused) {
    store_.serve(generation);
    thread_ = std::thread([this] { serve(); });
  }
  ~KeptStore() {
    done_ = true;
    thread_.join();
  }

  // The agent is stopped, or goes on.
  void stop(bool stopped) { stopped_ = stopped; }
  void serve_generation(std::uint64_t generation) { next_ = generation; }
  std::string address() const { return os::print(server_.address()); }
  c10::intrusive_ptr<AgentStore> open(std::uint64_t generation, int timeout_ms = 20000,
                                      const std::string& token = kToken) const {
    return c10::make_intrusive<AgentStore>(address(), token, generation, milliseconds(timeout_ms));
  }
  static constexpr char kToken[] = "a token of this test";

 private:
  void serve() {
    while (!done_) {
      if (const std::uint64_t next = next_.exchange(0)) reply(store_.serve(next));
      os::wait({net_->descriptor()}, 0.01);
      if (stopped_) continue;
      for (const os::NetEvent& event : net_->take())
        if (event.kind == os::NetEvent::Kind::kAccepted && refused_-- > 0)
          net_->close(event.connection);
        else
          server_.handle(event, 0);
    }
  }
  void reply(const elastic::Store::Replies& replies) {
    for (const auto& [client, reply] : replies) server_.send(client, reply);
  }

  std::unique_ptr<os::Net> net_ = os::make_sockets();
  std::atomic<int> refused_;
  elastic::Store store_;
  elastic::Server server_{*net_,
                          {.host = elastic::fresh_name(), .local = true},
                          kToken,
                          {.on_message =
                               [this](os::ConnectionId from, const elastic::Message& message) {
                                 reply(store_.ask(from, std::get<elastic::StoreRequest>(message)));
                               },
                           .on_closed = [this](os::ConnectionId from) { store_.forget(from); }},
                          {}};
  std::atomic<bool> done_{false}, stopped_{false};
  std::atomic<std::uint64_t> next_{0};  // generation; 0: as before
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
  EXPECT_THROW(kept.open(5, 500, "some other token"), std::exception);
  EXPECT_FALSE(kept.open(5)->check({"k"}));
}

TEST(AgentStore, ConnectsAgainWhereStrangersHavePushedItOut) {
  const KeptStore kept(5, 6);
  const auto store = kept.open(5);
  store->set("k", {1});
  EXPECT_TRUE(store->check({"k"}));
}

TEST(AgentStore, SaysHowOftenItHasTried) {
  const KeptStore kept(5, 1000);
  try {
    kept.open(5, 300);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                ::testing::ContainsRegex("within 0.3 s \\([0-9]+ attempts\\): it closed"));
  }
}

// A checkpoint is committed while the agent is stopped: only the agent could have begun a newer generation.
TEST(AgentStore, AStoppedAgentOfThisHostHoldsUpNoCommit) {
  KeptStore kept(5);
  Rendezvous rank({.agent = kept.address(), .agent_token = KeptStore::kToken, .generation = 5});
  rank.check_current();
  kept.stop(true);
  const Stopwatch watch;
  rank.check_current();
  EXPECT_LT(watch.seconds(), 20);
  kept.stop(false);
  rank.check_current();
  kept.serve_generation(6);
  bool over = false;
  for (int look = 0; look < 1000 && !over; ++look) {
    try {
      rank.check_current();
      std::this_thread::sleep_for(milliseconds(10));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("generation 5 of this run's ranks is over"));
      over = true;
    }
  }
  EXPECT_TRUE(over);
}

TEST(AgentStore, NobodyThereIsSaidAtOnce) {
  EXPECT_THROW(AgentStore("unix:trireme-nobody-" + std::to_string(::getpid()), "token", 1,
                          milliseconds(20000)),
               std::runtime_error);
}

}  // namespace
}  // namespace trireme::comm::agent_store_test
