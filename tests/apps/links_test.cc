// trireme links and trireme relay from end to end: three hosts measure, and their table is read by plan, explain and launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>

#include "tests/apps/launched.h"
#include "tests/apps/run_files.h"
#include "trireme/base/ports.h"
#include "trireme/config/links/links_file.h"

namespace trireme::app::links_test {
namespace {

using ::testing::HasSubstr;

TEST(LinksCommand, SaysWhatItNeeds) {
  const Desk desk;
  ::chmod(desk.write("token", "the token of these hosts").c_str(), 0600);
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const Result result = desk.run(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({"links", "--token-file", "token", "--rdzv-endpoint", "head"},
          "--rdzv-endpoint head; needs HOST:PORT");
  refused({"relay", "--listen", "nowhere", "--key-file", "token"},
          "--listen nowhere; needs HOST:PORT");
  desk.write("links.yaml", "hosts: {a: {up: 1, down: 2}, b: {}}");
  refused({"plan", "x.yaml", "--cluster", "cpu-host", "--links", "none.yaml"}, "none.yaml");
}

#if TRIREME_HAS_WORKER

TEST(LinksCommand, HostsMeasureAndTrainByTheTable) {
  const Desk desk;
  ::chmod(desk.write("token", "the token of these hosts").c_str(), 0600);
  ::chmod(desk.write("key", "the key of the relay").c_str(), 0600);
  const int relay_port = free_port();
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  const std::string relay = "127.0.0.1:" + std::to_string(relay_port);
  const auto start = [&](const std::string& name, std::vector<std::string> words) {
    return std::make_unique<Running>(desk.path(), std::string(TRIREME_BIN_DIR) + "/trireme",
                                     std::move(words), name,
                                     std::map<std::string, std::string>{{"TRIREME_HOST", name}});
  };
  const auto joins = start("relay", {"relay", "--listen", relay, "--key-file", "key"});
  std::vector<std::unique_ptr<Running>> hosts;
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string> words = {"links",
                                      "--nnodes",
                                      "3",
                                      "--rdzv-endpoint",
                                      endpoint,
                                      "--token-file",
                                      "token",
                                      "--seconds",
                                      "0.1",
                                      "--out",
                                      "links" + std::to_string(i) + ".yaml",
                                      "--relay",
                                      relay,
                                      "--relay-key-file",
                                      "key",
                                      "--node-rank",
                                      std::to_string(i)};
    if (i > 0) words.emplace_back("--dial-only");
    hosts.push_back(start("n" + std::to_string(i), words));
  }
  for (const auto& host : hosts) {
    const Result result = host->wait();
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  const algorithm::Links links = config::read_links(desk / "links0.yaml");
  ASSERT_EQ(links.hosts.size(), 3U);
  EXPECT_EQ(read_file(desk / "links0.yaml"), read_file(desk / "links2.yaml"));
  int relayed = 0;
  for (const algorithm::PairLink& pair : links.pairs) relayed += pair.relayed ? 1 : 0;
  EXPECT_EQ(relayed, 2);  // both ways of the two hosts that can only dial
  EXPECT_GT(links.relay, 0);
}

#endif

}  // namespace
}  // namespace trireme::app::links_test
