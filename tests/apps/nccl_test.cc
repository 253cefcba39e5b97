// network.nccl, as ranks apply it.
#if TRIREME_HAS_WORKER

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"
#include "trireme/base/error.h"

namespace trireme::app::nccl_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A rank sets variables before it looks for a GPU.
TEST(Nccl, ARankRefusesAnotherValueInTheEnvironment) {
  Desk desk;
  const Path job =
      desk.write("job.yaml", "run: {device: cuda}\nnetwork: {nccl: \"algo=Ring,proto=Simple\"}\n");
  const auto rank = [&] {
    return desk.run({"train", "--job", job.string()},
                    std::string(TRIREME_BIN_DIR) + "/trireme-worker");
  };
  desk.set("NCCL_PROTO", "Simple");  // equal values agree
  desk.set("NCCL_ALGO", "Tree");
  const Result refused = rank();
  EXPECT_EQ(refused.exit_code, exit_code(ErrorKind::kUsage)) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("network.nccl sets NCCL_ALGO=Ring, but the environment has "
                                     "NCCL_ALGO=Tree; unset the variable"));
  desk.clear("NCCL_ALGO");
  const Result agreed = rank();
  EXPECT_THAT(agreed.out, HasSubstr("nccl      NCCL_ALGO=Ring NCCL_PROTO=Simple\n"));
  EXPECT_THAT(agreed.err, Not(HasSubstr("NCCL_")));
}

TEST(Nccl, TrainRefusesItOnCpus) {
  const Desk desk;
  const Result refused = desk.run({"train", TRIREME_SOURCE_DIR "/recipes/gpt_tiny.yaml", "--set",
                                   "network.nccl=algo=Ring,Tree"});
  EXPECT_EQ(refused.exit_code, exit_code(ErrorKind::kUsage));
  EXPECT_THAT(refused.err, HasSubstr("network.nccl=algo=Ring,Tree with run.device=cpu"));
}

}  // namespace
}  // namespace trireme::app::nccl_test

#endif
