// A ring that breaks: errors reach every rank, and none lets go of memory that a transfer still has.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/harness/ranks.h"
#include "tests/ops/tensors.h"
#include "trireme/base/error.h"
#include "trireme/ops/attention/attention.h"

namespace trireme::ops::ring_failure_test {
namespace {

using comm::Verb;

constexpr AttentionHeads kHeads{.heads = 2, .kv_heads = 1};

// The group of a rank whose every receive takes its time, and whose sends fail from the `sends`-th on.
class BreakingGroup : public comm::Group {
 public:
  BreakingGroup(int rank, int size, int sends) : Group("breaking", rank, size), sends_(sends) {}
  ~BreakingGroup() override { join(); }
  void abort(const std::string&) override {}
  // Of receives, and how many have ended.
  int begun = 0;
  std::atomic<int> ended = 0;

 private:
  comm::Ticket start(comm::Operation op) override {
    comm::Pledge pledge;
    if (op.verb == Verb::kSend) {
      if (sends_-- > 0)
        pledge.keep();
      else
        pledge.fail(Error(ErrorKind::kPeerLost, "the next rank is gone"));
      return pledge.ticket();
    }
    ++begun;
    join();
    late_ = std::thread([this, pledge, op = std::move(op)]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto bytes = static_cast<std::size_t>(op.count()) * size_of(op.type);
      std::fill_n(op.out, bytes, std::byte{0});
      ++ended;
      pledge.keep();
    });
    return pledge.ticket();
  }
  void join() {
    if (late_.joinable()) late_.join();
  }

  int sends_;
  std::thread late_;
};

at::Tensor make_qkv() { return normal({1, 8, 4 * 6}, 1).requires_grad_(true); }

void expect_lost(const std::function<void()>& body, const std::string& cause) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kPeerLost) << e.what();
    EXPECT_NE(std::string(e.what()).find(cause), std::string::npos) << e.what();
  }
}

// Three ranks send twice forward and five times backward.
TEST(BrokenRing, KeepsMemoryUntilTransfersHaveEnded) {
  for (const int rank : {0, 1})
    for (int sends = 0; sends < 7; ++sends) {
      SCOPED_TRACE(fmt::format("rank {}, {} sends", rank, sends));
      BreakingGroup group(rank, 3, sends);
      const ContextParallel context{.group = &group};
      expect_lost(
          [&] {
            attention_packed(make_qkv(), kHeads, Mask::causal(), context).value.sum().backward();
          },
          "the next rank is gone");
      EXPECT_EQ(group.ended, group.begun);
      EXPECT_GT(group.begun, 0);
    }
}

// Passes the first `operations` on, then its rank fails.
class FailingGroup : public comm::Group {
 public:
  FailingGroup(comm::Group& inner, int operations)
      : Group(inner.name(), inner.rank(), inner.size()), inner_(inner), operations_(operations) {}
  void abort(const std::string& cause) override { inner_.abort(cause); }

 private:
  comm::Ticket start(comm::Operation op) override {
    if (operations_-- <= 0) fail(ErrorKind::kNonFinite, "out of luck");
    if (op.verb == Verb::kSend) return inner_.send({op.in, op.in_counts[0], op.type}, op.peer);
    return inner_.recv({op.out, op.out_counts[0], op.type}, op.peer);
  }

  comm::Group& inner_;
  int operations_;
};

// Without the last of the 14 operations, on which only the next rank depends.
TEST(BrokenRing, EndsOnEveryRankWithTheCause) {
  for (int operations = 0; operations < 13; ++operations) {
    SCOPED_TRACE(operations);
    const auto run = [&] {
      harness::run_ranks(harness::Backend::kLocal, 3, 60.0, [&](comm::World& world) {
        const auto group = world.make_group("cp", {0, 1, 2});
        const auto step = [&](comm::Group& through) {
          attention_packed(make_qkv(), kHeads, Mask::causal(), {.group = &through})
              .value.sum()
              .backward();
        };
        if (world.rank() != 1) return expect_lost([&] { step(*group); }, "out of luck");
        FailingGroup failing(*group, operations);
        step(failing);
      });
    };
    try {
      run();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kNonFinite) << e.what();
    }
  }
}

}  // namespace
}  // namespace trireme::ops::ring_failure_test
