#include "trireme/optim/muon.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/ops/matrix_product.h"
#include "trireme/optim/make_optimizer.h"

namespace trireme::optim {
namespace {

using config::NewtonSchulz;
using config::UpdateScale;

struct Coefficients {
  double a, b, c;
};
using Rounds = std::array<Coefficients, config::kNewtonSchulzRounds>;

// Jordan et al. 2024; NVIDIA's Emerging-Optimizers; Amsel et al. 2025 (Polar Express).
const Rounds& rounds_of(NewtonSchulz iteration) {
  static constexpr Coefficients kJordan = {3.4445, -4.7750, 2.0315};
  static constexpr Rounds kSimple = {kJordan, kJordan, kJordan, kJordan, kJordan};
  static constexpr Rounds kQuintic = {{{4.0848, -6.8946, 2.9270},
                                       {3.9505, -6.3029, 2.6377},
                                       {3.7418, -5.5913, 2.3037},
                                       {2.8769, -3.1427, 1.2046},
                                       {2.8366, -3.0525, 1.2012}}};
  static constexpr Rounds kPolar = {{{8.2051, -22.9019, 16.4607},
                                     {4.0664, -2.8612, 0.5184},
                                     {3.9096, -2.8234, 0.5250},
                                     {3.2856, -2.4153, 0.4853},
                                     {2.2779, -1.6198, 0.3985}}};
  switch (iteration) {
    case NewtonSchulz::kQuintic: return kQuintic;
    case NewtonSchulz::kPolar: return kPolar;
    case NewtonSchulz::kSimple: break;
  }
  return kSimple;
}

constexpr std::int64_t kPiece = 1 << 14;  // elements that a thread takes at a time
constexpr std::int64_t kLanes = 16;       // sums of squares next to each other, in a fixed order

template <typename T>
double norm_of(const T* values, std::int64_t count) {
  std::array<double, kLanes> sums{};
  for (std::int64_t i = 0; i < count; i += kLanes)
    for (std::int64_t lane = 0; lane < std::min(kLanes, count - i); ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  double sum = 0;
  for (const double one : sums) sum += one;
  return std::sqrt(sum);
}

// out = a b, not among the operations that training counts.
void multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  if (out.scalar_type() == at::kDouble) {
    at::Tensor result = out;
    at::mm_out(result, a, b);
  } else {
    ops::kernels::matmul(ops::matrix(a), ops::matrix(b), ops::matrix(out));
  }
}

// values = scale * values + factor * others
template <typename T>
void combine(T* values, T scale, const T* others, T factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = scale * values[i] + factor * others[i];
}

template <typename T>
void iterate(const at::Tensor& matrix, const Rounds& rounds) {
  auto* const values = matrix.data_ptr<T>();
  const std::int64_t count = matrix.numel();
  const auto by = static_cast<T>(1 / std::max(norm_of(values, count), 1e-7));
  for (std::int64_t i = 0; i < count; ++i) values[i] *= by;
  const bool tall = matrix.size(0) > matrix.size(1);
  const at::Tensor added = at::empty_like(matrix);
  const at::Tensor x = tall ? matrix.t() : matrix;
  const at::Tensor gram = at::empty({x.size(0), x.size(0)}, matrix.options());
  const at::Tensor square = at::empty_like(gram);
  for (const Coefficients& of : rounds) {
    multiply(x, x.t(), gram);
    multiply(gram, gram, square);
    combine(square.data_ptr<T>(), static_cast<T>(of.c), gram.data_ptr<T>(), static_cast<T>(of.b),
            gram.numel());
    tall ? multiply(matrix, square.t(), added) : multiply(square, matrix, added);
    combine(values, static_cast<T>(of.a), added.data_ptr<T>(), T{1}, count);
  }
}

template <typename T, typename Grad>
void direct_elements(const Grad* grad, T* moment, T* direction, std::int64_t count, T scale,
                     T momentum) {
  const T fresh = 1 - momentum;
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = static_cast<T>(grad[i]) * scale;
    moment[i] = momentum * moment[i] + fresh * g;
    direction[i] = fresh * g + momentum * moment[i];
  }
}

}  // namespace

void orthogonalise(const at::Tensor& matrix, NewtonSchulz iteration) {
  TRIREME_CHECK(matrix.dim() == 2 && matrix.is_contiguous(), "{} dimensions", matrix.dim());
  if (matrix.scalar_type() == at::kDouble)
    iterate<double>(matrix, rounds_of(iteration));
  else
    iterate<float>(matrix, rounds_of(iteration));
}

double update_factor(std::int64_t rows, std::int64_t columns, UpdateScale scale) {
  const auto a = static_cast<double>(rows), b = static_cast<double>(columns);
  if (scale == UpdateScale::kOriginal) return std::sqrt(std::max(1.0, a / b));
  return 0.2 * std::sqrt(std::max(a, b));
}

Muon::Muon(const OptimizerOptions& options) : options_(options), states_({{.name = "momentum"}}) {}

void Muon::direct(const at::Tensor& grad, std::span<at::Tensor> states, const at::Tensor& direction,
                  const exec::UpdateArgs& args) {
  const at::Tensor& moment = states.front();
  AT_DISPATCH_FLOATING_TYPES(direction.scalar_type(), "muon", [&] {
    using T = scalar_t;
    auto* const moments = moment.data_ptr<T>();
    auto* const directions = direction.data_ptr<T>();
    const auto scale = static_cast<T>(args.grad_scale);
    const auto momentum = static_cast<T>(options_.muon.momentum);
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kBFloat16, at::kHalf, grad.scalar_type(), "muon_gradient", [&] {
          const auto* const grads = grad.data_ptr<scalar_t>();
          at::parallel_for(0, grad.numel(), kPiece, [&](std::int64_t begin, std::int64_t end) {
            direct_elements<T, scalar_t>(grads + begin, moments + begin, directions + begin,
                                         end - begin, scale, momentum);
          });
        });
  });
}

void Muon::update_matrix(const at::Tensor& matrix) {
  orthogonalise(matrix, options_.muon.newton_schulz);
  at::Tensor scaled = matrix;
  scaled.mul_(update_factor(matrix.size(0), matrix.size(1), options_.muon.update_scale));
}

void Muon::update(at::Tensor param, const at::Tensor& updates, std::span<at::Tensor> /*states*/,
                  std::span<const exec::UpdateSegment> segments, const exec::UpdateArgs& args) {
  const double decay = args.weight_decay.value_or(options_.weight_decay);
  AT_DISPATCH_FLOATING_TYPES(param.scalar_type(), "muon_update", [&] {
    auto* const values = param.data_ptr<scalar_t>();
    const auto* const changes = updates.data_ptr<scalar_t>();
    for (const exec::UpdateSegment& segment : segments) {
      const double lr = args.lr * segment.lr;
      const auto keep = static_cast<scalar_t>(1 - lr * decay * segment.decay);
      const auto rate = static_cast<scalar_t>(-lr);
      at::parallel_for(
          segment.begin, segment.end, kPiece, [&](std::int64_t begin, std::int64_t end) {
            combine<scalar_t>(values + begin, keep, changes + begin, rate, end - begin);
          });
    }
  });
}

std::unique_ptr<exec::Optimizer> make_muon(const OptimizerOptions& options) {
  return std::make_unique<Muon>(options);
}

}  // namespace trireme::optim
