#include "trireme/plan/mesh/share.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::mesh::share_test {
namespace {

TEST(Share, TilesTheCount) {
  for (std::int64_t count : {0, 1, 5, 12, 127})
    for (int parts : {1, 2, 3, 5, 8}) {
      std::int64_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const Share part = share(count, index, parts);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.count(), count / parts);
        EXPECT_LE(part.count(), (count + parts - 1) / parts);
        next = part.end;
      }
      EXPECT_EQ(next, count);
    }
}

TEST(Share, GranulesAreThoseOfEveryThing) {
  for (std::int64_t sharers : {1, 2, 3, 5})
    for (std::int64_t begin = 0; begin < 12; ++begin)
      for (std::int64_t end = begin; end <= 12; ++end) {
        std::set<std::int64_t> expected;
        for (std::int64_t thing = begin; thing < end; ++thing) expected.insert(thing / sharers);
        const Share granules = granules_of({begin, end}, sharers);
        std::set<std::int64_t> actual;
        for (std::int64_t i = granules.begin; i < granules.end; ++i) actual.insert(i);
        EXPECT_EQ(actual, expected) << begin << " " << end << " by " << sharers;
        EXPECT_EQ(granules.begin, begin / sharers);
      }
}

}  // namespace
}  // namespace trireme::mesh::share_test
