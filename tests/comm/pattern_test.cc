// Algorithms of collectives: the bits of direct exchange on every back end, and the bytes that hosts send.
#include "trireme/comm/patterns/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/local/board.h"

namespace trireme::comm::pattern_test {
namespace {

using algorithm::Kind;
using harness::Backend;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Ranks = std::vector<int>;

constexpr Kind kCanonical[] = {Kind::kAuto, Kind::kHierarchical, Kind::kHalving,
                               Kind::kTree, Kind::kRing,         Kind::kRingGather};

Ranks all_ranks(int size) {
  Ranks ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Values over many magnitudes, so that another order of adding shows.
Bytes values(DType type, int rank, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count) * size_of(type));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t key =
        mix(mix(5, static_cast<std::uint64_t>(rank)), static_cast<std::uint64_t>(i));
    const auto value = static_cast<float>(
        std::ldexp(static_cast<double>(key >> 11) * 0x1p-53 - 0.5, static_cast<int>(key % 16)));
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (type == DType::kBF16) bits >>= 16;  // the upper half of an fp32
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * size_of(type), &bits, size_of(type));
  }
  return bytes;
}

struct Results {
  Bytes sums, slice, gathered;
  bool operator==(const Results&) const = default;
};

// Every collective that an algorithm may change, with slices of different lengths.
Results results(Group& group, DType type, std::int64_t count, Reduce reduce) {
  std::vector<std::int64_t> counts = even_split(count, group.size());
  if (group.size() > 1) std::swap(counts.front(), counts.back());
  const std::int64_t own = counts[static_cast<std::size_t>(group.rank())];
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n) * size_of(type); };
  Results all;
  all.sums = values(type, group.rank(), count);
  group.all_reduce({all.sums.data(), count, type}, reduce).wait();
  const Bytes in = values(type, group.rank(), count);
  all.slice.resize(bytes(own));
  group.reduce_scatter_v({in.data(), count, type}, {all.slice.data(), own, type}, counts, reduce)
      .wait();
  all.gathered.resize(bytes(count));
  group.all_gather_v({all.slice.data(), own, type}, {all.gathered.data(), count, type}, counts)
      .wait();
  return all;
}

// The group by an algorithm, if the number of ranks and their hosts allow it.
std::unique_ptr<Group> group_by(World& world, Kind kind) {
  try {
    return world.make_group("chosen", all_ranks(world.size()), {kind});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("network.algorithm={}", name(kind))));
    return nullptr;
  }
}

void expect_the_bits_of_direct(World& world) {
  const auto direct = world.make_group("direct", all_ranks(world.size()), {Kind::kDirect});
  std::vector<std::unique_ptr<Group>> groups;
  for (const Kind kind : kCanonical) groups.push_back(group_by(world, kind));
  const auto compare = [&](DType type, std::int64_t count, Reduce reduce) {
    const Results expected = results(*direct, type, count, reduce);
    for (std::size_t i = 0; i < groups.size(); ++i)
      EXPECT_TRUE(groups[i] == nullptr || results(*groups[i], type, count, reduce) == expected)
          << "rank " << world.rank() << "/" << world.size() << ", " << name(kCanonical[i]) << ": "
          << count << " " << trireme::name(type) << " " << name(reduce);
  };
  for (const DType type : {DType::kF32, DType::kBF16, DType::kI16})
    for (const std::int64_t count : {1, 1003, 100'001}) compare(type, count, Reduce::kSum);
  compare(DType::kBF16, 5003, Reduce::kAvg);
  compare(DType::kF32, 1'200'003, Reduce::kMax);  // several steps
}

class PatternOn : public testing::TestWithParam<std::tuple<Backend, int>> {};

TEST_P(PatternOn, EveryAlgorithmHasTheBitsOfDirect) {
  const auto [backend, ranks] = GetParam();
  harness::run_ranks(backend, ranks, 60.0, expect_the_bits_of_direct);
}

INSTANTIATE_TEST_SUITE_P(Backends, PatternOn,
                         testing::Combine(testing::Values(Backend::kLocal, Backend::kShm,
                                                          Backend::kTcp, Backend::kHosts),
                                          testing::Values(2, 3, 4, 8)),
                         [](const auto& info) {
                           return fmt::format("{}{}", harness::name(std::get<0>(info.param)),
                                              std::get<1>(info.param));
                         });

TEST(Pattern, HostsOfSeveralRanksHaveTheBitsOfDirect) {
  for (const Ranks& hosts : {Ranks{2, 2, 2}, Ranks{1, 3}})
    harness::run_ranks_on(hosts, 60.0, expect_the_bits_of_direct);
}

// Algorithms are between hosts: a canonical ring of two hosts leaves the four ranks of each as they are.
TEST(Pattern, GroupsInsideAHostHaveNone) {
  harness::run_ranks_on({4, 4}, 60.0, [](World& world) {
    const int first = world.rank() / 4 * 4;
    const std::vector<int> own = {first, first + 1, first + 2, first + 3};
    const auto direct = world.make_group("direct", own),
               ring = world.make_group("ring", own, {Kind::kRing});
    EXPECT_TRUE(results(*ring, DType::kF32, 1003, Reduce::kSum) ==
                results(*direct, DType::kF32, 1003, Reduce::kSum));
  });
}

// In another order; of whole numbers that changes nothing.
TEST(Pattern, ARingOfFastSumsAddsInItsOwnOrder) {
  run_local_ranks(4, 20.0, [](World& world) {
    const auto direct = world.make_group("direct", all_ranks(4));
    const auto ring = world.make_group("ring", all_ranks(4), {Kind::kRing, false});
    EXPECT_EQ(results(*ring, DType::kI32, 1003, Reduce::kSum).sums.size(), 1003u * 4);
    EXPECT_TRUE(results(*ring, DType::kI32, 100'003, Reduce::kSum) ==
                results(*direct, DType::kI32, 100'003, Reduce::kSum));
    const Bytes a = results(*ring, DType::kF32, 100'003, Reduce::kSum).sums,
                b = results(*direct, DType::kF32, 100'003, Reduce::kSum).sums;
    EXPECT_FALSE(a == b);
    int differ = 0;
    for (std::size_t i = 0; i < a.size(); i += 4) {
      float x, y;
      std::memcpy(&x, &a[i], 4);
      std::memcpy(&y, &b[i], 4);
      differ += x != y ? 1 : 0;
      ASSERT_NEAR(x, y, 1e-6 * 65536);
    }
    EXPECT_GT(differ, 100'003 / 5);
  });
}

// Integers go round, in one byte and in two, and other sums directly: the bits are those of direct exchange.
TEST(Pattern, ACanonicalRingAddsIntegers) {
  for (const Backend backend : {Backend::kLocal, Backend::kTcp})
    harness::run_ranks(backend, 4, 20.0, [](World& world) {
      const auto direct = world.make_group("direct", all_ranks(4));
      const auto ring =
          world.make_group("ring", all_ranks(4), {.kind = Kind::kRing, .integers = true});
      for (const DType type : {DType::kF32, DType::kBF16, DType::kU8, DType::kI16})
        EXPECT_TRUE(results(*ring, type, 100'003, Reduce::kSum) ==
                    results(*direct, type, 100'003, Reduce::kSum))
            << trireme::name(type);
      EXPECT_TRUE(results(*ring, DType::kU8, 100'003, Reduce::kMax) ==
                  results(*direct, DType::kU8, 100'003, Reduce::kMax));
    });
}

TEST(Pattern, RanksThatChoseDifferentlyFindOut) {
  std::atomic<int> named = 0;
  EXPECT_THROW(run_local_ranks(2, 20.0,
                               [&](World& world) {
                                 const Kind kind = world.rank() == 0 ? Kind::kTree : Kind::kRing;
                                 const auto group = world.make_group("dp", {0, 1}, {kind});
                                 std::vector<float> x(5000);
                                 try {
                                   group->all_reduce({x.data(), 5000, DType::kF32}).wait();
                                 } catch (const Error& error) {
                                   const std::string what = error.what();
                                   if (what.find(" by tree") != what.npos &&
                                       what.find(" by ring") != what.npos)
                                     ++named;
                                   throw;
                                 }
                               }),
               Error);
  EXPECT_GE(named, 1);
}

// Payload that each host gives to others, counted where messages are posted.
class CountingTransport : public Transport {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, int host, const Ranks& hosts,
                    std::vector<std::atomic<std::int64_t>>& sent)
      : inner_(std::move(inner)), host_(host), hosts_(hosts), sent_(sent) {}
  std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override {
    const int other = hosts_[rank];
    if (other != host_) {
      sent_[host_] += static_cast<std::int64_t>(stamp.bytes);
      if (stamp.way == Way::kThereAndBack) sent_[other] += static_cast<std::int64_t>(stamp.bytes);
    }
    return inner_->send(rank, stamp, data);
  }
  std::unique_ptr<Incoming> recv(int rank) override { return inner_->recv(rank); }
  void abort(const std::string& cause) override { inner_->abort(cause); }
  std::optional<std::string> cause() override { return inner_->cause(); }

 private:
  std::unique_ptr<Transport> inner_;
  int host_;
  const Ranks& hosts_;
  std::vector<std::atomic<std::int64_t>>& sent_;
};

// Bytes that each of `hosts` hosts of `each` ranks sends for an operation on `count` elements.
std::vector<std::int64_t> sent(Kind kind, Verb verb, int hosts, int each, DType type,
                               std::int64_t count) {
  const int size = hosts * each;
  Ranks host_of;
  for (int rank = 0; rank < size; ++rank) host_of.push_back(rank / each);
  std::vector<std::atomic<std::int64_t>> bytes(static_cast<std::size_t>(hosts));
  const auto fate = std::make_shared<LocalFate>(20.0);
  const auto board = std::make_shared<Board>(fate, all_ranks(size));
  const std::vector<std::int64_t> split = even_split(count, size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      CountingTransport transport(
          make_local_transport(board, rank, [fate](const std::string& why) { fate->abort(why); }),
          host_of[rank], host_of, bytes);
      Collectives collectives(transport, all_ranks(size), rank,
                              levels_of(all_ranks(size), rank, host_of), {kind, false});
      Bytes all = values(type, rank, count);
      std::int64_t before = 0;
      for (int r = 0; r < rank; ++r) before += split[r];
      std::byte* const own = all.data() + static_cast<std::size_t>(before) * size_of(type);
      Operation op{.verb = verb, .type = type, .in = all.data(), .out = all.data()};
      op.in_counts = op.out_counts = split;
      if (verb == Verb::kReduceScatter) op.out = own, op.out_counts = {split[rank]};
      if (verb == Verb::kAllGather) op.in = own, op.in_counts = {split[rank]};
      collectives.run(op, 0);
    });
  threads.clear();
  return {bytes.begin(), bytes.end()};
}

// The table of docs/results/collectives.md, exactly: b n per host, and what an algorithm makes of it.
TEST(Pattern, HostsSendTheBytesOfTheTable) {
  constexpr std::int64_t kCount = 8 * 3 * 4096, kBytes = 4 * kCount;
  const auto each_sends = [](const std::vector<std::int64_t>& sent, std::int64_t bytes) {
    return sent == std::vector<std::int64_t>(sent.size(), bytes);
  };
  for (const int hosts : {2, 3, 4, 8})
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} hosts of {}", hosts, ranks));
      const std::int64_t once = kBytes / hosts * (hosts - 1);
      for (const Kind kind : kCanonical) {
        if (kind == Kind::kTree || !algorithm::refusal({kind, false}, hosts).empty()) continue;
        SCOPED_TRACE(name(kind));
        const auto bytes = [&](Verb verb) {
          return sent(kind, verb, hosts, ranks, DType::kF32, kCount);
        };
        EXPECT_TRUE(each_sends(bytes(Verb::kAllReduce), 2 * once));
        EXPECT_TRUE(each_sends(bytes(Verb::kReduceScatter), once));
        EXPECT_TRUE(each_sends(bytes(Verb::kAllGather), once));
      }
      EXPECT_TRUE(
          each_sends(sent(Kind::kDirect, Verb::kAllReduce, hosts, ranks, DType::kF32, kCount),
                     2 * ranks * once));
    }
  // bf16 leaves as it is given, then as it is added: half of it once and a quarter, ... twice as wide.
  EXPECT_TRUE(each_sends(sent(Kind::kHalving, Verb::kReduceScatter, 4, 1, DType::kBF16, kCount),
                         2 * kCount / 2 + 4 * kCount / 4));
}

// Ranks that a rank sends to in an all-reduce of a ring whose integers go round.
TEST(Pattern, OnlyIntegersOfACanonicalRingGoRound) {
  constexpr int kRanks = 4;
  class Noting : public CountingTransport {
   public:
    using CountingTransport::CountingTransport;
    std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override {
      peers.insert(rank);
      return CountingTransport::send(rank, stamp, data);
    }
    std::set<int> peers;
  };
  for (const DType type : {DType::kI16, DType::kF32}) {
    const Ranks hosts = all_ranks(kRanks);
    std::vector<std::atomic<std::int64_t>> bytes(kRanks);
    const auto fate = std::make_shared<LocalFate>(20.0);
    const auto board = std::make_shared<Board>(fate, hosts);
    constexpr std::int64_t kCount = 40'000;
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        Noting transport(
            make_local_transport(board, rank, [fate](const std::string& why) { fate->abort(why); }),
            rank, hosts, bytes);
        Collectives collectives(transport, hosts, rank, std::nullopt,
                                {.kind = Kind::kRing, .integers = true});
        Bytes all = values(type, rank, kCount);
        Operation op{
            .verb = Verb::kReduceScatter, .type = type, .in = all.data(), .out = all.data()};
        op.in_counts = even_split(kCount, kRanks);
        op.out_counts = {kCount / kRanks};
        op.out += static_cast<std::size_t>(rank * kCount / kRanks) * size_of(type);
        collectives.run(op, 0);
        EXPECT_EQ(transport.peers.size(), type == DType::kI16 ? 1u : 3u);
        EXPECT_TRUE(transport.peers.contains((rank + 1) % kRanks));
      });
    threads.clear();
    for (const auto& sent : bytes)
      EXPECT_EQ(sent, kCount / kRanks * (kRanks - 1) * static_cast<std::int64_t>(size_of(type)));
  }
}

TEST(Pattern, ATreeSendsItsTwoHalves) {
  constexpr std::int64_t kCount = 40'000;
  for (const int hosts : {2, 3, 4, 5, 8}) {
    SCOPED_TRACE(hosts);
    const auto bytes = sent(Kind::kTree, Verb::kAllReduce, hosts, 1, DType::kF32, kCount);
    std::int64_t results = 0;
    for (int host = 0; host < hosts; ++host) {
      const algorithm::TreeSent parts = algorithm::tree_sent(hosts, host, kCount);
      EXPECT_EQ(bytes[host], 4 * (parts.leaves + parts.sums + parts.results)) << host;
      EXPECT_LE(parts.leaves + parts.sums, kCount * 3 / 2) << host;
      results += parts.results;
    }
    EXPECT_EQ(results, kCount * (hosts - 1));  // every host but one gets each half once
  }
}

}  // namespace
}  // namespace trireme::comm::pattern_test
