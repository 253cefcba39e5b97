// Ends a kernel file: TRIREME_KERNELS(Table, table) chooses `make<T>()` of the best instruction set that
// this machine has, for each storage type, and gives table<T>().
#pragma once

#include <hwy/highway.h>

// Inside namespace kernels::HWY_NAMESPACE, after `template <typename T> Table<T> make()`.
#define TRIREME_KERNELS_OF_TARGET(Table, table)                         \
  Table<double> table##_f64() { return make<double>(); }                \
  Table<float> table##_f32() { return make<float>(); }                  \
  Table<c10::BFloat16> table##_bf16() { return make<c10::BFloat16>(); } \
  Table<c10::Half> table##_f16() { return make<c10::Half>(); }

// Inside namespace kernels, once.
#define TRIREME_KERNELS(Table, table)                                                \
  HWY_EXPORT(table##_f64);                                                           \
  HWY_EXPORT(table##_f32);                                                           \
  HWY_EXPORT(table##_bf16);                                                          \
  HWY_EXPORT(table##_f16);                                                           \
  template <>                                                                        \
  const Table<double>& table<double>() {                                             \
    static const Table<double> chosen = HWY_DYNAMIC_DISPATCH(table##_f64)();         \
    return chosen;                                                                   \
  }                                                                                  \
  template <>                                                                        \
  const Table<float>& table<float>() {                                               \
    static const Table<float> chosen = HWY_DYNAMIC_DISPATCH(table##_f32)();          \
    return chosen;                                                                   \
  }                                                                                  \
  template <>                                                                        \
  const Table<c10::BFloat16>& table<c10::BFloat16>() {                               \
    static const Table<c10::BFloat16> chosen = HWY_DYNAMIC_DISPATCH(table##_bf16)(); \
    return chosen;                                                                   \
  }                                                                                  \
  template <>                                                                        \
  const Table<c10::Half>& table<c10::Half>() {                                       \
    static const Table<c10::Half> chosen = HWY_DYNAMIC_DISPATCH(table##_f16)();      \
    return chosen;                                                                   \
  }
