#include "trireme/config/links/links_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::config::links_file_test {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] =
    "hosts:\n  a: {up: 95Mb/s, down: 1 Gb/s, latency_s: 0.012}\n  b c: {up: 10Mb/s, down: 20Mb/s}\n"
    "pairs: [{from: a, to: b c, rate: 9.5Mb/s, latency_s: 0.01, relayed: true}]\nrelay: 50Mb/s\n";

TEST(LinksFile, IsReadAsItIsPrinted) {
  const algorithm::Links links = parse_links(kText, "links.yaml");
  ASSERT_EQ(links.hosts.size(), 2U);
  EXPECT_DOUBLE_EQ(links.hosts[0].up, 95e6 / 8);
  EXPECT_DOUBLE_EQ(links.hosts[0].down, 1e9 / 8);
  EXPECT_EQ(links.hosts[1].name, "b c");
  EXPECT_DOUBLE_EQ(links.pair(0, 1).rate, 9.5e6 / 8);
  EXPECT_DOUBLE_EQ(links.pair(1, 0).rate, 10e6 / 8);
  EXPECT_DOUBLE_EQ(links.relay, 50e6 / 8);
  EXPECT_EQ(parse_links(print_links(links), "printed"), links);
}

TEST(LinksFile, SaysWhereAndWhatIsWrong) {
  const auto error = [](const std::string& text) {
    try {
      parse_links(text, "l");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const std::string hosts = "hosts: {a: {up: 1Mb/s, down: 1Mb/s}, b: {up: 1Mb/s, down: 1Mb/s}}\n";
  EXPECT_EQ(error(hosts), "none");
  EXPECT_THAT(error("hosts: {a: {up: 1, down: 1Mb/s}, b: {up: 1Mb/s, down: 1Mb/s}}"),
              HasSubstr("l:1:17: hosts.a: up: \"1\"; needs a positive number with the unit Mb/s"));
  EXPECT_THAT(error("hosts: {a: {up: 1Mb/s, down: 1Mb/s}}"), HasSubstr("needs two hosts or more"));
  EXPECT_THAT(error("pairs: []"), HasSubstr("has no hosts"));
  EXPECT_THAT(error(hosts + "pairs: [{from: a, to: c, rate: 1Mb/s}]"),
              HasSubstr("to: \"c\" is not among the hosts"));
  EXPECT_THAT(error(hosts + "pairs: [{from: a, to: a, rate: 1Mb/s}]"),
              HasSubstr("two different hosts"));
  EXPECT_THAT(error(hosts + "rates: 1"), HasSubstr("keys here are hosts, pairs, relay"));
  EXPECT_THAT(error("hosts: {a: {up: -1Mb/s, down: 1Mb/s}, b: {}}"), HasSubstr("positive number"));
}

}  // namespace
}  // namespace trireme::config::links_file_test
