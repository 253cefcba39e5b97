// Streams that are cut and continue, ranks that dial each other in both directions, and ranks that meet at a relay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/ranks.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/ports.h"
#include "trireme/comm/net/dialler.h"
#include "trireme/comm/net/listener.h"
#include "trireme/comm/net/mesh.h"
#include "trireme/comm/net/resumable.h"
#include "trireme/comm/net/wire.h"
#include "trireme/launch/elastic/relay.h"

namespace trireme::comm::resume_test {
namespace {

constexpr char kToken[] = "a token that no stranger has";
constexpr char kRelayKey[] = "the key of the relay alone";

std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>> joined() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("socketpair");
  return {make_plain_stream(os::Descriptor(ends[0])), make_plain_stream(os::Descriptor(ends[1]))};
}

// Both ways at once, cut at places drawn from a seed: whatever was under way arrives once, in order.
TEST(ResumableStream, LosesAndRepeatsNothing) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    auto [a, b] = joined();
    ResumableStream one(std::move(a)), other(std::move(b));
    std::vector<std::byte> sent(12 << 20), there(sent.size()), back(sent.size());
    for (std::byte& byte : sent) byte = static_cast<std::byte>(random());
    std::size_t out[2] = {}, in[2] = {};
    int cuts = 0;
    while (in[0] < sent.size() || in[1] < sent.size()) {
      const auto move = [&](ResumableStream& from, ResumableStream& to, int way,
                            std::vector<std::byte>& into) {
        const std::size_t some = 1 + random() % 300'000;
        out[way] += from.write(sent.data() + out[way], std::min(some, sent.size() - out[way]));
        from.flush();
        if (in[way] < sent.size())
          in[way] += to.read(into.data() + in[way], std::min(some, sent.size() - in[way]));
      };
      move(one, other, 0, there);
      move(other, one, 1, back);
      if (random() % 40 != 0) continue;
      ++cuts;
      const std::uint64_t here = one.cut("test"), beyond = other.cut("test");
      auto [c, d] = joined();
      one.resume(std::move(c), beyond);
      other.resume(std::move(d), here);
    }
    EXPECT_GT(cuts, 0);
    EXPECT_EQ(there, sent);
    EXPECT_EQ(back, sent);
  }
}

// What it does not take can leave over another stream, unless it waits for a connection.
TEST(ResumableStream, TakesWhatItsConnectionTakesAndLittleMore) {
  auto [a, b] = joined();
  ResumableStream one(std::move(a)), other(std::move(b));
  const std::vector<std::byte> bytes(ResumableStream::kWindow);
  const std::size_t taken = one.write(bytes.data(), bytes.size());
  EXPECT_GT(taken, 0U);
  EXPECT_LT(taken, ResumableStream::kWindow / 2);
  EXPECT_EQ(one.write(bytes.data(), bytes.size()), 0U);
  EXPECT_TRUE(one.accepts());
  EXPECT_GE(one.backlog(), taken);
  one.cut("test");
  EXPECT_EQ(one.backlog(), taken);
  EXPECT_EQ(one.write(bytes.data(), bytes.size()), ResumableStream::kWindow - taken);
  EXPECT_FALSE(one.accepts());
}

TEST(Wire, AMessageHasDozensOfChunks) {
  EXPECT_EQ(net::chunks_of(net::kInline), 0U);
  for (const std::size_t bytes : {net::kInline + 1, std::size_t{1} << 20, std::size_t{3} << 20,
                                  std::size_t{7'000'001}, std::size_t{1} << 30}) {
    const std::size_t size = net::chunk_size(bytes), count = net::chunks_of(bytes);
    EXPECT_TRUE(std::has_single_bit(size));
    EXPECT_LE(size, net::kMostChunk);
    EXPECT_TRUE(count >= 64 || size == std::size_t{32} << 10) << bytes;
    const Stamp stamp{.bytes = bytes};
    std::size_t sum = 0;
    for (std::size_t chunk = 0; chunk < count; ++chunk) sum += net::bytes_of_chunk(stamp, chunk);
    EXPECT_EQ(sum, bytes);
  }
}

TEST(ResumableStream, EndsWhereItsOtherSideEnds) {
  auto [a, b] = joined();
  ResumableStream one(std::move(a)), other(std::move(b));
  std::byte byte{7};
  EXPECT_EQ(one.write(&byte, 1), 1U);
  one.shut();
  EXPECT_EQ(other.read(&byte, 1), 1U);
  EXPECT_THROW(other.read(&byte, 1), std::runtime_error);
  auto [c, d] = joined();
  ResumableStream lone(std::move(c));
  d.reset();
  EXPECT_EQ(lone.read(&byte, 1), 0U);  // waits for another connection
  EXPECT_TRUE(lone.is_cut());
  EXPECT_THROW(lone.resume(nullptr, 1), std::runtime_error);
}

class RunningRelay {
 public:
  explicit RunningRelay(int port, const elastic::Relay::Silence& silence = {})
      : relay_("127.0.0.1:" + std::to_string(port), kRelayKey, silence),
        thread_([this] { relay_.run(); }) {}
  ~RunningRelay() {
    relay_.stop();
    thread_.join();
  }
  elastic::Relay::Stats stats() const { return relay_.stats(); }

 private:
  elastic::Relay relay_;
  std::thread thread_;
};

struct Hosts {
  std::vector<bool> listen;
  std::string relay{};
  double resume_s = 20;
};
void run_hosts(const Hosts& hosts, const std::function<void(World&)>& body) {
  harness::ignore_sigpipe();
  const int port = free_port(), size = static_cast<int>(hosts.listen.size());
  run_ranks(size, body, [&](int rank) {
    return connect_processes({.rank = rank,
                              .size = size,
                              .port = port,
                              .agent_token = kToken,
                              .host_name = std::to_string(rank),
                              .listens = hosts.listen[rank],
                              .relay = hosts.relay,
                              .relay_key = kRelayKey,
                              .resume_s = hosts.resume_s,
                              .timeout_s = 60});
  });
}

void expect_sums(World& world, int rounds, const std::function<void(int)>& after = {}) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = world.make_group("all", ranks);
  std::vector<float> values(500'000);
  for (int round = 0; round < rounds; ++round) {
    std::iota(values.begin(), values.end(), static_cast<float>(round));
    group->all_reduce({values.data(), static_cast<std::int64_t>(values.size()), DType::kF32})
        .wait();
    ASSERT_EQ(values[7], static_cast<float>(world.size() * (7 + round)));
    ASSERT_EQ(values.back(), static_cast<float>(world.size() * (499'999 + round)));
    if (after) after(round);
  }
}

// The higher rank cannot reach the lower one, which dials instead.
TEST(Ways, TheLowerRankDialsWhereItCannotBeReached) {
  run_hosts({.listen = {false, true, true}}, [](World& world) { expect_sums(world, 2); });
}

TEST(Ways, RanksThatCanOnlyDialMeetAtTheRelay) {
  const int port = free_port();
  const RunningRelay relay(port);
  run_hosts({.listen = {false, false, true}, .relay = "127.0.0.1:" + std::to_string(port)},
            [](World& world) { expect_sums(world, 2); });
  EXPECT_EQ(relay.stats().pairs, 3);  // of one pair of ranks: control and two of data
  EXPECT_GT(relay.stats().bytes, 2 * 2'000'000);
}

TEST(Ways, TheRelayTakesNobodyWithoutItsKey) {
  const int port = free_port();
  const RunningRelay relay(port);
  const std::string at = "127.0.0.1:" + std::to_string(port);
  EXPECT_THROW(dial_relay(at, "another key", "a pair", 0, 2), std::runtime_error);
  EXPECT_EQ(relay.stats().pairs, 0);
}

// A host that is gone without a word: a filter drops every packet that comes for its socket, so nothing is acknowledged.
void vanish(const os::Descriptor& socket) {
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program = {1, &drop};
  ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

TEST(Ways, APairOfAHostThatIsGoneEndsSoon) {
  const int port = free_port();
  const RunningRelay relay(port, {.idle_s = 1, .between_s = 1, .probes = 1});
  const std::string at = "127.0.0.1:" + std::to_string(port);
  for (const bool idle : {true, false}) {
    os::Descriptor gone;
    std::jthread other([&] { gone = dial_relay(at, kRelayKey, "a pair", 1, 60); });
    const os::Descriptor alive = dial_relay(at, kRelayKey, "a pair", 0, 60);
    other.join();
    vanish(gone);
    if (!idle) {
      EXPECT_EQ(::send(alive.get(), "bytes", 5, MSG_NOSIGNAL), 5);
    }
    const Stopwatch watch;
    char byte = 0;
    EXPECT_LE(::recv(alive.get(), &byte, 1, 0), 0);  // for 60 s at most
    EXPECT_LT(watch.seconds(), 20) << (idle ? "idle" : "with bytes under way");
  }
}

// The last bytes of an old resumption come when a newer one is done.
TEST(Ways, AnOldResumptionThatComesLateIsRefused) {
  harness::ignore_sigpipe();
  const int port = free_port();
  const auto config = [&](int rank) {
    return RendezvousConfig{.rank = rank, .size = 2, .port = port, .agent_token = kToken};
  };
  std::mutex mutex;
  std::vector<std::uint64_t> resumed;  // with so many bytes
  std::vector<std::unique_ptr<Stream>> kept;
  std::atomic<bool> keeps = false;
  const std::jthread acceptor([&](const std::stop_token& stop) {
    Rendezvous rendezvous(config(0));
    Mesh mesh(rendezvous, {1}, 1, nullptr);
    const Streams streams = mesh.connect();
    mesh.keep({.arrived = [](int, int) { return std::uint64_t{0}; },
               .resumed =
                   [&](int, int, std::unique_ptr<Stream> stream, std::uint64_t arrived) {
                     const std::lock_guard lock(mutex);
                     resumed.push_back(arrived);
                     kept.push_back(std::move(stream));
                   },
               .gone = [](int, const std::string&) {}});
    keeps = true;
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  Rendezvous rendezvous(config(1));
  const net::Proofs proofs{kToken, "trireme|0"};
  net::Dialler dialler(rendezvous, nullptr, proofs);
  const auto resume = [&](int number, const std::function<std::uint64_t()>& arrived) {
    return dialler.introduce(dialler.direct(0, 5), 0, 0, {.number = number, .arrived = arrived})
        .first;
  };
  const auto first = resume(0, {});
  while (!keeps) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::unique_ptr<Stream> newer;
  const auto older = resume(1, [&] {
    newer = resume(2, [] { return std::uint64_t{2}; });
    const Stopwatch watch;
    for (bool there = false; !there && watch.seconds() < 30;) {
      const std::lock_guard lock(mutex);
      there = !resumed.empty();
    }
    return std::uint64_t{1};
  });
  std::byte byte{};
  const Stopwatch watch;
  EXPECT_THROW(while (watch.seconds() < 30) older->read(&byte, 1), std::runtime_error);
  EXPECT_EQ(newer->read(&byte, 1), 0U) << "it is not cut";
  EXPECT_THROW(resume(2, [] { return std::uint64_t{3}; }), std::runtime_error) << "a repetition";
  const std::lock_guard lock(mutex);
  EXPECT_EQ(resumed, std::vector<std::uint64_t>{2});
}

// The relay is killed and started again while sums are under way: nobody notices but by the time.
TEST(Ways, ACutCostsTimeAndNothingElse) {
  const int port = free_port();
  auto relay = std::make_unique<RunningRelay>(port);
  std::atomic<int> cuts = 0;
  run_hosts({.listen = {false, false}, .relay = "127.0.0.1:" + std::to_string(port)},
            [&](World& world) {
              std::jthread cutter;
              if (world.rank() == 0)
                cutter = std::jthread([&](const std::stop_token& stop) {
                  for (int i = 0; i < 3 && !stop.stop_requested(); ++i) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(60));
                    relay.reset();
                    std::this_thread::sleep_for(std::chrono::milliseconds(100));
                    relay = std::make_unique<RunningRelay>(port);
                    ++cuts;
                  }
                });
              expect_sums(world, 40, [&](int) {
                if (cuts < 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
              });
            });
  EXPECT_GE(cuts, 1);
}

// A rank whose process is gone does not come back: the others do not wait for the limit.
TEST(Ways, ARankThatIsGoneIsLostAtOnce) {
  const Stopwatch watch;
  EXPECT_THROW(run_hosts({.listen = {true, true}, .resume_s = 120},
                         [](World& world) {
                           if (world.rank() == 1) return;
                           std::vector<float> values(500'000);
                           const auto group = world.make_group("both", {0, 1});
                           group->all_reduce({values.data(), 500'000, DType::kF32}).wait();
                         }),
               Error);
  EXPECT_LT(watch.seconds(), 60);
}

}  // namespace
}  // namespace trireme::comm::resume_test
