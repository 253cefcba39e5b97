// Sums by reduction servers: the bits of direct exchange, and every byte once each way.
#include "trireme/comm/connect/reduction_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::comm::reduction_server_test {
namespace {

using ::testing::HasSubstr;

// `body` on ranks of hosts, and as many servers as there are rates.
void run_served(const std::vector<int>& hosts, const std::vector<double>& rates, Route route,
                const std::function<void(World&)>& body) {
  harness::ignore_sigpipe();
  std::vector<std::string> host_of;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    host_of.insert(host_of.end(), static_cast<std::size_t>(hosts[host]), std::to_string(host));
  const int size = static_cast<int>(host_of.size()), port = free_port();
  const auto config = [&](int rank) {
    return RendezvousConfig{.rank = rank,
                            .size = size,
                            .servers = static_cast<int>(rates.size()),
                            .port = port,
                            .agent_token = "a token that no stranger has",
                            .host_name = rank < size ? host_of[rank] : "",
                            .timeout_s = 60.0};
  };
  std::vector<std::jthread> servers;
  for (std::size_t i = 0; i < rates.size(); ++i)
    servers.emplace_back([&, i] {
      RendezvousConfig own = config(size + static_cast<int>(i));
      own.server_rate = rates[i];
      EXPECT_NO_THROW(serve_reductions(own, route));
    });
  run_ranks(size, body, [&](int rank) { return connect_processes(config(rank), route); });
}

std::vector<float> values(int rank, std::int64_t count) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t key =
        mix(mix(3, static_cast<std::uint64_t>(rank)), static_cast<std::uint64_t>(i));
    x.push_back(static_cast<float>(
        std::ldexp(static_cast<double>(key >> 11) * 0x1p-53 - 0.5, static_cast<int>(key % 16))));
  }
  return x;
}

// The upper halves of fp32 are bf16.
void expect_the_bits_of_direct(World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto direct = world.make_group("direct", ranks, {.kind = algorithm::Kind::kDirect});
  const auto served = world.make_group("served", ranks, {.served = true});
  for (const std::int64_t count : {1, 5003, 700'001, 2'500'000})
    for (const DType type : {DType::kF32, DType::kBF16})
      for (const Reduce reduce : {Reduce::kSum, Reduce::kAvg}) {
        std::vector<float> a = values(world.rank(), count), b = a;
        const std::int64_t elements = type == DType::kF32 ? count : 2 * count;
        if (type == DType::kBF16)  // no NaN among them
          for (std::vector<float>* x : {&a, &b})
            for (float& value : *x)
              value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xBFFFBFFFu);
        direct->all_reduce({a.data(), elements, type}, reduce).wait();
        served->all_reduce({b.data(), elements, type}, reduce).wait();
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * 4), 0)
            << "rank " << world.rank() << ", " << elements << " " << name(type) << " "
            << name(reduce);
      }
  // Slices of ranks go directly.
  std::vector<float> x = values(world.rank(), 1000 * world.size()), own(1000);
  served->reduce_scatter({x.data(), std::ssize(x), DType::kF32}, {own.data(), 1000, DType::kF32})
      .wait();
  served->all_gather({own.data(), 1000, DType::kF32}, {x.data(), std::ssize(x), DType::kF32})
      .wait();
  served->barrier().wait();
}

TEST(ReductionServer, AddsWithTheBitsOfDirect) {
  run_served({1, 1, 1, 1}, {1, 1}, Route::kBest, expect_the_bits_of_direct);
  run_served({1, 1, 1}, {3, 1}, Route::kTls, expect_the_bits_of_direct);
  run_served({2, 2}, {1}, Route::kBest, expect_the_bits_of_direct);
}

TEST(ReductionServer, RanksSendEachByteOnce) {
  std::atomic<std::int64_t> sent = 0;
  constexpr std::int64_t kCount = 1 << 20;
  run_served({1, 1, 1, 1}, {1, 1}, Route::kTcp, [&](World& world) {
    EXPECT_THAT(std::string(world.via()), HasSubstr("sums of all by 2 reduction servers"));
    const auto group = world.make_group("dp", {0, 1, 2, 3}, {.served = true});
    std::vector<float> x(kCount, 1);
    const std::int64_t before = world.network_bytes();
    group->all_reduce({x.data(), kCount, DType::kF32}).wait();
    if (world.rank() == 2) sent = world.network_bytes() - before;
    EXPECT_EQ(x.front(), 4);
    EXPECT_EQ(x.back(), 4);
  });
  EXPECT_GE(sent, 4 * kCount);
  EXPECT_LE(sent, 4 * kCount * 1.01);  // frames
}

TEST(ReductionServer, IsRefusedWhereRanksDoNotUseStreams) {
  try {
    connect_processes({.rank = 0, .size = 2, .servers = 1}, Route::kGloo);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("reduction servers need TRIREME_TRANSPORT=best, tcp or tls"));
  }
}

}  // namespace
}  // namespace trireme::comm::reduction_server_test
