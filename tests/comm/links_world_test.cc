// Worlds with measured links: other orders and shares, and the bits of direct exchange.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/net/measure_links.h"

namespace trireme::comm::links_world_test {
namespace {

using algorithm::Kind;
using ::testing::HasSubstr;

std::vector<float> spread_values(int rank, std::int64_t count) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t key =
        mix(mix(9, static_cast<std::uint64_t>(rank)), static_cast<std::uint64_t>(i));
    x.push_back(static_cast<float>(
        std::ldexp(static_cast<double>(key >> 11) * 0x1p-53 - 0.5, static_cast<int>(key % 16))));
  }
  return x;
}

algorithm::Links uneven(int hosts) {
  algorithm::Links links;
  for (int host = 0; host < hosts; ++host) {
    const double rate = host == 1 ? 1e6 : 2e7;
    links.hosts.push_back({.name = "h" + std::to_string(host), .up = rate, .down = rate});
  }
  return links;
}

void expect_the_same_bits(World& world, const algorithm::Choice& choice) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto direct = world.make_group("direct", ranks, {.kind = Kind::kDirect});
  const auto other = world.make_group("other", ranks, choice);
  for (const std::int64_t count : {3'000, 300'001}) {
    std::vector<float> a = spread_values(world.rank(), count), b = a;
    direct->all_reduce({a.data(), count, DType::kF32}).wait();
    other->all_reduce({b.data(), count, DType::kF32}).wait();
    ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << count;
    const std::int64_t each = count / world.size();
    std::vector<float> mine = spread_values(world.rank(), each);
    std::vector<float> all(static_cast<std::size_t>(each * world.size())), them = all;
    direct
        ->all_gather({mine.data(), each, DType::kF32},
                     {all.data(), each * world.size(), DType::kF32})
        .wait();
    other
        ->all_gather({mine.data(), each, DType::kF32},
                     {them.data(), each * world.size(), DType::kF32})
        .wait();
    ASSERT_EQ(all, them);
  }
}

TEST(MeasuredLinks, SharesAndOrdersChangeNoBits) {
  for (const std::vector<int>& hosts : {std::vector{1, 1, 1, 1}, std::vector{2, 2, 2}})
    harness::run_ranks_on(hosts, 60, [&](World& world) {
      const std::size_t size = hosts.size();
      std::vector<double> shares(size, 1.0 / static_cast<double>(size - 1));
      shares[1] = 0;
      std::vector<int> order(size);
      std::iota(order.begin(), order.end(), 0);
      std::reverse(order.begin() + 1, order.end());
      std::swap(order[0], order[1]);
      expect_the_same_bits(world, {.kind = Kind::kHierarchical, .shares = shares});
      expect_the_same_bits(world, {.kind = Kind::kRingGather, .order = order});
      expect_the_same_bits(world, {.served = true});
    });
}

void run_with_links(const std::vector<algorithm::Links>& links,
                    const std::function<void(World&)>& body) {
  harness::ignore_sigpipe();
  const int port = free_port(), size = static_cast<int>(links.size());
  run_ranks(size, body, [&](int rank) {
    return connect_processes({.rank = rank,
                              .size = size,
                              .port = port,
                              .host_name = std::to_string(rank),
                              .links = links[rank],
                              .link_name = "h" + std::to_string(rank),
                              .timeout_s = 20});
  });
}

// What crosses: the slow host sends each byte once, where equal shares would send 4/3 of them.
TEST(MeasuredLinks, AutoLeavesSlowHostsTheLeast) {
  run_with_links(std::vector<algorithm::Links>(3, uneven(3)), [](World& world) {
    expect_the_same_bits(world, {.served = true});
    const auto group = world.make_group("counted", {0, 1, 2}, {.served = true});
    std::vector<float> values(3'000'000);
    const std::int64_t before = world.network_bytes();
    group->all_reduce({values.data(), 3'000'000, DType::kF32}).wait();
    const double sent = static_cast<double>(world.network_bytes() - before) / 12e6;
    if (world.rank() == 1)
      EXPECT_NEAR(sent, 1, 0.02);
    else
      EXPECT_GT(sent, 1.3);
  });
}

TEST(MeasuredLinks, TablesMustAgreeAndNameTheHosts) {
  const auto refused = [](const std::vector<algorithm::Links>& links) {
    try {
      run_with_links(links, [](World&) {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused({uneven(2), uneven(3)}), HasSubstr("different tables of links"));
  algorithm::Links other = uneven(2);
  other.hosts[1].name = "x";
  EXPECT_THAT(refused({other, other}), HasSubstr("host h1, which --links does not name"));
}

TEST(MeasuredLinks, LinksOfThisMachineAreMeasured) {
  harness::ignore_sigpipe();
  const int port = free_port();
  algorithm::Links found[3];
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      Rendezvous rendezvous({.rank = rank,
                             .size = 3,
                             .port = port,
                             .agent_token = "a token that no stranger has",
                             .link_name = "h" + std::to_string(rank)});
      found[rank] = measure_links(rendezvous, 0.05);
    });
  ranks.clear();
  ASSERT_EQ(found[0].hosts.size(), 3U);
  EXPECT_EQ(found[0].pairs.size(), 6U);
  for (const algorithm::PairLink& pair : found[0].pairs) {
    EXPECT_GT(pair.rate, 1e6);
    EXPECT_GT(pair.latency_s, 0);
    EXPECT_LE(pair.rate, found[0].hosts[pair.from].up * (1 + 1e-12));
  }
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
}

}  // namespace
}  // namespace trireme::comm::links_world_test
