#include "trireme/base/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"

namespace trireme::json_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), StartsWith("file: "));
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return {};
}

TEST(Json, KeepsWhatWasWrittenInItsOrder) {
  const std::string text = R"({"b":[1,-2,2.5,true,null,{}],"a":{"z":"\u00e9","":[[],[0]]}})";
  EXPECT_EQ(parse_json(text, "file").dump(-1, ' ', true), text);
  EXPECT_EQ(parse_json(" 7 ", "file"), 7);
}

TEST(Json, RefusesWhatIsNotStrict) {
  EXPECT_THAT(refusal(R"({"a": {"b": 1, "c": {"b": 2}, "b": 3}})"),
              HasSubstr("key \"b\" appears twice"));
  for (const char* text :
       {"", "{", "[1,]", "[1] 2", "{1: 2}", "[1e400]", "[NaN]", "\"\xFF\"", "'a'"})
    EXPECT_THAT(refusal(text), HasSubstr("not valid JSON")) << text;
  EXPECT_THAT(refusal("{\n \"a\": one}"), HasSubstr("not valid JSON at line 2, column 7"));
  EXPECT_THAT(refusal("{"), HasSubstr("it ends inside a value, after 1 bytes"));
  EXPECT_THAT(refusal(R"({"a\n": 1, "a\n": 2})"), HasSubstr(R"(key "a\n" appears twice)"));
  const auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  parse_json(nested(64), "file");
  EXPECT_THAT(refusal(nested(65)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(refusal(std::string(1 << 20, '[')), HasSubstr("nested deeper"));
}

// A vocabulary has a hundred thousand keys in one object: looking through them for each takes minutes.
TEST(Json, ManyKeysTakeNoTime) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += fmt::format("{}\"{}\": {}", i == 0 ? "{" : ",", i, i);
  const Stopwatch watch;
  EXPECT_EQ(parse_json(text + "}", "file").size(), 100'000u);
  EXPECT_LT(watch.seconds(), 20);
}

}  // namespace
}  // namespace trireme::json_test
