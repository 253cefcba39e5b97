// Quick smoke
#include <gtest/gtest.h>

#include <numeric>

#include "trireme/comm/local/local_world.h"

namespace trireme::comm {
TEST(Smoke, AllReduce) {
  run_local_ranks(4, 5.0, [](World& world) {
    auto g = world.make_group("g", {0, 1, 2, 3});
    for (std::int64_t n : {0, 1, 5, 100000}) {
      std::vector<float> x(static_cast<std::size_t>(n), static_cast<float>(world.rank() + 1));
      g->all_reduce({x.data(), n, DType::kF32}).wait();
      for (float v : x) ASSERT_EQ(v, 10.0f);
    }
    EXPECT_EQ(world.exchange("r" + std::to_string(world.rank())), (std::vector<std::string>{"r0", "r1", "r2", "r3"}));
  });
}
}
