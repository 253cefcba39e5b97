#include "trireme/base/text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Text, NumbersHaveTheirNoun) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(2, "host"), "2 hosts");
}

TEST(Text, LinesBreakAtSpaces) {
  EXPECT_EQ(wrapped("note  a short line\n", 20, 6), "note  a short line\n");
  EXPECT_EQ(wrapped("note  words that go on and on\nnext", 16, 6),
            "note  words that\n      go on and\n      on\nnext");
  EXPECT_EQ(wrapped("  indented words break", 12, 4), "  indented\n    words\n    break");
  EXPECT_EQ(wrapped("awordthatistoolong stays whole", 8, 2),
            "awordthatistoolong\n  stays\n  whole");
}

}  // namespace
}  // namespace trireme
