#include "trireme/base/patterns.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::patterns_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refusal(std::string_view patterns, const std::vector<std::string>& names) {
  try {
    select("recompute.nodes", patterns, names);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(Patterns, MatchWholeNames) {
  EXPECT_TRUE(matches("head", "head"));
  EXPECT_FALSE(matches("head", "heads"));
  EXPECT_FALSE(matches("heads", "head"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("b*k.*", "block.10"));
  EXPECT_TRUE(matches("*k*k", "kick"));
  EXPECT_FALSE(matches("*k*k.", "kick"));
  EXPECT_TRUE(matches("block.?", "block.7"));
  EXPECT_FALSE(matches("block.?", "block.10"));
  EXPECT_FALSE(matches("?", ""));
}

TEST(Patterns, ManyStarsTakeNoTime) {
  std::string stars;
  for (int i = 0; i < 40; ++i) stars += "*a";
  EXPECT_TRUE(matches(stars, std::string(100, 'a')));
  EXPECT_FALSE(matches(stars + "b", std::string(100, 'a')));
  EXPECT_TRUE(matches("*[7]*[7]", "17.7.6.7"));
  EXPECT_TRUE(matches("*[7]", "77"));
  EXPECT_FALSE(matches("*[7]*x", "77"));
}

TEST(Patterns, BracketsAreNumbers) {
  EXPECT_TRUE(matches("block.[2-11]", "block.2"));
  EXPECT_TRUE(matches("block.[2-11]", "block.10"));
  EXPECT_TRUE(matches("block.[2-11]", "block.11"));
  EXPECT_FALSE(matches("block.[2-11]", "block.12"));
  EXPECT_FALSE(matches("block.[2-11]", "block.1"));
  EXPECT_FALSE(matches("block.[2-11]", "block."));
  EXPECT_TRUE(matches("block.[7]", "block.7"));
  EXPECT_FALSE(matches("block.[7]", "block.70"));
  EXPECT_TRUE(matches("[1-2].*.[3]", "2.block.3"));
}

TEST(Patterns, SelectUnites) {
  const std::vector<std::string> names = {"embed", "block.0", "block.1", "block.2", "head"};
  EXPECT_THAT(select("k", "head,block.[0-1],block.1", names), ElementsAre(1, 2, 4));
  EXPECT_THAT(select("k", "*", names), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(split_list(""), ElementsAre(""));
  EXPECT_THAT(split_list("a,,b"), ElementsAre("a", "", "b"));
  EXPECT_THAT(split_list(" 0.5, 0.5 ,a b"), ElementsAre("0.5", "0.5", "a b"));
}

TEST(Patterns, ErrorsNameKeyPatternAndNames) {
  const std::vector<std::string> names = {"embed", "block.0", "block.1", "head"};
  EXPECT_THAT(
      refusal("head,bloc.*", names),
      HasSubstr("recompute.nodes=head,bloc.*: \"bloc.*\" matches none of the 4 names embed, "
                "block.0, block.1 .. head"));
  EXPECT_THAT(refusal("", names), HasSubstr("\"\" matches none"));
  for (const char* broken : {"block.[", "block.[]", "block.[1", "block.[1-]", "block.[3-1]",
                             "block.[a-b]", "block.[-1]"})
    for (const char* among : {"{}", "head,{},block.0"})
      EXPECT_THAT(refusal(fmt::format(fmt::runtime(among), broken), names),
                  HasSubstr(fmt::format("recompute.nodes={}: the brackets of \"{}\" hold no number",
                                        fmt::format(fmt::runtime(among), broken), broken)));
  EXPECT_FALSE(matches("block.[0", "block.0"));
}

}  // namespace
}  // namespace trireme::patterns_test
