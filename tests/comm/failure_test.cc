// Every way to lose a rank ends in a named error on every survivor, in time.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/harness/ranks.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/gloo/gloo_world.h"

namespace trireme::comm::failure_test {
namespace {

using harness::Backend;

// Far less than the timeouts that must not be waited for, far more than a busy machine may take.
constexpr double kSoon = 40;
constexpr double kLong = 120;

struct Outcome {
  std::string message;  // empty: no error
  ErrorKind kind = ErrorKind::kInternal;
  double seconds = 0;
};

Outcome outcome_of(const std::function<void()>& body) {
  const Stopwatch watch;
  try {
    body();
    return {"", ErrorKind::kInternal, watch.seconds()};
  } catch (const Error& e) {
    return {e.what(), e.kind(), watch.seconds()};
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class FailureOn : public testing::TestWithParam<Backend> {};

TEST_P(FailureOn, SilentPeerIsNamedWithinTheTimeout) {
  harness::run_ranks(GetParam(), 3, 1.0, [](World& world) {
    const auto group = world.make_group("dp", {0, 1, 2});
    std::vector<float> x(4, 1);
    const Buffer buffer{x.data(), 4, DType::kF32};
    group->all_reduce(buffer).wait();
    if (world.rank() == 2) {
      while (!world.cause()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const Outcome late = outcome_of([&] { group->all_reduce(buffer).wait(); });
      EXPECT_EQ(late.kind, ErrorKind::kPeerLost);
      EXPECT_TRUE(contains(late.message,
                           "rank 2: all_reduce #1 of group 'dp' (16 bytes) not started: rank "))
          << late.message;
      EXPECT_LT(late.seconds, kSoon);
      return;
    }
    const Outcome lost = outcome_of([&] { group->all_reduce(buffer).wait(); });
    EXPECT_EQ(lost.kind, ErrorKind::kPeerLost);
    EXPECT_TRUE(contains(
        lost.message, fmt::format("rank {}: all_reduce #1 of group 'dp' (16 bytes)", world.rank())))
        << lost.message;
    EXPECT_TRUE(contains(lost.message, "lost rank 2 after ")) << lost.message;
    EXPECT_TRUE(contains(lost.message, " s: no answer within the timeout of 1 s")) << lost.message;
    EXPECT_GT(lost.seconds, 0.9);
    EXPECT_LT(lost.seconds, kSoon);
  });
}

TEST_P(FailureOn, CauseReachesThoseWhoWaitAndThoseWhoComeLater) {
  const auto run = [&] {
    harness::run_ranks(GetParam(), 4, kLong, [](World& world) {
      const auto all = world.make_group("all", {0, 1, 2, 3});
      all->barrier().wait();
      if (world.rank() == 1) fail(ErrorKind::kNonFinite, "loss is NaN at step 7");
      // Rank 3 waits for rank 2, which waits for rank 1: the news must not depend on who waits for whom.
      std::int32_t token = 0;
      const auto pairs = world.make_group("pairs", {0, 1, 2, 3});
      const Outcome lost = outcome_of([&] {
        const Ticket first = pairs->recv({&token, 1, DType::kI32}, (world.rank() + 3) % 4);
        const Ticket second = pairs->barrier();
        first.wait();
        second.wait();
      });
      EXPECT_EQ(lost.kind, ErrorKind::kPeerLost);
      EXPECT_TRUE(contains(lost.message, "loss is NaN at step 7")) << lost.message;
      EXPECT_TRUE(contains(lost.message, "rank 1 failed")) << lost.message;
      EXPECT_LT(lost.seconds, kSoon);
      const Outcome later = outcome_of([&] { all->barrier().wait(); });
      EXPECT_TRUE(contains(later.message, "loss is NaN at step 7")) << later.message;
      EXPECT_TRUE(contains(world.cause().value_or(""), "loss is NaN"));
    });
  };
  const Outcome whole = outcome_of(run);
  EXPECT_EQ(whole.kind, ErrorKind::kNonFinite);  // the origin, not an echo
  EXPECT_EQ(whole.message, "loss is NaN at step 7");
}

// Each pair of calls disagrees in one thing; nobody's data may change, both sides are named.
TEST_P(FailureOn, DisagreementIsFoundBeforeDataIsApplied) {
  using Call = std::function<Ticket(Group&, float*)>;
  const auto sum = [](std::int64_t count, DType type, Reduce reduce) -> Call {
    return [=](Group& group, float* x) { return group.all_reduce({x, count, type}, reduce); };
  };
  const Call broadcast0 = [](Group& group, float* x) {
    return group.broadcast({x, 100, DType::kF32}, 0);
  };
  const Call broadcast1 = [](Group& group, float* x) {
    return group.broadcast({x, 100, DType::kF32}, 1);
  };
  const Call send = [](Group& group, float* x) { return group.send({x, 6, DType::kF32}, 1); };
  const Call recv = [](Group& group, float* x) { return group.recv({x, 4, DType::kF32}, 0); };
  struct Case {
    Call first, second;
    std::string says_first, says_second;
  };
  const std::vector<Case> cases = {
      {sum(4, DType::kF32, Reduce::kSum), sum(6, DType::kF32, Reduce::kSum), "of 4 fp32",
       "of 6 fp32"},
      {sum(4, DType::kF32, Reduce::kSum), sum(4, DType::kI32, Reduce::kSum), "of 4 fp32",
       "of 4 int32"},
      {sum(4, DType::kF32, Reduce::kSum), sum(4, DType::kF32, Reduce::kMax), "#0 sum", "#0 max"},
      {sum(5000, DType::kF32, Reduce::kSum), sum(4999, DType::kF32, Reduce::kSum), "of 5000 fp32",
       "of 4999 fp32"},
      {sum(100, DType::kF32, Reduce::kSum), broadcast0, "all_reduce #0", "broadcast #0"},
      {broadcast0, sum(100, DType::kF32, Reduce::kSum), "broadcast #0", "all_reduce #0"},
      {send, recv, "send #0 of 6 fp32", "send #0 of 4 fp32"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::mutex mutex;
    std::vector<std::string> mismatches;
    harness::run_ranks(GetParam(), 2, kLong, [&](World& world) {
      const auto group = world.make_group("dp", {0, 1});
      std::vector<float> x(5000, 3.0f);
      const Call& call = world.rank() == 0 ? cases[i].first : cases[i].second;
      const Outcome outcome = outcome_of([&] {
        call(*group, x.data()).wait();
        group->barrier().wait();
      });
      EXPECT_FALSE(outcome.message.empty()) << "case " << i << " rank " << world.rank();
      EXPECT_EQ(x, std::vector<float>(5000, 3.0f)) << "case " << i;
      std::lock_guard lock(mutex);
      if (outcome.kind == ErrorKind::kInternal) mismatches.push_back(outcome.message);
    });
    // A rank whose message was taken may already have gone on to the barrier: one of them knows the pair.
    int named = 0;
    for (const std::string& text : mismatches) {
      EXPECT_TRUE(contains(text, "rank 0") && contains(text, "rank 1") &&
                  contains(text, "group 'dp'"))
          << text;
      named += contains(text, cases[i].says_first) && contains(text, cases[i].says_second);
    }
    EXPECT_GE(named, 1) << "case " << i;
  }
}

// Control of the test above: the same calls change the same data where both ranks make one.
TEST_P(FailureOn, AgreementChangesData) {
  harness::run_ranks(GetParam(), 2, kLong, [&](World& world) {
    const auto group = world.make_group("dp", {0, 1});
    std::vector<float> x(5000, 3.0f);
    group->all_reduce({x.data(), 5000, DType::kF32}).wait();
    EXPECT_EQ(x, std::vector<float>(5000, 6.0f));
  });
}

TEST_P(FailureOn, LeavingUnfinishedOperationsIsTold) {
  harness::run_ranks(GetParam(), 2, kLong, [](World& world) {
    std::vector<float> x(4, 1);
    auto group = world.make_group("dp", {0, 1});
    if (world.rank() == 0) {
      std::int32_t never = 0;
      group->recv({&never, 1, DType::kI32}, 1);
      group.reset();
      return;
    }
    const Outcome outcome = outcome_of([&] {
      group->all_reduce({x.data(), 4, DType::kF32}).wait();
    });
    EXPECT_TRUE(contains(outcome.message, "rank 0 left group 'dp' with 1 unfinished operation"))
        << outcome.message;
    EXPECT_LT(outcome.seconds, kSoon);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, FailureOn,
                         testing::Values(Backend::kLocal, Backend::kShm, Backend::kGloo,
                                         Backend::kTcp, Backend::kTls, Backend::kHosts),
                         [](const auto& info) { return harness::name(info.param); });

TEST(GlooWorld, PortInUseIsAUsersError) {
  const int port = free_port();
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(port));
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  const Outcome outcome = outcome_of([&] { connect_gloo({.rank = 0, .size = 2, .port = port}); });
  close(fd);
  EXPECT_EQ(outcome.kind, ErrorKind::kUsage);
  EXPECT_TRUE(contains(outcome.message, std::to_string(port))) << outcome.message;
  EXPECT_FALSE(contains(outcome.message, "\n"));
}

TEST(GlooWorld, MissingRanksAreNamed) {
  const Outcome outcome = outcome_of(
      [] { connect_gloo({.rank = 0, .size = 3, .port = free_port(), .connect_timeout_s = 1}); });
  EXPECT_EQ(outcome.kind, ErrorKind::kPeerLost);
  EXPECT_TRUE(contains(outcome.message, "did not come") && contains(outcome.message, ": 1 2"))
      << outcome.message;
  EXPECT_LT(outcome.seconds, kSoon);
}

TEST(GlooWorld, AProcessThatSigpipeWouldEndIsRefused) {
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  const Outcome outcome =
      outcome_of([] { connect_gloo({.rank = 0, .size = 1, .port = free_port()}); });
  std::signal(SIGPIPE, before);
  EXPECT_EQ(outcome.kind, ErrorKind::kInternal);
  EXPECT_TRUE(contains(outcome.message, "SIGPIPE")) << outcome.message;
  EXPECT_LT(outcome.seconds, kSoon);  // nobody else is there to be waited for
}

TEST(GlooWorld, BadConfigIsRefused) {
  EXPECT_EQ(outcome_of([] { connect_gloo({.rank = 2, .size = 2}); }).kind, ErrorKind::kUsage);
  EXPECT_EQ(outcome_of([] { connect_gloo({.size = 2, .port = 70000}); }).kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace trireme::comm::failure_test
