#include "trireme/exec/units/initial_values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/log.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::exec {
namespace {

// Of a square matrix, elements [first, first + value.numel()).
void fill_identity(at::Tensor value, std::int64_t size, std::int64_t first) {
  value.zero_();
  const std::int64_t step = size + 1;
  for (std::int64_t place = (first + step - 1) / step * step;
       place < std::min(first + value.numel(), size * size); place += step)
    value.data_ptr<double>()[place - first] = 1;
}

// x with softplus(x) = steps.
at::Tensor inverse_softplus(const at::Tensor& steps) { return steps + at::log(-at::expm1(-steps)); }

}  // namespace

at::Generator initial_generator(const model::ParamSpec& param, std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(mix(seed, hash64(param.name)));
}

at::Tensor initial_values(const model::ParamSpec& param, std::int64_t first, std::int64_t count,
                          at::Generator generator) {
  using Kind = model::Init::Kind;
  const model::Init& init = param.init;
  at::Tensor value = at::empty({count}, at::TensorOptions().dtype(at::kDouble));
  const auto uniform = [&](double low, double high) {
    return value.uniform_(low, high, std::move(generator));
  };
  switch (init.kind) {
    case Kind::kZeros: return value.zero_();
    case Kind::kOnes: return value.fill_(1);
    case Kind::kNormal: return value.normal_(0, init.std, std::move(generator));
    case Kind::kConstant: return value.fill_(init.value);
    case Kind::kIdentity: fill_identity(value, param.shape[0], first); return value;
    case Kind::kUniform: return uniform(init.low, init.high);
    case Kind::kLogOfUniform: return uniform(init.low, init.high).log_();
    case Kind::kStepOfLogUniform:
      return inverse_softplus(uniform(std::log(init.low), std::log(init.high)).exp_());
  }
  TRIREME_CHECK(false, "initial values of kind {}", static_cast<int>(init.kind));
}

at::Tensor initial_norms(const model::ParamSpec& param, std::uint64_t seed) {
  const model::ParamSpec& weight = *param.norms_of;
  const std::int64_t columns = weight.shape[1];
  const at::Generator generator = initial_generator(weight, seed);
  at::Tensor norms = at::zeros({weight.shape[0]}, at::TensorOptions().dtype(at::kDouble));
  double* const squares = norms.data_ptr<double>();
  for (std::int64_t begin = 0; begin < weight.numel(); begin += kDrawn) {
    const std::int64_t count = std::min(kDrawn, weight.numel() - begin);
    const at::Tensor values = initial_values(weight, begin, count, generator);
    const double* const value = values.data_ptr<double>();
    for (std::int64_t i = 0; i < count; ++i) squares[(begin + i) / columns] += value[i] * value[i];
  }
  return norms.sqrt_();
}

}  // namespace trireme::exec
