// Views of a held-out sample: their probabilities are averaged.
#include <ATen/ops/allclose.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trireme/families/probe/blocks.h"
#include "trireme/families/probe/model.h"

namespace trireme::blocks::probe_test {
namespace {

TEST(ProbeViews, AreAveragedAfterTheSoftmax) {
  const at::Tensor scores =
      at::tensor({4.0, 0.0, 0.0, 0.0, 1.0, 0.9, 0.0, 1.0, 0.9, 1.0, 2.0, 3.0, 0.0, 0.0, 5.0})
          .to(at::kDouble)
          .view({5, 3});
  constexpr std::int64_t kSame = model::kSameSample;
  const Answers answers =
      average_views(scores, at::tensor(std::vector<std::int64_t>{0, kSame, kSame, 2, -100}));
  ASSERT_EQ(answers.log_probabilities.sizes(), (at::IntArrayRef{3, 3}));
  EXPECT_TRUE(answers.labels.equal(at::tensor(std::vector<std::int64_t>{0, 2, -100})));
  const at::Tensor each = at::softmax(scores, -1);
  EXPECT_TRUE(
      at::allclose(answers.log_probabilities[0].exp(), each.narrow(0, 0, 3).mean(0), 0, 1e-15));
  EXPECT_TRUE(at::allclose(answers.log_probabilities[1].exp(), each[3], 0, 1e-15));
  // Two views of three say 1, but the first is surer; by scores or by votes it would be 1 or a tie.
  EXPECT_EQ(answers.log_probabilities[0].argmax().item<std::int64_t>(), 0);
}

TEST(ProbeViews, OneOfEachSampleIsTheSampleItself) {
  const at::Tensor scores = at::tensor({1.0, 2.0, 3.0, 1.0}).to(at::kDouble).view({2, 2});
  const at::Tensor labels = at::tensor(std::vector<std::int64_t>{1, -100});
  const Answers answers = average_views(scores, labels);
  EXPECT_TRUE(answers.log_probabilities.equal(at::log_softmax(scores, -1)));
  EXPECT_TRUE(answers.labels.equal(labels));
}

}  // namespace
}  // namespace trireme::blocks::probe_test
