#include <gtest/gtest.h>

#include <string>

#include "trireme/base/error.h"
#include "trireme/comm/nccl/nccl_world.h"

namespace trireme::comm::nccl_test {
namespace {

#ifndef USE_C10D_NCCL
TEST(NcclWorld, SaysThatThisLibTorchHasNone) {
  try {
    connect_nccl({});
    ADD_FAILURE() << "connected without NCCL";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(e.what()).find("without NCCL: use gloo"), std::string::npos);
  }
}
#endif

}  // namespace
}  // namespace trireme::comm::nccl_test
