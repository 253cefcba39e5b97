// Ranks that meet over Gloo while strangers find its ports.
#include "trireme/comm/gloo/meeting.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/ranks.h"
#include "trireme/base/clock.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/comm/gloo/gloo_world.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm::meeting_test {
namespace {

enum class Blow { kReset, kGarbage, kSilence };

// Connects once to every port on which this process listens but for one, and does there what `blow` says.
class Strangers {
 public:
  Strangers(Blow blow, int but) : blow_(blow), ports_{but}, thread_([this] { run(); }) {}
  ~Strangers() { stop(); }
  int met() const { return met_; }
  void stop() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    for (; !done_; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      for (int fd = 3; fd < 1024; ++fd) look_at(fd);
  }
  void look_at(int fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return;
    sockaddr_storage where{};
    size = sizeof where;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size) != 0) return;
    if (where.ss_family != AF_INET && where.ss_family != AF_INET6) return;
    const int port = ntohs(reinterpret_cast<sockaddr_in*>(&where)->sin_port);  // as of IPv6
    if (!ports_.insert(port).second) return;
    os::Descriptor socket(::socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&where), size) != 0) return;
    ++met_;
    if (blow_ == Blow::kGarbage) {
      // What a rank would send for an operation that nobody has posted: size, verb, slot, and the rest.
      const std::array<std::uint64_t, 6> message = {64, 1, 99, 0, 16, 0};
      (void)!::send(socket.get(), message.data(), sizeof message, MSG_NOSIGNAL);
    }
    if (blow_ == Blow::kReset) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      socket.close();
    }
    kept_.push_back(std::move(socket));
  }

  Blow blow_;
  std::set<int> ports_;
  std::vector<os::Descriptor> kept_;
  std::atomic<int> met_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

class MeetingAmong : public ::testing::TestWithParam<Blow> {};

std::string name_of(const ::testing::TestParamInfo<Blow>& test) {
  constexpr const char* kNames[] = {"Reset", "Garbage", "Silence"};
  return kNames[static_cast<int>(test.param)];
}
INSTANTIATE_TEST_SUITE_P(Strangers, MeetingAmong,
                         ::testing::Values(Blow::kReset, Blow::kGarbage, Blow::kSilence), name_of);

// Of four ranks three listen for the last one, which comes when strangers have been there.
TEST_P(MeetingAmong, StrangersIsHeldAgain) {
  harness::ignore_sigpipe();
  constexpr int kSize = 4, kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    const int port = free_port();
    std::unique_ptr<Strangers> strangers;
    std::atomic<bool> begun{false};
    const auto connect = [&](int rank) {
      const auto rendezvous = std::make_shared<Rendezvous>(
          RendezvousConfig{.rank = rank, .size = kSize, .port = port, .timeout_s = 60});
      if (rank == kSize - 1) {
        strangers = std::make_unique<Strangers>(GetParam(), port);
        begun = true;
        const Stopwatch watch;
        while (strangers->met() < kSize - 1 && watch.seconds() < 20)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        strangers->stop();
      }
      while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return connect_gloo(rendezvous);
    };
    run_ranks(
        kSize,
        [&](World& world) {
          const auto group = world.make_group("dp", {0, 1, 2, 3});
          std::vector<float> x(1000, 1);
          group->all_reduce({x.data(), std::ssize(x), DType::kF32}).wait();
          EXPECT_EQ(x.back(), kSize);
        },
        connect);
    EXPECT_GE(strangers->met(), kSize - 1);
  }
}

// Nobody disturbs: one attempt is enough, and it takes no time to speak of.
TEST(Meeting, IsHeldOnce) {
  harness::ignore_sigpipe();
  const int port = free_port();
  run_ranks(
      2, [](World& world) { EXPECT_EQ(world.size(), 2); },
      [&](int rank) {
        const auto rendezvous = std::make_shared<Rendezvous>(
            RendezvousConfig{.rank = rank, .size = 2, .port = port, .timeout_s = 60});
        auto world = connect_gloo(rendezvous);
        EXPECT_FALSE(rendezvous->store()->check({"meeting/1/failed"}));
        EXPECT_FALSE(rendezvous->store()->check({"meeting/2/connected"}));
        return world;
      });
}

}  // namespace
}  // namespace trireme::comm::meeting_test
