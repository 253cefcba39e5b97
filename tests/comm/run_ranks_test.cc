#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"

namespace trireme::comm::run_ranks_test {
namespace {

using ::testing::HasSubstr;

// Address space for the stacks of some threads, but not of a thousand: then the kernel refuses as it does where there are too
// few processes.
class FewThreads {
 public:
  FewThreads() {
    ::getrlimit(RLIMIT_AS, &before_);
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit few{static_cast<rlim_t>(pages * ::getpagesize() + kFree), before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &few);
  }
  ~FewThreads() { ::setrlimit(RLIMIT_AS, &before_); }
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;

 private:
  static constexpr std::int64_t kFree = 300 << 20;
  rlimit before_{};
};

TEST(RunRanks, NoneBeginsWhereNotAllCan) {
  constexpr int kRanks = 1000;
  constexpr double kTimeout = 100;
  std::atomic<int> begun = 0;
  const Stopwatch clock;
  try {
    const FewThreads few;
    run_local_ranks(kRanks, kTimeout, [&](World&) { ++begun; });
    FAIL() << "all had room";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("of 1000 as a thread: Resource temporarily unavailable"));
  }
  EXPECT_EQ(begun, 0);
  EXPECT_LT(clock.seconds(), kTimeout / 2);
}

}  // namespace
}  // namespace trireme::comm::run_ranks_test
