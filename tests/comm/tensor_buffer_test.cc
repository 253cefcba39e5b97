#include "trireme/comm/tensor_buffer.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::comm::tensor_buffer_test {
namespace {

TEST(TensorBuffer, NamesAreInverseAndSizesEqual) {
  for (DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32,
                     DType::kI16, DType::kU8}) {
    EXPECT_EQ(dtype_of(scalar_type(type)), type);
    EXPECT_EQ(c10::elementSize(scalar_type(type)), size_of(type));
  }
}

TEST(TensorBuffer, WhatTheOtherSideLacksIsRefused) {
  EXPECT_THROW(scalar_type(DType::kU16), Error);
  EXPECT_THROW(dtype_of(at::kComplexFloat), Error);
}

}  // namespace
}  // namespace trireme::comm::tensor_buffer_test
