#include "bench/scoreboard/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"

namespace trireme::scoreboard::csv_test {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  return formats::refusal([&] { Csv::parse(text, "t.csv"); });
}

TEST(Csv, ReadsQuotesAsInRfc4180) {
  const Csv csv = Csv::parse(
      "\xef\xbb\xbfmodel,\"a \"\"b\"\"\",note\r\n"
      "1.5B,\"x, y\",\"two\r\nlines\"\r\n"
      "\r\n"
      "6.2B,,\"\"",
      "t.csv");
  ASSERT_EQ(csv.size(), 2U);
  EXPECT_EQ(csv.text(0, "model"), "1.5B");
  EXPECT_EQ(csv.text(0, "a \"b\""), "x, y");
  EXPECT_EQ(csv.text(0, "note"), "two\r\nlines");
  EXPECT_EQ(csv.line(0), 2U);
  EXPECT_EQ(csv.text(1, "model"), "6.2B");
  EXPECT_EQ(csv.line(1), 5U);
  EXPECT_TRUE(csv.has("note"));
  EXPECT_FALSE(csv.has("notes"));
}

TEST(Csv, KnowsNumbersFromText) {
  const Csv csv = Csv::parse("a,b\n1.5e3,\n-2,M/3\n", "t.csv");
  EXPECT_EQ(csv.number(0, "a"), 1500);
  EXPECT_EQ(csv.number(0, "b"), std::nullopt);
  EXPECT_EQ(csv.need(1, "a"), -2);
  EXPECT_EQ(formats::refusal([&] { csv.number(1, "b"); }), "t.csv:3: b 'M/3' is no number");
  EXPECT_EQ(formats::refusal([&] { csv.need(0, "b"); }), "t.csv:2: b is empty");
  EXPECT_EQ(formats::refusal([&] { csv.number(0, "c"); }), "t.csv: no column 'c'");
  EXPECT_EQ(csv.count(0, "a"), 1500);
  EXPECT_EQ(formats::refusal([&] { csv.count(1, "a"); }),
            "t.csv:3: a -2 is no whole number from 1 to a million");
  for (const char* text : {"", "nan", "inf", "1 ", "0x10", "1,5", "1e999", "+1"})
    EXPECT_EQ(number_of(text), std::nullopt) << text;
}

TEST(Csv, SaysWhatIsBrokenWhere) {
  EXPECT_EQ(refusal(""), "t.csv: empty; its first line names the columns");
  EXPECT_EQ(refusal("a,a\n"), "t.csv:1: two columns are named 'a'");
  EXPECT_EQ(refusal("a,b\n1,2\n1\n"), "t.csv:3: 1 values, where line 1 names 2 columns");
  EXPECT_EQ(refusal("a,b\n1,2,3"), "t.csv:2: 3 values, where line 1 names 2 columns");
  EXPECT_EQ(refusal("a\n\"x\n\n"), "t.csv:2: a quote that never closes");
  EXPECT_THAT(refusal("a\n\"x\"y\n"), HasSubstr("t.csv:2: text after the closing quote"));
  EXPECT_THAT(refusal("a\nx\"y\n"), HasSubstr("t.csv:2: a quote inside a value"));
  EXPECT_NO_THROW(Csv::parse("a\n\"x\ny\"\n", "t.csv"));
  EXPECT_THAT(formats::refusal([] { Csv::read("/nowhere/t.csv"); }), HasSubstr("/nowhere/t.csv"));
}

TEST(Csv, SurvivesBrokenBytes) {
  formats::mutate("a,\"b\"\n1,\"x \"\"y\"\"\"\r\n2,3\n", 3000, [](const std::string& bad) {
    const Csv csv = Csv::parse(bad, "t.csv");
    for (std::size_t row = 0; row < csv.size(); ++row)
      if (csv.has("a")) number_of(csv.text(row, "a"));
  });
}

TEST(Csv, RoundsToPrintedDigits) {
  EXPECT_DOUBLE_EQ(as_printed(0.1171875, "0.12"), 0.12);
  EXPECT_DOUBLE_EQ(as_printed(2218.75, "2218"), 2219);
  EXPECT_DOUBLE_EQ(as_printed(16.640625, "16.6"), 16.6);
  EXPECT_DOUBLE_EQ(as_printed(1.5, "1.50 (about)"), 1.5);
}

}  // namespace
}  // namespace trireme::scoreboard::csv_test
