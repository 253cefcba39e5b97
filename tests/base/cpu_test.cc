#include "trireme/base/cpu.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Where bf16 has to be widened it is no faster.
TEST(Cpu, Bf16IsFastWhereItIsMultiplied) {
  EXPECT_EQ(fast_type(MatrixUnit::kAmx), DType::kBF16);
  EXPECT_EQ(fast_type(MatrixUnit::kAvx512Bf16), DType::kBF16);
  for (const MatrixUnit unit : {MatrixUnit::kOther, MatrixUnit::kAvx2, MatrixUnit::kAvx512})
    EXPECT_EQ(fast_type(unit), DType::kF32) << name(unit);
  EXPECT_EQ(has_avx512(), matrix_unit() >= MatrixUnit::kAvx512);
}

}  // namespace
}  // namespace trireme
