// Sums of gradients as integers: equal bits in every layout with equal senders and by every algorithm, the sum of a small
// calculation of their definition, bytes and memory as the plan has them.
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "tests/exec/coded_cases.h"
#include "tests/harness/counting_world.h"
#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/simulate/cost.h"

namespace trireme::exec::integer_sums_test {
namespace {

using harness::Layout;
using harness::run_layout;
using harness::Subject;
using harness::Trace;
using plan::CodedSums;

using algorithm::Kind;
using coded_cases::Degrees;
using coded_cases::kWidth;
using coded_cases::subject;

CodedSums integers(const char* text, int senders, const char* back = nullptr,
                   std::optional<DType> residual = std::nullopt) {
  CodedSums sums{.codec = codec::parse(text), .senders = senders, .residual = residual};
  if (back != nullptr) sums.back = codec::parse(back);
  return sums;
}

Layout layout(const Degrees& degrees, int global, const CodedSums& sums,
              Kind algorithm = Kind::kAuto) {
  Layout one = coded_cases::layout(degrees, global, sums);
  one.recipe.algorithm = algorithm;
  return one;
}

TEST(IntegerSums, LayoutsAndAlgorithmsWithEqualSendersGiveTheSameBits) {
  constexpr int kGlobal = 8, kSteps = 2;
  const Subject run = subject(kGlobal);
  const auto all = [&](const CodedSums& sums, const std::vector<Degrees>& others) {
    const Trace reference = run_layout(run, layout({1, 1, 0}, kGlobal, sums), kSteps);
    for (const Degrees& one : others)
      for (const Kind kind : {Kind::kAuto, Kind::kRing}) {
        const Layout other = layout(one, kGlobal, sums, kind);
        EXPECT_EQ(run_layout(run, other, kSteps), reference)
            << other.name() << " " << codec::print(sums.codec) << " senders " << sums.senders
            << " by " << algorithm::name(kind);
      }
    return reference;
  };
  const std::vector<Degrees> two = {{2, 1, 0}, {1, 2, 1}, {2, 2, 1}, {2, 2, 3}};
  const std::vector<Degrees> four = {{2, 1, 0}, {1, 2, 1}, {4, 1, 0}, {1, 4, 1}};
  const Trace i8x = all(integers("i8x", 2), two);
  EXPECT_NE(all(integers("i8x", 4), four), i8x);
  EXPECT_NE(all(integers("i8x", 2, "q8"), {{2, 1, 0}, {2, 2, 1}}), i8x);
  all(integers("i4x", 2), {{1, 2, 1}, {2, 2, 2}});
  all(integers("i4x", 4, "q8", DType::kF32), four);
  for (const Kind kind : {Kind::kDirect, Kind::kHalving, Kind::kTree, Kind::kRingGather})
    EXPECT_EQ(run_layout(run, layout({2, 1, 0}, kGlobal, integers("i8x", 2), kind), kSteps), i8x)
        << algorithm::name(kind);
  const Trace dense =
      run_layout(run, coded_cases::layout({1, 1, 0}, kGlobal, std::nullopt), kSteps);
  EXPECT_NE(i8x, dense);
  EXPECT_LT(distance(i8x, dense), 0.5);
}

TEST(IntegerSums, EveryBackEndGivesTheSameBits) {
  constexpr int kGlobal = 4;
  const Subject run = subject(kGlobal);
  const Trace reference = run_layout(run, layout({1, 1, 0}, kGlobal, integers("i8x", 4)), 2);
  using harness::Backend;
  for (const Backend backend : {Backend::kShm, Backend::kTls, Backend::kHosts})
    for (const Kind kind : {Kind::kAuto, Kind::kRing}) {
      const Layout one = layout({4, 1, 0}, kGlobal, integers("i8x", 4), kind);
      Trace trace;
      harness::run_ranks(backend, 4, 60, [&](comm::World& world) {
        Trace mine = harness::run_rank(run, one, 2, world);
        if (world.rank() == 0) trace = std::move(mine);
      });
      EXPECT_EQ(trace, reference) << harness::name(backend) << " " << algorithm::name(kind);
    }
}

// Writes down the gradient that it is given.
class Noted : public Optimizer {
 public:
  const std::vector<StateSpec>& states() const override { return states_; }
  void update(at::Tensor, const at::Tensor& grad, std::span<at::Tensor> states,
              std::span<const UpdateSegment>, const UpdateArgs&) override {
    states[0].copy_(grad);
  }

 private:
  std::vector<StateSpec> states_ = {{.name = "sent"}};
};

Model linear() {
  static std::mutex one_generator;
  const std::lock_guard lock(one_generator);
  torch::nn::Linear layer(kWidth, kWidth);
  ModuleModel model("linear");
  model.input("x");
  model.input("y");
  model.add("layer", layer.ptr(), {"x"}, [=](const auto& in) mutable { return layer(in[0]); });
  model.loss("loss", {"layer", "y"}, [](const auto& in) { return (in[0] * in[1]).sum(); });
  return std::move(model).build();
}

// The definition, one element at a time: the least e with |x| <= q_max 2^e over a block of all senders, and integers of
// x / 2^e to the nearest, ties to even, which are added.
at::Tensor sum_by_definition(const std::vector<at::Tensor>& senders, std::int64_t block, int most) {
  at::Tensor result = at::zeros_like(senders[0]);
  float* const out = result.data_ptr<float>();
  const std::int64_t all = result.numel();
  for (std::int64_t begin = 0; begin < all; begin += block) {
    const std::int64_t end = std::min(begin + block, all);
    double largest = 0;
    for (const at::Tensor& x : senders)
      for (std::int64_t i = begin; i < end; ++i)
        largest = std::max(largest, std::abs(static_cast<double>(x.data_ptr<float>()[i])));
    int e = -127;
    while (largest > std::ldexp(most, e)) ++e;
    for (std::int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (const at::Tensor& x : senders)
        sum += std::nearbyint(std::ldexp(static_cast<double>(x.data_ptr<float>()[i]), -e));
      out[i] = static_cast<float>(std::ldexp(sum, e));
    }
  }
  return result;
}

// Gradients of a loss that is linear in the parameters are known.
TEST(IntegerSums, TheSumIsThatOfTheDefinition) {
  constexpr int kSenders = 4;
  std::vector<std::vector<at::Tensor>> batches;
  std::vector<at::Tensor> gradients;  // weight [out, in], then bias
  for (int sender = 0; sender < kSenders; ++sender) {
    const at::Tensor x = at::empty({1, kWidth}).normal_(), y = at::empty({1, kWidth}).normal_();
    y.mul_(std::ldexp(1.0, -3 * sender));
    if (sender == 0) y[0].narrow(0, 0, 8).zero_();
    batches.push_back({x, y});
    gradients.push_back(at::cat({at::outer(y[0], x[0]).flatten(), y[0]}));
  }
  for (const auto& [codec, most] : {std::pair{"i8x", 127}, {"i4x", 7}}) {
    const at::Tensor expected = sum_by_definition(gradients, /*block=*/16, most);
    for (const Degrees& degrees : std::vector<Degrees>{{1, 1, 0}, {2, 1, 0}, {4, 1, 0}}) {
      const Layout one = layout(degrees, kSenders, integers(codec, kSenders), Kind::kRing);
      comm::run_local_ranks(mesh::Mesh(one.degrees).world(), 60, [&](comm::World& world) {
        Noted optimizer;
        Session session(linear(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                        optimizer);
        const int each = one.recipe.micro_batches;
        session.step({.update = {.step = 1}, .load = [&](int mb) {
                        return batches[static_cast<std::size_t>(world.rank() * each + mb)];
                      }});
        for (const StateSlice& slice : session.units().local_slices()) {
          if (slice.kind != "sent") continue;
          EXPECT_TRUE(
              session.units().read(slice).equal(expected.narrow(0, slice.offset, slice.count)))
              << codec << " " << one.name();
        }
      });
    }
  }
}

// What all steps have sent and what is left add up to the gradients.
TEST(IntegerSums, ResidualsKeepWhatCodesLeaveOut) {
  constexpr int kSteps = 4;
  class Sum : public Noted {
    void update(at::Tensor, const at::Tensor& grad, std::span<at::Tensor> states,
                std::span<const UpdateSegment>, const UpdateArgs& args) override {
      states[0].add_(grad * args.grad_scale);
    }
  };
  const at::Tensor x = at::empty({1, kWidth}).normal_(), y = at::empty({1, kWidth}).normal_();
  const at::Tensor gradient = at::cat(
      {at::outer(y[0].to(at::kDouble), x[0].to(at::kDouble)).flatten(), y[0].to(at::kDouble)});
  for (const char* codec : {"i8x", "i4x"}) {
    const Layout one = layout({1, 1, 0}, 2, integers(codec, 2, nullptr, DType::kF32));
    comm::run_local_ranks(1, 60, [&](comm::World& world) {
      Sum optimizer;
      Session session(linear(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                      optimizer);
      for (int step = 0; step < kSteps; ++step)
        session.step({.step = step, .update = {.step = step + 1}, .load = [&](int) {
                        return std::vector<at::Tensor>{x, y};
                      }});
      at::Tensor sent;
      std::vector<at::Tensor> left;
      for (const StateSlice& slice : session.units().owned_slices()) {
        if (slice.kind == "sent") sent = session.units().read(slice).to(at::kDouble);
        if (slice.sender >= 0) left.push_back(session.units().read(slice).to(at::kDouble));
      }
      ASSERT_EQ(left.size(), 2u);
      EXPECT_GT(left[0].norm().item<double>(), 0) << codec;
      const double wrong = (sent + left[0] + left[1] - 2 * kSteps * gradient).norm().item<double>();
      EXPECT_LT(wrong, 1e-5 * kSteps * gradient.norm().item<double>()) << codec;
    });
  }
}

// A sender whose sum is not finite stops every rank.
TEST(IntegerSums, OneSenderThatIsNotFiniteStopsEveryRank) {
  constexpr int kGlobal = 4;
  Subject run = subject(kGlobal);
  run.batch = [inner = run.batch](std::int64_t step, std::int64_t micro_batch) {
    std::vector<at::Tensor> batch = inner(step, micro_batch);
    if (step == 1 && micro_batch == 3) batch[0][0][0] = std::numeric_limits<float>::infinity();
    return batch;
  };
  for (const Kind kind : {Kind::kAuto, Kind::kRing}) try {
      run_layout(run, layout({4, 1, 0}, kGlobal, integers("i8x", 4), kind), 3);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("gradient norm nan"));
    }
}

struct Bytes {
  std::int64_t sent = 0;  // of all ranks
  double priced = 0;
};

Bytes bytes_of(const Layout& layout, int global) {
  Bytes all;
  std::mutex mutex;
  const Subject run = subject(global);
  comm::run_local_ranks(mesh::Mesh(layout.degrees).world(), 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(layout.degrees), .recipe = layout.recipe},
                    world, *optimizer);
    session.step({.update = {.lr = 0.01}, .load = [&](int mb) { return run.batch(0, mb); }});
    double priced = 0;
    for (const plan::Instr& line : session.plan().list(world.rank()))
      if (line.unit >= 0 && !line.axes.empty())
        priced += simulate::sent_bytes(session.plan(), line);
    const std::int64_t sent = world.take_bytes_sent("dp_replicate");
    const std::lock_guard lock(mutex);
    all.sent += sent;
    all.priced += priced;
  });
  return all;
}

TEST(IntegerSums, BytesAreThoseOfTheFormula) {
  constexpr int kGlobal = 4;
  constexpr std::int64_t kUnit = kWidth * (kWidth + 1), kBlocks = kUnit / 16, kUnits = 2;
  constexpr std::int64_t kNorm = 2 * 2 * kWidth * 4;  // the norm's 512 parameters, there and back
  const auto expect = [&](int ranks, const CodedSums& sums, Kind kind, std::int64_t each) {
    SCOPED_TRACE(fmt::format("{} of {} by {}", codec::print(sums.codec), ranks, name(kind)));
    const Bytes bytes = bytes_of(layout({ranks, 1, 0}, kGlobal, sums, kind), kGlobal);
    EXPECT_EQ(bytes.sent, (ranks - 1) * (kUnits * each + kNorm));
    EXPECT_DOUBLE_EQ(bytes.priced, static_cast<double>(bytes.sent));
  };
  constexpr std::int64_t kExponents = 2 * kBlocks;  // there and back
  // Directly: codes of one sender, and the sum of four in 16 bits (i8x) or 8 (i4x).
  expect(4, integers("i8x", 4), Kind::kAuto, kExponents + kUnit + 2 * kUnit);
  expect(4, integers("i4x", 4), Kind::kAuto, kExponents + kUnit / 2 + kUnit);
  expect(4, integers("i4x", 4, "q4"), Kind::kAuto, kExponents + kUnit / 2 + kBlocks * 10);
  // By a ring, whose partial sums have the width of the whole.
  expect(4, integers("i8x", 4), Kind::kRing, kExponents + 2 * 2 * kUnit);
  expect(4, integers("i4x", 4), Kind::kRing, kExponents + 2 * kUnit);
  expect(4, integers("i8x", 4, "q8"), Kind::kRing, kExponents + 2 * kUnit + kBlocks * 18);
  // Two senders a rank, whose codes are added before they are sent.
  expect(2, integers("i8x", 4), Kind::kAuto, kExponents + 2 * kUnit + 2 * kUnit);
  expect(2, integers("i4x", 4), Kind::kAuto, kExponents + kUnit + kUnit);
  expect(1, integers("i8x", 4), Kind::kAuto, 0);
}

TEST(IntegerSums, MemoryIsWhatThePlanPredicted) {
  constexpr int kGlobal = 8;
  const Subject run = subject(kGlobal);
  for (const Degrees& degrees :
       std::vector<Degrees>{{1, 1, 0}, {2, 1, 0}, {1, 2, 1}, {4, 1, 0}, {1, 4, 1}})
    for (const CodedSums& sums : {integers("i8x", 4), integers("i4x", 4, "q8", DType::kF32)})
      for (const Kind kind : {Kind::kAuto, Kind::kRing}) {
        const Layout one = layout(degrees, kGlobal, sums, kind);
        comm::run_local_ranks(mesh::Mesh(one.degrees).world(), 60, [&](comm::World& world) {
          const std::unique_ptr<Optimizer> optimizer = run.optimizer();
          Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe},
                          world, *optimizer);
          session.step({.update = {.lr = 0.01}, .load = [&](int mb) { return run.batch(0, mb); }});
          std::int64_t peak = 0;
          for (const plan::MemoryPoint& point :
               plan::memory_account(session.plan(), world.rank()).at_line) {
            std::int64_t sum = 0;
            for (int kind_of = 0; kind_of < plan::kMemoryKinds; ++kind_of)
              if (kind_of != static_cast<int>(plan::MemoryKind::kActivations))
                sum += point[kind_of];
            peak = std::max(peak, sum);
          }
          // q8 on its way back takes more than codes of i4x, when other memory is free again.
          const std::int64_t spared = sums.back ? peak / 500 : 0,
                             measured = session.units().memory().peak;
          EXPECT_TRUE(measured <= peak && measured >= peak - spared)
              << measured << " of " << peak << " bytes, " << one.name() << " rank " << world.rank()
              << " " << codec::print(sums.codec) << " " << name(kind);
        });
      }
}

}  // namespace
}  // namespace trireme::exec::integer_sums_test
