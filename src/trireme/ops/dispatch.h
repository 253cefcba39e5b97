// How ops reach what computes: our kernels on the CPU, with type dispatch, checked pointers and row loops; LibTorch's
// operators (aten/) elsewhere.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "trireme/base/cpu.h"
#include "trireme/base/error.h"

// Runs the lambda with scalar_t as double, float, BFloat16 or Half.
#define TRIREME_DISPATCH(type, name, ...)                                                     \
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::BFloat16, at::ScalarType::Half, type, name, \
                                  __VA_ARGS__)

namespace trireme::ops {

// fp64 for fp64, else fp32.
inline at::ScalarType wide(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

inline at::Tensor widened(const at::Tensor& x) { return x.to(wide(x.scalar_type())); }

// Whether our kernels compute on x.
inline bool has_kernels(const at::Tensor& x) { return x.is_cpu() && has_own_loops(); }

// A contiguous CPU tensor's elements.
template <typename T>
T* elements(const at::Tensor& tensor) {
  TRIREME_CHECK(tensor.device().is_cpu() && tensor.is_contiguous(),
                "a kernel needs contiguous CPU memory");
  return tensor.data_ptr<T>();
}

// Rows whose contributions to one sum are added first; such chunks are then added in order. The number is fixed: the
// sum does not depend on threads.
inline constexpr std::int64_t kSumRows = 256;

// Splits [0, count) of items that cost about `cost` element operations each among ATen's threads.
template <typename Body>
void for_rows(std::int64_t count, std::int64_t cost, const Body& body) {
  constexpr std::int64_t kWorth = 32768;
  at::parallel_for(0, count, std::max<std::int64_t>(1, kWorth / std::max<std::int64_t>(1, cost)),
                   body);
}

}  // namespace trireme::ops
