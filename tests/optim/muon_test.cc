#include "trireme/optim/muon.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trireme/optim/make_optimizer.h"

namespace trireme::optim::muon_test {
namespace {

using config::NewtonSchulz;
using config::UpdateScale;

constexpr NewtonSchulz kAll[] = {NewtonSchulz::kSimple, NewtonSchulz::kQuintic,
                                 NewtonSchulz::kPolar};

at::Tensor matrix(std::vector<std::vector<double>> rows) {
  at::Tensor all = at::zeros({std::ssize(rows), std::ssize(rows[0])}, at::kDouble);
  for (std::int64_t r = 0; r < all.size(0); ++r)
    for (std::int64_t c = 0; c < all.size(1); ++c) all[r][c] = rows[r][c];
  return all;
}

at::Tensor drawn(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return at::zeros({rows, columns}, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor orthogonal(at::Tensor u, NewtonSchulz iteration) {
  u = u.clone();
  orthogonalise(u, iteration);
  return u;
}

void expect_near(const at::Tensor& a, const at::Tensor& b, double most) {
  EXPECT_LE((a - b).abs().max().item<double>(), most) << a << b;
}

// A diagonal of a value and what fills the norm up to 1 has the value's singular value alone.
TEST(Muon, SingularValuesAreThoseOfThePublishedIterations) {
  struct Row {
    double value, simple, quintic, polar;
  };
  for (const Row& row : {Row{.001, .470544, .474982, .846195},
                         Row{.01, .698917, 1.018025, 1.066024}, Row{.1, .712120, 1.019050, .874442},
                         Row{.3, 1.079592, .996224, .909776}, Row{.5, .765439, .985869, .933330}}) {
    const double rest = std::sqrt(1 - row.value * row.value);
    const at::Tensor u = matrix({{row.value, 0}, {0, rest}});
    const double expected[] = {row.simple, row.quintic, row.polar};
    for (const NewtonSchulz one : kAll)
      EXPECT_NEAR(orthogonal(u, one)[0][0].item<double>(), expected[static_cast<int>(one)], 1e-6);
  }
}

TEST(Muon, MatricesAreThoseOfThePublishedIterations) {
  const at::Tensor u = matrix({{1, 2, 3}, {4, 5, 6}});
  expect_near(orthogonal(u, NewtonSchulz::kSimple),
              matrix({{-.568290, .057742, .683774}, {.563355, .405613, .247871}}), 1e-6);
  expect_near(orthogonal(u, NewtonSchulz::kQuintic),
              matrix({{-.591518, .110997, .813512}, {.707256, .560562, .413868}}), 1e-6);
  expect_near(orthogonal(u, NewtonSchulz::kPolar),
              matrix({{-.634339, .120472, .875284}, {.761876, .605057, .448239}}), 1e-6);
  expect_near(orthogonal(matrix({{3, 0}, {0, 4}}), NewtonSchulz::kSimple),
              matrix({{.722876, 0}, {0, 1.119204}}), 1e-6);
}

TEST(Muon, OrthogonalisingHasItsSymmetries) {
  for (const NewtonSchulz one : kAll) {
    const at::Tensor u = drawn(6, 9, 3), whole = orthogonal(u, one);
    expect_near(orthogonal(u * 1e4, one), whole, 1e-12);
    expect_near(orthogonal(u.t().contiguous(), one), whole.t(), 1e-12);
    const at::Tensor left = std::get<0>(at::linalg_qr(drawn(6, 6, 4))),
                     right = std::get<0>(at::linalg_qr(drawn(9, 9, 5)));
    expect_near(orthogonal(left.mm(u).mm(right).contiguous(), one), left.mm(whole).mm(right),
                1e-11);
    expect_near(orthogonal(at::zeros({3, 4}, at::kDouble), one), at::zeros({3, 4}, at::kDouble), 0);
    expect_near(orthogonal(u.to(at::kFloat), one).to(at::kDouble), whole, 2e-5);
  }
}

// Two steps of torch.optim.Muon in fp64.
TEST(Muon, StepsAsPyTorchDoes) {
  const at::Tensor gradients[] = {matrix({{1, 2, 3}, {4, 5, 6}}),
                                  matrix({{-1, 0, 1}, {2, -2, .5}})};
  const at::Tensor original[] = {
      matrix({{.51036580, -.25065484, .11107452}, {.98673291, -.00811226, -1.00295742}}),
      matrix({{.52129523, -.25790374, .09541126}, {.97124501, -.00740707, -1.00719303}})};
  const at::Tensor matched[] = {
      matrix({{.50293723, -.24990005, .12001267}, {.99409696, -.00281017, -.99971730}}),
      matrix({{.50607101, -.25208500, .11442369}, {.98742723, -.00256588, -.99988000}})};
  for (const UpdateScale scale : {UpdateScale::kOriginal, UpdateScale::kMatchRms}) {
    Muon muon({.weight_decay = 0.1, .muon = {.update_scale = scale}});
    at::Tensor param = matrix({{.5, -.25, .125}, {1, 0, -1}});
    std::vector<at::Tensor> states = {at::zeros({6}, at::kDouble)};
    for (int step = 0; step < 2; ++step) {
      const exec::UpdateArgs args{.lr = 0.02, .step = step + 1};
      const at::Tensor update = at::zeros({2, 3}, at::kDouble);
      muon.direct(gradients[step].view({-1}), states, update.view({-1}), args);
      muon.update_matrix(update);
      const exec::UpdateSegment all{.begin = 0, .end = 6, .decay = 1};
      muon.update(param.view({-1}), update.view({-1}), {}, std::span(&all, 1), args);
      expect_near(param, (scale == UpdateScale::kOriginal ? original : matched)[step], 2e-8);
    }
  }
}

}  // namespace
}  // namespace trireme::optim::muon_test
