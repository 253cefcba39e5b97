// Groups over several hosts: who is placed so that sums go host by host, and what the network carries.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <vector>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/comm/hostwise.h"

namespace trireme::comm::hosts_test {
namespace {

using Ranks = std::vector<int>;

TEST(Levels, NeedAlignedBlocksOfOnePowerOfTwo) {
  const auto even = levels_of({0, 1, 2, 3}, 1, {0, 0, 2, 2});
  ASSERT_TRUE(even);
  EXPECT_EQ(even->inside, (Ranks{0, 1}));
  EXPECT_EQ(even->across, (Ranks{1, 3}));
  EXPECT_EQ(even->place, 1);
  EXPECT_EQ(even->host, 0);
  // The group's order counts, not the world's; and three hosts are as good as two.
  const auto column = levels_of({9, 7, 5, 3, 1, 11}, 3, {0, 1, 0, 1, 0, 2, 0, 2, 0, 3, 0, 1});
  EXPECT_FALSE(column);
  const auto three = levels_of({9, 7, 5, 3, 1, 11}, 3, {0, 1, 0, 2, 0, 2, 0, 3, 0, 3, 0, 1});
  ASSERT_TRUE(three);
  EXPECT_EQ(three->inside, (Ranks{5, 3}));
  EXPECT_EQ(three->across, (Ranks{7, 3, 11}));
  EXPECT_EQ(three->place, 1);
  EXPECT_EQ(three->host, 1);

  EXPECT_FALSE(levels_of({0, 1, 2, 3}, 0, {0, 0, 0, 0})) << "one host";
  EXPECT_FALSE(levels_of({0, 1, 2, 3}, 0, {0, 1, 2, 3})) << "each on its own";
  EXPECT_FALSE(levels_of({0, 1, 2, 3}, 0, {0, 1, 1, 1})) << "1 + 3";
  EXPECT_FALSE(levels_of({0, 1, 2, 3}, 0, {0, 0, 0, 3})) << "3 + 1";
  EXPECT_FALSE(levels_of({0, 1, 2, 3}, 0, {0, 1, 0, 1})) << "dealt round";
  EXPECT_FALSE(levels_of({0, 1, 2, 3, 4, 5}, 0, {0, 0, 2, 2, 0, 0})) << "two blocks of a host";
  EXPECT_FALSE(levels_of({0, 1, 2, 3, 4, 5}, 0, {0, 0, 0, 3, 3, 3})) << "blocks of three";
}

TEST(HostsWorld, NamesWhatCarriesWhat) {
  const auto via = [](const Ranks& hosts) {
    std::string text;
    harness::run_ranks_on(hosts, 30.0, [&](World& world) {
      if (world.rank() == 0) text = world.via();
    });
    return text;
  };
  EXPECT_EQ(via({3}), "shared memory");
  EXPECT_EQ(via({1, 1}), "TCP");
  EXPECT_EQ(via({2, 2}),
            "hosts of 2+2 ranks: shared memory, and TCP between hosts: sums host by host");
  EXPECT_EQ(via({1, 3}),
            "hosts of 1+3 ranks: shared memory, and TCP between hosts: sums rank by rank, "
            "as hosts hold no aligned blocks of one power of two");
  harness::run_ranks_on({2, 2}, 30.0, [&](World& world) {
    EXPECT_EQ(world.via({2, 3}), "shared memory");
    EXPECT_EQ(world.via({1, 3}), "TCP");
    EXPECT_NE(world.via({0, 2, 3}).find("rank by rank"), std::string::npos);
  });
}

// Bytes that the first host hands to the network for one operation on a buffer of `count` elements.
double network_bytes(const Ranks& hosts, Verb verb, DType type, std::int64_t count) {
  std::atomic<std::int64_t> sent = 0;
  harness::run_ranks_on(hosts, 60.0, [&](World& world) {
    Ranks ranks(static_cast<std::size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = world.make_group("dp", ranks);
    std::vector<std::byte> x(static_cast<std::size_t>(count) * size_of(type));
    const std::int64_t slice = count / world.size();
    const Buffer whole{x.data(), count, type};
    const Buffer own{x.data() + static_cast<std::size_t>(world.rank() * slice) * size_of(type),
                     slice, type};
    group->barrier().wait();
    const std::int64_t before = world.network_bytes();
    switch (verb) {
      case Verb::kAllReduce: group->all_reduce(whole).wait(); break;
      case Verb::kReduceScatter: group->reduce_scatter(whole, own).wait(); break;
      case Verb::kBroadcast: group->broadcast(whole, world.size() - 1).wait(); break;
      default: group->all_gather(own, whole).wait();
    }
    if (world.rank() < hosts[0]) sent += world.network_bytes() - before;
  });
  return static_cast<double>(sent);
}

void expect_close(double bytes, double expected) {
  EXPECT_GE(bytes, expected);
  EXPECT_LE(bytes, 1.01 * expected + 64e3);  // frames
}

TEST(HostsWorld, EachByteCrossesBetweenTwoHostsOnce) {
  constexpr std::int64_t kCount = 3 << 20;
  for (const Ranks& hosts : {Ranks{2, 2}, Ranks{4, 4}, Ranks{2, 2, 2}}) {
    SCOPED_TRACE(fmt::format("{} hosts of {}", hosts.size(), hosts[0]));
    const double h = static_cast<double>(hosts.size()), once = kCount * (h - 1) / h;
    expect_close(network_bytes(hosts, Verb::kAllReduce, DType::kF32, kCount), 2 * 4 * once);
    expect_close(network_bytes(hosts, Verb::kReduceScatter, DType::kF32, kCount), 4 * once);
    expect_close(network_bytes(hosts, Verb::kAllGather, DType::kF32, kCount), 4 * once);
    // bf16 crosses as it is added, in fp32, and comes back as it is.
    expect_close(network_bytes(hosts, Verb::kAllReduce, DType::kBF16, kCount), (4 + 2) * once);
    // All but the root's host pass on what they have for hosts that are neither.
    expect_close(network_bytes(hosts, Verb::kBroadcast, DType::kF32, kCount),
                 4 * kCount * (h - 2) / h);
  }
  // Where sums go rank by rank every rank's bytes cross, there and back: 1 of 4 ranks, 3 others.
  expect_close(network_bytes({1, 3}, Verb::kAllReduce, DType::kF32, kCount),
               2.0 * 4 * kCount * 3 / 4);
}

// Inside each host all agree; between them nothing may be applied.
TEST(HostsWorld, DisagreementBetweenHostsIsFoundBeforeDataIsApplied) {
  std::mutex mutex;
  std::string named;
  harness::run_ranks_on({2, 2}, 20.0, [&](World& world) {
    const auto group = world.make_group("dp", {0, 1, 2, 3});
    std::vector<float> x(world.rank() < 2 ? 5000 : 5004, 3.0f);
    const std::vector<float> before = x;
    try {
      group->all_reduce({x.data(), std::ssize(x), DType::kF32}).wait();
      ADD_FAILURE() << "rank " << world.rank();
    } catch (const Error& error) {
      std::lock_guard lock(mutex);
      if (error.kind() == ErrorKind::kInternal) named += error.what();
    }
    EXPECT_EQ(x, before);
  });
  EXPECT_NE(named.find("all_reduce #0 sum of 5000 fp32"), std::string::npos) << named;
  EXPECT_NE(named.find("all_reduce #0 sum of 5004 fp32"), std::string::npos) << named;
}

// Messages of which rings and partial sums hold a small part only; rank by rank some ranks wait for shared
// memory and some for Gloo, and must not wait in a circle.
TEST(HostsWorld, LargeSumsArePassedInParts) {
  for (const int local : {3, 2})
    harness::run_ranks_on({local, local}, 20.0, [](World& world) {
      const std::int32_t n = world.size(), sum = n * (n - 1) / 2;
      Ranks ranks(static_cast<std::size_t>(n));
      std::iota(ranks.begin(), ranks.end(), 0);
      const auto group = world.make_group("dp", ranks);
      std::vector<std::int32_t> x(6 << 20), part(x.size() / ranks.size());
      for (int round = 0; round < 4; ++round) {
        std::ranges::fill(x, world.rank());
        group->all_reduce({x.data(), std::ssize(x), DType::kI32}).wait();
        EXPECT_EQ(std::ranges::count(x, sum), std::ssize(x));
        group
            ->reduce_scatter({x.data(), std::ssize(x), DType::kI32},
                             {part.data(), std::ssize(part), DType::kI32})
            .wait();
        EXPECT_EQ(std::ranges::count(part, n * sum), std::ssize(part));
      }
    });
}

}  // namespace
}  // namespace trireme::comm::hosts_test
