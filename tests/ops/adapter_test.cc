// Adapters against their formula, over tensor-parallel ranks and in halves; and what frozen weights save.
#include "trireme/ops/adapters/adapter.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/harness/count_allocations.h"
#include "tests/ops/compare.h"
#include "tests/ops/sharing.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::ops::adapter_test {
namespace {

constexpr std::int64_t kWidth = 19, kInner = 23, kRank = 3;
constexpr double kScale = 1.5;
// Uneven on any number of ranks, as are the rows: 14.
constexpr std::int64_t kSamples = 2, kTokens = 7;

Noise noise(double p, std::uint64_t key = 11) { return {.p = p, .key = key}; }

Adapter adapter_of(const at::Tensor& down, const at::Tensor& up, const Noise& noise) {
  return {.down = down, .up = up, .scale = kScale, .noise = noise};
}

// What the adapter adds, as autograd sees it.
at::Tensor low_rank(const at::Tensor& x, const at::Tensor& down, const at::Tensor& up,
                    const Noise& noise) {
  const at::Tensor read = noise.p > 0 ? dropout(x, noise.p, noise.key) : x;
  return kScale * at::linear(at::linear(read, down), up);
}

TEST(Adapter, AddsALowRankProduct) {
  const Tensors column = {normal({kSamples, kTokens, kWidth}, 1), normal({kInner, kWidth}, 2),
                          normal({kInner}, 3), normal({kRank, kWidth}, 4),
                          normal({kInner, kRank}, 5)};
  const Tensors closing = {normal({kSamples, kTokens, kInner}, 1), normal({kWidth, kInner}, 2),
                           normal({kWidth}, 3), normal({kRank, kInner}, 4),
                           normal({kWidth, kRank}, 5)};
  const Tensors gated = {normal({kSamples, kTokens, kInner}, 1),
                         normal({kSamples, kTokens, kInner}, 2), normal({kWidth, kInner}, 3),
                         normal({kRank, kInner}, 4), normal({kWidth, kRank}, 5)};
  for (const double p : {0.0, 0.3}) {
    expect_equal(
        [=](const Tensors& in) {
          return ops::linear(in[0], in[1], in[2], {}, adapter_of(in[3], in[4], noise(p)));
        },
        [=](const Tensors& in) {
          return at::linear(in[0], in[1], in[2]) + low_rank(in[0], in[3], in[4], noise(p));
        },
        column, 2e-2);
    expect_equal(
        [=](const Tensors& in) {
          return gelu_linear(in[0], in[1], in[2], {}, {}, adapter_of(in[3], in[4], noise(p)));
        },
        [=](const Tensors& in) {
          const at::Tensor active = at::gelu(in[0], "tanh");
          return at::linear(active, in[1], in[2]) + low_rank(active, in[3], in[4], noise(p));
        },
        closing, 2e-2);
    expect_equal(
        [=](const Tensors& in) {
          return gated_linear(in[0], in[1], in[2], {}, {}, adapter_of(in[3], in[4], noise(p)));
        },
        [=](const Tensors& in) {
          const at::Tensor active = at::silu(in[0]) * in[1];
          return at::linear(active, in[2]) + low_rank(active, in[3], in[4], noise(p));
        },
        gated, 2e-2);
  }
}

Input stream(std::uint64_t seed) {
  return {normal({kSamples, kTokens, kWidth}, seed), Shared::kStream};
}
Input inside(std::uint64_t seed) {
  return {normal({kSamples, kTokens, kInner}, seed), Shared::kLast};
}

// The columns of an input that is shared by columns.
Noise noise_here(double p, const TensorParallel& tp) {
  return {.p = p, .key = 11, .columns = kInner, .first = bound(kInner, tp.rank(), tp.size())};
}

// A layer shared by outputs: two projections of which one has a bias nowhere and an adapter; one shared by inputs; the
// feed-forward layers. A and B of each come last.
std::vector<Layer> layers(double p) {
  const Input down{normal({kRank, kWidth}, 5), Shared::kPartial};
  const Input up{normal({kInner, kRank}, 6), Shared::kFirst};
  const Input down_here{normal({kRank, kInner}, 7), Shared::kLast};
  const Input up_whole{normal({kWidth, kRank}, 8), Shared::kPartial};
  const Input opening{normal({kInner, kWidth}, 2), Shared::kFirst};
  const Input closing{normal({kWidth, kInner}, 3), Shared::kLast};
  const Input bias{normal({kWidth}, 4), Shared::kSummed};
  return {{.inputs = {stream(1), opening, {normal({5, kWidth}, 9), Shared::kFirst}, down, up},
           .output = Shared::kLast,
           .run =
               [=](const Tensors& in, const TensorParallel& tp) {
                 return values(column_linears(
                     in[0],
                     {{.weight = in[1], .adapter = adapter_of(in[3], in[4], noise(p))},
                      {.weight = in[2]}},
                     tp));
               }},
          {.inputs = {stream(1), opening, {normal({kInner}, 9), Shared::kFirst}, down, up},
           .output = Shared::kLast,
           .run =
               [=](const Tensors& in, const TensorParallel& tp) {
                 return Tensors{column_linear(in[0], in[1], in[2], tp, {}, Keep::kYes,
                                              adapter_of(in[3], in[4], noise(p)))};
               }},
          {.inputs = {inside(1), closing, bias, down_here, up_whole},
           .output = Shared::kStream,
           .run =
               [=](const Tensors& in, const TensorParallel& tp) {
                 return Tensors{row_linear(in[0], in[1], in[2], tp, {},
                                           adapter_of(in[3], in[4], noise_here(p, tp)))};
               }},
          {.inputs = {inside(1), closing, bias, down_here, up_whole},
           .output = Shared::kStream,
           .run =
               [=](const Tensors& in, const TensorParallel& tp) {
                 return Tensors{gelu_linear(in[0], in[1], in[2], tp, {},
                                            adapter_of(in[3], in[4], noise_here(p, tp)))};
               }},
          {.inputs = {inside(1), inside(9), closing, down_here, up_whole},
           .output = Shared::kStream,
           .run = [=](const Tensors& in, const TensorParallel& tp) {
             return Tensors{gated_linear(in[0], in[1], in[2], tp, {},
                                         adapter_of(in[3], in[4], noise_here(p, tp)))};
           }}};
}

// Also what travels: nothing for the adapter.
TEST(Adapter, IsSharedByRanksAsItsLayer) {
  for (const double p : {0.0, 0.3})
    for (const Layer& layer : layers(p)) {
      Layer plain = layer;
      plain.inputs.resize(plain.inputs.size() - 2);
      plain.run = [run = layer.run](Tensors in, const TensorParallel& tp) {
        in.insert(in.end(), 2, at::Tensor());
        return run(in, tp);
      };
      const Tensors expected = without_sharing(layer, at::kDouble);
      for (const int size : {2, 3, 4})
        for (const bool sequence : {false, true}) {
          const Result actual = with_sharing(layer, at::kDouble, {size, sequence}, expected);
          for (std::size_t i = 0; i < expected.size(); ++i)
            EXPECT_LT(distance(actual.tensors[i], expected[i]), 1e-12)
                << "result " << i << " on " << size << " ranks, sequence " << sequence;
          const Result without = with_sharing(plain, at::kDouble, {size, sequence},
                                              without_sharing(plain, at::kDouble));
          EXPECT_EQ(actual.forward, without.forward);
          EXPECT_EQ(actual.backward, without.backward);
        }
    }
}

TEST(Adapter, HalvesGiveTheBitsOfTheWhole) {
  for (const bool frozen : {false, true})
    for (const double p : {0.0, 0.3})
      for (const int size : {1, 2})
        harness::run_ranks(harness::Backend::kLocal, size, 60, [&](comm::World& world) {
          std::vector<int> everyone(static_cast<std::size_t>(size));
          std::iota(everyone.begin(), everyone.end(), 0);
          const auto group = world.make_group("tp", everyone);
          const TensorParallel tp{.group = group.get(), .sequence = true, .tokens = kTokens};
          const auto gradients = [&](bool halves) {
            Tensors leaves;
            for (const auto& [value, shared] :
                 {Input(stream(1)), Input{normal({kInner, kWidth}, 2), Shared::kFirst},
                  Input{normal({kRank, kWidth}, 3), Shared::kPartial},
                  Input{normal({kInner, kRank}, 4), Shared::kFirst},
                  Input{normal({kWidth, kInner}, 5), Shared::kLast},
                  Input{normal({kWidth}, 6), Shared::kSummed},
                  Input{normal({kRank, kInner}, 7), Shared::kLast},
                  Input{normal({kWidth, kRank}, 8), Shared::kPartial}})
              leaves.push_back(part_of(value, shared, tp).clone().requires_grad_(true));
            if (frozen)
              for (const std::size_t weight : {1, 4, 5}) leaves[weight].set_requires_grad(false);
            const auto later = halves ? std::make_shared<WeightGradients>() : nullptr;
            const Operand opened = column_linear(leaves[0], leaves[1], {}, tp, later, Keep::kYes,
                                                 adapter_of(leaves[2], leaves[3], noise(p)));
            const at::Tensor y = gelu_linear(opened, leaves[4], leaves[5], tp, later,
                                             adapter_of(leaves[6], leaves[7], noise_here(p, tp)));
            if (halves) later->defer();
            y.square().sum().backward();
            if (halves) {
              for (std::size_t i = 1; i < leaves.size(); ++i)
                EXPECT_FALSE(leaves[i].grad().defined());
              later->run();
            }
            Tensors all;
            for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
            return all;
          };
          const Tensors whole = gradients(false), halves = gradients(true);
          for (std::size_t i = 0; i < whole.size(); ++i) {
            const bool trains = !(frozen && (i == 1 || i == 4 || i == 5));
            ASSERT_EQ(whole[i].defined(), trains) << i;
            ASSERT_EQ(halves[i].defined(), trains) << i;
            if (trains) {
              EXPECT_TRUE(at::equal(whole[i], halves[i])) << i;
            }
          }
        });
}

// Matrix products that LibTorch computes on this thread while one lives.
class CountProducts {
 public:
  CountProducts()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& function)
                                           -> std::unique_ptr<at::ObserverContext> {
              const std::string_view name = function.name();
              count() += name == "aten::mm" || name == "aten::addmm" || name == "aten::addmm_";
              return nullptr;
            }).scopes({at::RecordScope::FUNCTION}))) {
    count() = 0;
  }
  ~CountProducts() { at::removeCallback(handle_); }
  static int& count() {
    thread_local int count = 0;
    return count;
  }

 private:
  at::CallbackHandle handle_;
};

struct Frozen {
  std::string name;
  Tensors inputs;
  Tensors params;
  std::function<at::Tensor(const Tensors& in, const Tensors& params, const TensorParallel& tp)> run;
  std::int64_t kept;  // elements beside inputs and parameters, where these are frozen
};

std::vector<Frozen> frozen_ops() {
  const Tensors wide = {normal({kTokens, kWidth}, 1)}, deep = {normal({kTokens, kInner}, 1)};
  const at::Tensor targets = at::zeros({kTokens}, at::kLong);
  const Tensors opening = {normal({kInner, kWidth}, 2), normal({kInner}, 3)};
  const Tensors closing = {normal({kWidth, kInner}, 2), normal({kWidth}, 3)};
  return {{"linear", wide, opening,
           [](const Tensors& in, const Tensors& p, const TensorParallel&) {
             return ops::linear(in[0], p[0], p[1]);
           },
           0},
          {"column_linear", wide, opening,
           [](const Tensors& in, const Tensors& p, const TensorParallel& tp) {
             return column_linear(in[0], p[0], p[1], tp);
           },
           0},
          {"gelu_linear", deep, closing,
           [](const Tensors& in, const Tensors& p, const TensorParallel&) {
             return gelu_linear(in[0], p[0], p[1]);
           },
           kTokens * kInner},
          {"linear_cross_entropy",
           wide,
           {normal({31, kWidth}, 2)},
           [=](const Tensors& in, const Tensors& p, const TensorParallel&) {
             return linear_cross_entropy(in[0], p[0], targets);
           },
           kTokens * 31 + kTokens}};
}

TEST(FrozenWeights, HaveNoProductAndKeepNoInput) {
  harness::run_ranks(harness::Backend::kLocal, 2, 60, [](comm::World& world) {
    const auto group = world.make_group("tp", {0, 1});
    const TensorParallel tp{.group = group.get()};
    for (const Frozen& op : frozen_ops()) {
      const auto products = [&](bool trains) {
        Tensors in, params;
        for (const at::Tensor& input : op.inputs) in.push_back(input.clone().requires_grad_(true));
        for (const at::Tensor& param : op.params)
          params.push_back(param.clone().requires_grad_(trains));
        const at::Tensor y = op.run(in, params, tp).sum();
        const CountProducts counting;
        y.backward();
        EXPECT_TRUE(in[0].grad().defined()) << op.name;
        EXPECT_EQ(params[0].grad().defined(), trains) << op.name;
        return CountProducts::count();
      };
      EXPECT_EQ(products(true), 2) << op.name;
      EXPECT_EQ(products(false), 1) << op.name;
    }
  });
  for (const Frozen& op : frozen_ops()) {
    const harness::CountAllocations memory;
    Tensors in;
    for (const at::Tensor& input : op.inputs)
      in.push_back(
          input.clone().requires_grad_(true).mul(1));  // not a leaf, which its holder keeps
    const std::int64_t before = memory.live_bytes();
    const at::Tensor y = op.run(in, op.params, {});
    const auto result = static_cast<std::int64_t>(y.nbytes());
    const std::int64_t input = static_cast<std::int64_t>(in[0].nbytes());
    in.clear();
    const std::int64_t kept = memory.live_bytes() - before - result + input;
    EXPECT_EQ(kept, op.kept * 8) << op.name;
  }
}

// With shared rows nothing is gathered for a weight without gradient.
TEST(FrozenWeights, AreNoReasonToGather) {
  harness::run_ranks(harness::Backend::kLocal, 2, 60, [](comm::World& world) {
    const auto group = world.make_group("tp", {0, 1});
    CountingGroup counted(*group);
    const TensorParallel tp{.group = &counted, .sequence = true};
    for (const bool later : {false, true}) {
      const at::Tensor x = normal({1, 4, kWidth}, 1).requires_grad_(true);
      const auto gradients = std::make_shared<WeightGradients>();
      const at::Tensor y = column_linear(x, normal({5, kWidth}, 2), {}, tp, gradients);
      const at::Tensor loss =
          linear_cross_entropy(x, normal({31, kWidth}, 3), at::zeros({8}, at::kLong),
                               31 * world.rank(), tp, Logits::kKept, gradients);
      counted.take();
      if (later) gradients->defer();
      (y.sum() + loss).backward();
      gradients->run();
      for (const CountingGroup::Entry& entry : counted.take())
        EXPECT_EQ(entry.verb, comm::Verb::kReduceScatter);
    }
  });
}

}  // namespace
}  // namespace trireme::ops::adapter_test
