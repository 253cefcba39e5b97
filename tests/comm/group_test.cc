// Every operation on every back end, rank count, size and type, against values computed in place.
#include "trireme/comm/group.h"

#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tree_sum.h"

namespace trireme::comm::group_test {
namespace {

using harness::Backend;
using Bytes = std::vector<std::byte>;

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                            DType::kI64, DType::kI32, DType::kU8};
constexpr std::int64_t kLarge = 300'001;  // several chunks per rank in fp64 and fp32

std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Element i of rank r: spread over magnitudes, so that another order of adding shows.
void put(std::byte* at, DType type, int rank, std::int64_t i) {
  const std::uint64_t key =
      mix(mix(11, static_cast<std::uint64_t>(rank)), static_cast<std::uint64_t>(i));
  const double value =
      std::ldexp(static_cast<double>(key >> 11) * 0x1p-53 - 0.5, static_cast<int>(key % 16));
  const auto store = [&](auto x) { std::memcpy(at, &x, sizeof(x)); };
  switch (type) {
    case DType::kF64: return store(value);
    case DType::kF32: return store(static_cast<float>(value));
    case DType::kBF16: {
      const auto x = static_cast<float>(value);
      std::uint32_t bits;
      std::memcpy(&bits, &x, 4);
      return store(static_cast<std::uint16_t>(bits >> 16));
    }
    case DType::kF16: return store(c10::Half(static_cast<float>(value)).x);
    case DType::kI64: return store(static_cast<std::int64_t>(key));
    case DType::kI32: return store(static_cast<std::int32_t>(key));
    default: return store(static_cast<std::uint8_t>(key));
  }
}

Bytes data(DType type, int rank, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count) * size_of(type));
  for (std::int64_t i = 0; i < count; ++i)
    put(bytes.data() + static_cast<std::size_t>(i) * size_of(type), type, rank, i);
  return bytes;
}

Bytes part(const Bytes& whole, DType type, std::int64_t begin, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  return {whole.begin() + begin * size, whole.begin() + (begin + count) * size};
}

Buffer buffer(Bytes& bytes, DType type) {
  return {bytes.data(), static_cast<std::int64_t>(bytes.size() / size_of(type)), type};
}

// What a reduction of data(type, 0 .. n-1, count) must give, bit for bit.
Bytes reduced(DType type, int n, std::int64_t count, Reduce reduce) {
  std::vector<Bytes> leaves;
  std::vector<const void*> pointers;
  for (int r = 0; r < n; ++r) pointers.push_back(leaves.emplace_back(data(type, r, count)).data());
  for (int r = 0; r < n; ++r) pointers[r] = leaves[r].data();
  Bytes out(leaves[0].size());
  tree_reduce(out.data(), pointers, count, type, reduce);
  return out;
}

std::int64_t sum_before(const std::vector<std::int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

// Uneven slices that include empty ones.
std::vector<std::int64_t> uneven(int n, std::int64_t scale) {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < n; ++r) counts.push_back(r % 3 == 1 ? 0 : scale / n + r * (scale > 0));
  return counts;
}

void check_reductions(Group& group, DType type, std::int64_t count, Reduce reduce) {
  const int n = group.size(), r = group.rank();
  SCOPED_TRACE(
      fmt::format("rank {}/{} {} {} x {}", r, n, name(reduce), count, trireme::name(type)));
  const Bytes expected = reduced(type, n, count, reduce);
  Bytes inout = data(type, r, count);
  group.all_reduce(buffer(inout, type), reduce).wait();
  EXPECT_TRUE(inout == expected);

  const std::int64_t even = count / n;
  Bytes in = part(data(type, r, count), type, 0, even * n);
  Bytes out(static_cast<std::size_t>(even) * size_of(type));
  group.reduce_scatter(buffer(in, type), buffer(out, type), reduce).wait();
  EXPECT_TRUE(out == part(expected, type, even * r, even));

  const auto counts = uneven(n, count / 2);
  const std::int64_t begin = sum_before(counts, r), own = counts[r];
  in = data(type, r, total(counts));
  // In place: the output is the own slice of the input.
  group
      .reduce_scatter_v(buffer(in, type),
                        {in.data() + static_cast<std::size_t>(begin) * size_of(type), own, type},
                        counts, reduce)
      .wait();
  EXPECT_TRUE(part(in, type, begin, own) ==
              part(reduced(type, n, total(counts), reduce), type, begin, own));
}

void check_moves(Group& group, DType type, std::int64_t count) {
  const int n = group.size(), r = group.rank();
  SCOPED_TRACE(fmt::format("rank {}/{} moves {} x {}", r, n, count, trireme::name(type)));
  Bytes mine = data(type, r, count), gathered(mine.size() * static_cast<std::size_t>(n)), expected;
  for (int p = 0; p < n; ++p) {
    const Bytes theirs = data(type, p, count);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  group.all_gather(buffer(mine, type), buffer(gathered, type)).wait();
  EXPECT_TRUE(gathered == expected);

  const auto counts = uneven(n, count);
  gathered.assign(static_cast<std::size_t>(total(counts)) * size_of(type), std::byte{0xEE});
  mine = data(type, r, counts[r]);
  group.all_gather_v(buffer(mine, type), buffer(gathered, type), counts).wait();
  expected.clear();
  for (int p = 0; p < n; ++p) {
    const Bytes theirs = data(type, p, counts[p]);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  EXPECT_TRUE(gathered == expected);

  for (int root : {0, n - 1}) {
    Bytes inout = data(type, r, count);
    group.broadcast(buffer(inout, type), root).wait();
    EXPECT_TRUE(inout == data(type, root, count));
  }
}

// Rank r sends (r + 2p) % 4 quarters of `count` to rank p.
void check_all_to_all(Group& group, DType type, std::int64_t count) {
  const int n = group.size(), r = group.rank();
  const auto sent = [&](int from, int to) { return (from + 2 * to) % 4 * (count / 4); };
  std::vector<std::int64_t> in_counts, out_counts;
  Bytes expected;
  for (int p = 0; p < n; ++p) {
    in_counts.push_back(sent(r, p));
    out_counts.push_back(sent(p, r));
  }
  for (int p = 0; p < n; ++p) {
    std::int64_t begin = 0;
    for (int q = 0; q < r; ++q) begin += sent(p, q);
    const Bytes slice = part(data(type, p, begin + sent(p, r)), type, begin, sent(p, r));
    expected.insert(expected.end(), slice.begin(), slice.end());
  }
  Bytes in = data(type, r, total(in_counts)),
        out(static_cast<std::size_t>(total(out_counts)) * size_of(type));
  group.all_to_all(buffer(in, type), in_counts, buffer(out, type), out_counts).wait();
  EXPECT_TRUE(out == expected) << "rank " << r << "/" << n;
}

// Round a ring, in the order that does not deadlock by rendezvous: even ranks send first.
void check_send_recv(Group& group, DType type, std::int64_t count) {
  const int n = group.size(), r = group.rank();
  if (n == 1) return;
  Bytes mine = data(type, r, count), theirs(mine.size());
  const int next = (r + 1) % n, previous = (r + n - 1) % n;
  Ticket sent, received;
  if (r % 2 == 0) {
    sent = group.send(buffer(mine, type), next);
    received = group.recv(buffer(theirs, type), previous);
  } else {
    received = group.recv(buffer(theirs, type), previous);
    sent = group.send(buffer(mine, type), next);
  }
  sent.wait();
  received.wait();
  EXPECT_TRUE(theirs == data(type, previous, count)) << "rank " << r << "/" << n;
}

class GroupMatrix : public testing::TestWithParam<std::tuple<Backend, int>> {};

void check_everything(World& world) {
  const auto group = world.make_group("all", all_ranks(world));
  for (DType type : kTypes) {
    const bool floating =
        type == DType::kF64 || type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
    for (std::int64_t count :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, std::int64_t{4099}}) {
      check_reductions(*group, type, count, Reduce::kSum);
      if (count == 7) check_reductions(*group, type, count, Reduce::kMax);
      if (count == 7 && floating) check_reductions(*group, type, count, Reduce::kAvg);
      check_moves(*group, type, count);
      check_all_to_all(*group, type, count);
      check_send_recv(*group, type, count);
    }
  }
  for (DType type : {DType::kF32, DType::kBF16}) {
    check_reductions(*group, type, kLarge, type == DType::kBF16 ? Reduce::kAvg : Reduce::kSum);
    check_moves(*group, type, kLarge);
    check_all_to_all(*group, type, kLarge);
    check_send_recv(*group, type, kLarge);
  }
  group->barrier().wait();
}

TEST_P(GroupMatrix, EveryOperationSizeAndType) {
  const auto [backend, ranks] = GetParam();
  harness::run_ranks(backend, ranks, 60.0, check_everything);
}

// Blocks of four, blocks that are no power of two, hosts that hold different numbers.
TEST(Group, EveryOperationOnHostsOfEverySize) {
  for (const auto& hosts : std::vector<std::vector<int>>{{4, 4}, {1, 3}, {3, 3}, {2, 1, 2}})
    harness::run_ranks_on(hosts, 60.0, check_everything);
}

INSTANTIATE_TEST_SUITE_P(Backends, GroupMatrix,
                         testing::Combine(testing::Values(Backend::kLocal, Backend::kShm,
                                                          Backend::kGloo, Backend::kTcp,
                                                          Backend::kTls, Backend::kHosts),
                                          testing::Range(1, 9)),
                         [](const auto& info) {
                           return fmt::format("{}{}", harness::name(std::get<0>(info.param)),
                                              std::get<1>(info.param));
                         });

class GroupOn : public testing::TestWithParam<Backend> {};

// G = 8 leaves added in aligned blocks inside each of w ranks and then across them: one result for all
// w, and the reduce-scatter of it too.
TEST_P(GroupOn, CanonicalSumsDoNotDependOnTheNumberOfRanks) {
  constexpr int kLeaves = 8;
  constexpr std::int64_t kCount = 100'003;
  for (DType type : {DType::kF32, DType::kF64}) {
    const Bytes whole = reduced(type, kLeaves, kCount, Reduce::kSum);
    for (int ranks : {1, 2, 4, 8}) {
      harness::run_ranks(GetParam(), ranks, 60.0, [&](World& world) {
        const auto group = world.make_group("dp", all_ranks(world));
        const int block = kLeaves / world.size(), first = world.rank() * block;
        std::vector<Bytes> leaves;
        std::vector<const void*> pointers;
        for (int i = 0; i < block; ++i) leaves.push_back(data(type, first + i, kCount));
        for (const Bytes& leaf : leaves) pointers.push_back(leaf.data());
        Bytes local(leaves[0].size());
        tree_reduce(local.data(), pointers, kCount, type, Reduce::kSum);
        group->all_reduce(buffer(local, type)).wait();
        EXPECT_TRUE(local == whole) << world.size() << " ranks";
        // Negative control: leaves dealt round robin are other subtrees.
        if (world.size() == 2) {
          Bytes dealt = data(type, world.rank(), kCount);
          for (int i = world.rank() + 2; i < kLeaves; i += 2)
            add_into(dealt.data(), data(type, i, kCount).data(), kCount, type);
          group->all_reduce(buffer(dealt, type)).wait();
          EXPECT_FALSE(dealt == whole);
        }
      });
    }
  }
}

TEST_P(GroupOn, GroupsRunIndependentlyAndTicketsQueue) {
  harness::run_ranks(GetParam(), 4, 20.0, [](World& world) {
    const int r = world.rank();
    const auto all = world.make_group("all", {0, 1, 2, 3});
    const auto row = world.make_group("row", r < 2 ? std::vector{0, 1} : std::vector{2, 3});
    const auto column =
        world.make_group("column", r % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3});
    const auto down = world.make_group("down", {0, 1, 2, 3});
    // A receive of what is sent only after the collectives of other groups.
    std::int64_t token = r == 0 ? 41 : 0;
    const Ticket arrives = r > 0 ? down->recv({&token, 1, DType::kI64}, r - 1) : Ticket();
    std::vector<std::int64_t> sums(50, r + 1);
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      Group& group = i % 3 == 0 ? *all : i % 3 == 1 ? *row : *column;
      tickets.push_back(group.all_reduce({&sums[i], 1, DType::kI64}));
    }
    for (const Ticket& ticket : tickets) ticket.wait();
    for (std::size_t i = 0; i < sums.size(); ++i)
      ASSERT_EQ(sums[i], i % 3 == 0 ? 10 : i % 3 == 1 ? (r < 2 ? 3 : 7) : (r % 2 == 0 ? 4 : 6));
    arrives.wait();
    if (r < 3) down->send({&token, 1, DType::kI64}, r + 1).wait();
    EXPECT_EQ(token, 41);
  });
}

TEST_P(GroupOn, GroupRanksFollowTheList) {
  harness::run_ranks(GetParam(), 3, 20.0, [](World& world) {
    if (world.rank() == 1) return;
    for (int i = 0; i < 2; ++i) {  // the same name twice makes two groups
      const auto group = world.make_group("reversed", {2, 0});
      EXPECT_EQ(group->rank(), world.rank() == 2 ? 0 : 1);
      std::int32_t mine = world.rank(), both[2];
      group->all_gather({&mine, 1, DType::kI32}, {both, 2, DType::kI32}).wait();
      EXPECT_EQ(both[0], 2);
      EXPECT_EQ(both[1], 0);
    }
  });
}

TEST_P(GroupOn, WorldExchangesTexts) {
  harness::run_ranks(GetParam(), 3, 20.0, [](World& world) {
    const std::vector<std::string> texts = {"", "plan 0123456789abcdef", std::string(100'000, 'x')};
    EXPECT_EQ(world.exchange(texts[world.rank()]), texts);
    EXPECT_EQ(world.exchange("same"), (std::vector<std::string>{"same", "same", "same"}));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, GroupOn,
                         testing::Values(Backend::kLocal, Backend::kShm, Backend::kGloo,
                                         Backend::kTcp, Backend::kTls, Backend::kHosts),
                         [](const auto& info) { return harness::name(info.param); });

TEST(Group, OfOneCopiesAtOnce) {
  run_local_ranks(1, 1.0, [](World& world) {
    const auto group = world.make_group("one", {0});
    std::vector<float> in = {1, 2, 3}, out(3);
    EXPECT_TRUE(
        group->reduce_scatter({in.data(), 3, DType::kF32}, {out.data(), 3, DType::kF32}).done());
    EXPECT_EQ(out, in);
    out.assign(3, 0);
    EXPECT_TRUE(
        group->all_gather({in.data(), 3, DType::kF32}, {out.data(), 3, DType::kF32}).done());
    EXPECT_EQ(out, in);
    EXPECT_TRUE(group->all_reduce({in.data(), 3, DType::kF32}, Reduce::kAvg).done());
    EXPECT_EQ(in, out);
    EXPECT_TRUE(group->barrier().done());
  });
}

template <typename Call>
void expect_refused(Call call, const std::string& says) {
  try {
    call();
    ADD_FAILURE() << "accepted; should say: " << says;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
  }
}

TEST(Group, RefusesWrongArguments) {
  run_local_ranks(2, 5.0, [](World& world) {
    const auto group = world.make_group("g", {0, 1});
    float x[4] = {};
    const Buffer all{x, 4, DType::kF32}, half{x, 2, DType::kF32}, ints{x, 4, DType::kI32};
    const std::vector<std::int64_t> counts = {1, 2}, negative = {5, -1}, three = {1, 1, 2};
    expect_refused(
        [&] {
          group->all_reduce({x, 4, DType::kU16});
        },
        "cannot take the sum of uint16");
    expect_refused([&] { group->all_reduce(ints, Reduce::kAvg); }, "cannot take the avg of int32");
    expect_refused([&] { group->all_reduce({x, -1, DType::kF32}); }, "negative");
    expect_refused([&] { group->all_reduce({nullptr, 4, DType::kF32}); }, "null");
    expect_refused([&] { group->reduce_scatter(half, all); },
                   "input holds 2 elements, the slices 8");
    expect_refused([&] { group->reduce_scatter(all, {x, 2, DType::kF64}); }, "differ in type");
    expect_refused([&] { group->all_gather(all, half); }, "output holds 2 elements, the slices 8");
    expect_refused([&] { group->all_gather_v(half, all, counts); },
                   "output holds 4 elements, the slices 3");
    expect_refused([&] { group->reduce_scatter_v(all, half, three); }, "3 counts");
    expect_refused(
        [&] {
          group->reduce_scatter_v(all, {x, negative[group->rank()], DType::kF32}, negative);
        },
        "negative");
    expect_refused([&] { group->broadcast(all, 2); }, "root 2");
    expect_refused([&] { group->send(all, group->rank()); }, "peer");
    expect_refused([&] { group->recv(all, 2); }, "peer 2");
    expect_refused([&] { group->all_to_all(half, counts, half, counts); }, "the slices 3");
    expect_refused([&] { world.make_group("x", {0, 1, 1}); }, "distinct ranks");
    expect_refused([&] { world.make_group("x", {0, 1, 2}); }, "distinct ranks");
    expect_refused([&] { world.make_group("x", {1 - world.rank()}); }, "not in");
    group->barrier().wait();  // nothing was started, nothing is broken
  });
}

}  // namespace
}  // namespace trireme::comm::group_test
