// trireme doctor, as a user runs it.
#if TRIREME_HAS_WORKER

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

namespace trireme::app::doctor_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Doctor, ProvesEverythingAndWarnsOfSettingsOfDebugging) {
  Desk desk;
  desk.set("NCCL_P2P_DISABLE", "1");
  desk.set("CUDA_LAUNCH_BLOCKING", "1");
  const Result result = desk.run({"doctor"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("FAIL")));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("train and resume"), HasSubstr("RDMA"),
                    HasSubstr("NCCL_P2P_DISABLE=1 is set: GPUs of a host exchange through host"),
                    HasSubstr("CUDA_LAUNCH_BLOCKING=1 is set"),
                    HasSubstr("2 settings left over from debugging")));
}

}  // namespace
}  // namespace trireme::app::doctor_test

#endif
