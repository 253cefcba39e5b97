// A backward in halves gives the bits of a whole one, and parameters get nothing before the second half.
#include "trireme/ops/weight_gradients.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <limits>

#include "tests/ops/tensors.h"
#include "trireme/base/error.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::ops::weight_gradients_test {
namespace {

struct Op {
  std::string name;
  Tensors inputs;
  Tensors params;
  std::function<at::Tensor(const Tensors& in, const Tensors& params, const WeightGradientsPtr&)>
      run;
};

Tensors leaves_of(const Tensors& values, at::ScalarType type) {
  Tensors leaves;
  for (const at::Tensor& value : values)
    leaves.push_back(value.to(type).clone().requires_grad_(true));
  return leaves;
}

// Of gradients before a backward: none; in the type of sums with numbers in it, with zeros, or with bytes that begin()
// makes count as zeros.
enum class Memory { kNone, kWide, kZeros, kAnything };

void open_gradients(const Tensors& params, Memory memory) {
  std::uint64_t seed = 50;
  for (const at::Tensor& param : params) {
    const at::Tensor sum = normal(param.sizes().vec(), seed++).to(wide(param.scalar_type()));
    if (memory == Memory::kZeros) sum.zero_();
    if (memory == Memory::kAnything) sum.fill_(std::numeric_limits<double>::quiet_NaN());
    if (memory != Memory::kNone) param.mutable_grad() = sum;
  }
}

enum class Backward { kWhole, kWholeWithQueue, kHalves };

// The result, and gradients of all inputs and parameters.
Tensors results(const Op& op, at::ScalarType type, Memory memory, Backward backward) {
  const Tensors in = leaves_of(op.inputs, type), params = leaves_of(op.params, type);
  const auto gradients = backward == Backward::kWhole && memory != Memory::kAnything
                             ? nullptr
                             : std::make_shared<WeightGradients>();
  const at::Tensor out = op.run(in, params, gradients);
  const at::Tensor dout = normal(out.sizes().vec(), 99).to(out.scalar_type());
  if (backward == Backward::kHalves) {
    gradients->defer();
    out.backward(dout);
    for (const at::Tensor& param : params) EXPECT_FALSE(param.grad().defined()) << op.name;
  }
  open_gradients(params, memory);
  if (memory == Memory::kAnything)
    for (const at::Tensor& param : params) gradients->begin(param);
  if (backward == Backward::kHalves)
    gradients->run();
  else
    out.backward(dout);
  if (gradients != nullptr) gradients->settle();
  Tensors all = {out.detach()};
  for (const at::Tensor& leaf : in) all.push_back(leaf.grad());
  for (const at::Tensor& param : params) all.push_back(param.grad());
  return all;
}

std::vector<Op> ops_with_parameters() {
  // More rows than one chunk of a bias's or gain's sum.
  const auto rows = [](std::int64_t width, std::uint64_t seed) {
    return normal({3, 101, width}, seed);
  };
  const at::Tensor targets = (normal({3, 101}, 9).abs() * 1e6).to(at::kLong).remainder(31);
  return {
      {"linear",
       {rows(19, 1)},
       {normal({7, 19}, 2), normal({7}, 3)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return linear(in[0], p[0], p[1], later);
       }},
      {"row_linear",
       {rows(19, 1)},
       {normal({7, 19}, 2)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return row_linear(in[0], p[0], {}, {}, later);
       }},
      {"column_linears",
       {rows(19, 1)},
       {normal({7, 19}, 2), normal({5, 19}, 3), normal({7}, 4), normal({5}, 5)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return at::cat(values(column_linears(in[0], {{p[0], p[2]}, {p[1], p[3]}}, {}, later)), -1);
       }},
      {"gelu_linear",
       {rows(19, 1)},
       {normal({7, 19}, 2), normal({7}, 3)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return gelu_linear(in[0], p[0], p[1], {}, later);
       }},
      {"gated_linear",
       {rows(19, 1), rows(19, 2)},
       {normal({7, 19}, 3), normal({7}, 4)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return gated_linear(in[0], in[1], p[0], {}, later, {}, {}, p[1]);
       }},
      {"layer_norm",
       {rows(19, 1)},
       {normal({19}, 2), normal({19}, 3)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return layer_norm(in[0], p[0], p[1], 1e-5, later);
       }},
      {"rms_norm",
       {rows(19, 1)},
       {normal({19}, 2)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return rms_norm(in[0], p[0], 1e-5, later);
       }},
      {"residual_norm",
       {rows(19, 1), rows(19, 2)},
       {normal({19}, 3), normal({19}, 4)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         const Branching out = residual_norm(in[0], in[1], p[0], p[1], 1e-5, later);
         return at::cat({out.stream, out.normed.value}, -1);
       }},
      {"linear_cross_entropy",
       {rows(19, 1)},
       {normal({31, 19}, 2)},
       [=](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         return linear_cross_entropy(in[0], p[0], targets, 0, {}, Logits::kKept, later);
       }},
      {"one after the other",
       {rows(19, 1)},
       {normal({19}, 2), normal({23, 19}, 3), normal({23}, 4), normal({19, 23}, 5),
        normal({19}, 6)},
       [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
         const Branching out = residual_norm(in[0], {}, p[0], {}, 1e-5, later);
         return out.stream +
                gelu_linear(linear(out.normed, p[1], p[2], later), p[3], p[4], {}, later);
       }},
  };
}

TEST(WeightGradients, HalvesGiveTheBitsOfTheWhole) {
  for (const Op& op : ops_with_parameters())
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
      for (const Memory memory : {Memory::kNone, Memory::kWide, Memory::kAnything}) {
        const Tensors whole = results(op, type, memory, Backward::kWhole);
        for (const Backward backward : {Backward::kWholeWithQueue, Backward::kHalves}) {
          const Tensors actual = results(op, type, memory, backward);
          ASSERT_EQ(actual.size(), whole.size());
          for (std::size_t i = 0; i < whole.size(); ++i) {
            EXPECT_EQ(actual[i].scalar_type(), whole[i].scalar_type());
            EXPECT_TRUE(at::equal(actual[i], whole[i]))
                << op.name << ", result " << i << " in " << type << ", memory "
                << static_cast<int>(memory);
          }
        }
      }
}

TEST(WeightGradients, MemoryThatWasNotZeroedCountsAsZeros) {
  std::vector<Op> ops = ops_with_parameters();
  const at::Tensor tokens = (normal({3, 101}, 9).abs() * 1e6).to(at::kLong).remainder(31);
  // Another op may have named a parameter that they share.
  for (std::size_t i = 0, count = ops.size(); i < count; ++i) {
    Op shared = ops[i];
    shared.name += ", all parameters shared";
    shared.run = [run = ops[i].run](const Tensors& in, const Tensors& p,
                                    const WeightGradientsPtr& later) {
      for (const at::Tensor& param : p) adds_in_place(param, later);
      return run(in, p, later);
    };
    ops.push_back(std::move(shared));
  }
  ops.push_back({"embedding",
                 {},
                 {normal({37, 19}, 1)},
                 [=](const Tensors&, const Tensors& p, const WeightGradientsPtr&) {
                   return ops::embedding(tokens, p[0]);
                 }});
  ops.push_back({"operators of LibTorch, beside a parameter that nothing uses",
                 {normal({11, 19}, 1)},
                 {normal({7, 19}, 2), normal({5}, 3)},
                 [](const Tensors& in, const Tensors& p, const WeightGradientsPtr&) {
                   return at::linear(in[0], p[0]) + at::linear(in[0], p[0].mul(2));
                 }});
  for (const Op& op : ops)
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const Tensors expected = results(op, type, Memory::kZeros, Backward::kWhole);
      const Tensors actual = results(op, type, Memory::kAnything, Backward::kWhole);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(at::equal(actual[i], expected[i]))
            << op.name << ", result " << i << " in " << type;
    }
}

TEST(WeightGradients, AutogradAddsToWhatAnOpHasWritten) {
  const Op both = {"both",
                   {normal({11, 19}, 1)},
                   {normal({7, 19}, 2)},
                   [](const Tensors& in, const Tensors& p, const WeightGradientsPtr& later) {
                     const at::Tensor y = ops::linear(in[0], p[0], {}, later);
                     return y + at::linear(in[0], p[0]);
                   }};
  EXPECT_TRUE(at::equal(results(both, at::kFloat, Memory::kAnything, Backward::kWhole).back(),
                        results(both, at::kFloat, Memory::kZeros, Backward::kWhole).back()));
}

// Neither autograd nor an op that was not given the WeightGradients.
TEST(WeightGradients, NothingElseAddsToWhatAnOpHasNotWritten) {
  for (const bool autograd : {false, true}) {
    const at::Tensor weight = normal({7, 19}, 1).requires_grad_(true), x = normal({4, 19}, 2);
    weight.mutable_grad() = at::zeros({7, 19}, at::kDouble);
    const auto gradients = std::make_shared<WeightGradients>();
    ops::linear(x, weight, {}, gradients);  // so that its gradient waits for the op
    gradients->begin(weight);
    (autograd ? at::linear(x, weight) : ops::linear(x, weight)).sum().backward();
    EXPECT_THROW(gradients->settle(), Error) << autograd;
  }
}

// Several micro-batches: their halves in another order than their forwards.
TEST(WeightGradients, WaitForTheirOwnForward) {
  const at::Tensor weight = normal({7, 19}, 1).requires_grad_(true);
  const Tensors x = {normal({4, 19}, 2), normal({4, 19}, 3)};
  std::vector<WeightGradientsPtr> later;
  Tensors out;
  for (const at::Tensor& each : x) {
    later.push_back(std::make_shared<WeightGradients>());
    out.push_back(linear(each, weight, {}, later.back()));
    later.back()->defer();
  }
  for (const at::Tensor& each : out) each.sum().backward();
  const auto expected = [&](std::size_t i) { return at::ones({7, 4}, at::kDouble).mm(x[i]); };
  later[1]->run();
  EXPECT_TRUE(at::allclose(weight.grad(), expected(1)));
  later[0]->run();
  EXPECT_TRUE(at::allclose(weight.grad(), expected(0) + expected(1)));
  later[0]->run();  // nothing is left
  EXPECT_TRUE(at::allclose(weight.grad(), expected(0) + expected(1)));
}

TEST(WeightGradients, FrozenParametersGetNone) {
  for (Op& op : ops_with_parameters()) {
    const Tensors in = leaves_of(op.inputs, at::kFloat);
    Tensors params = leaves_of(op.params, at::kFloat);
    for (std::size_t i = 0; i < params.size(); i += 2) params[i].set_requires_grad(false);
    const auto later = std::make_shared<WeightGradients>();
    const at::Tensor out = op.run(in, params, later);
    later->defer();
    out.sum().backward();
    later->run();
    for (std::size_t i = 0; i < params.size(); ++i)
      EXPECT_EQ(params[i].grad().defined(), i % 2 == 1) << op.name << " " << i;
  }
}

TEST(WeightGradients, RecomputedLogitsHaveNoHalves) {
  const at::Tensor x = normal({4, 19}, 1), weight = normal({31, 19}, 2).requires_grad_(true);
  const auto later = std::make_shared<WeightGradients>();
  const at::Tensor loss =
      linear_cross_entropy(x, weight, at::zeros({4}, at::kLong), 0, {}, Logits::kRecomputed, later);
  later->defer();
  EXPECT_THROW(loss.backward(), Error);
}

}  // namespace
}  // namespace trireme::ops::weight_gradients_test
