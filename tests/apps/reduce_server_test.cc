// trireme reduce-server from end to end: servers add for four hosts, and one of them is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <memory>

#include "tests/apps/launched.h"
#include "tests/apps/run_files.h"
#include "trireme/base/ports.h"

namespace trireme::app::reduce_server_test {
namespace {

using ::testing::HasSubstr;

TEST(ReduceServer, SaysWhatItNeeds) {
  const Desk desk;
  ::chmod(desk.write("token", "the token of these hosts").c_str(), 0600);
  const auto refused = [&](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), {"reduce-server", "--token-file", "token"});
    const Result result = desk.run(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({}, "--rdzv-endpoint");
  refused({"--rdzv-endpoint", "head"}, "--rdzv-endpoint head; needs HOST:PORT");
  refused({"--rdzv-endpoint", "head:1", "--rate", "100"}, "--rate 100: needs a positive number");
  refused({"--rdzv-endpoint", "head:1", "--rate", "-1Gb/s"}, "--rate -1Gb/s: needs a positive");
}

#if TRIREME_HAS_WORKER

// Four hosts of one rank and two servers, all on this machine.
class Served : public ::testing::Test {
 protected:
  Served() : endpoint_("127.0.0.1:" + std::to_string(free_port())) {
    std::string text;
    for (int i = 0; i < 2000; ++i)
      text += "value[" + std::to_string(i) + "] = " + std::to_string(i * i % 97) + ";\n";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                "optim: {schedule: constant}\ncheckpoint: {every: 10, async: false}\n"
                "run: {steps: 1500, global_batch: 8, micro_batch: 2, eval_every: -1}\n");
    ::chmod(desk_.write("token", "the token of these hosts").c_str(), 0600);
  }

  std::unique_ptr<Running> start(const std::string& name, std::vector<std::string> words) const {
    return std::make_unique<Running>(desk_.path(), std::string(TRIREME_BIN_DIR) + "/trireme",
                                     std::move(words), name,
                                     std::map<std::string, std::string>{{"TRIREME_HOST", name}});
  }
  std::unique_ptr<Running> server(const std::string& name, const std::string& rate) const {
    return start(name, {"reduce-server", "--rdzv-endpoint", endpoint_, "--token-file", "token",
                        "--rate", rate});
  }
  std::unique_ptr<Running> host(const std::string& name) const {
    return start(name, {"launch", "--nnodes", "4", "--rdzv-endpoint", endpoint_, "--token-file",
                        "token", "--", "train", "job.yaml", "--out", "run"});
  }
  bool says(const std::string& what) const {
    return soon([&] {
      return std::filesystem::exists(desk_ / "n0.out") &&
             read_file(desk_ / "n0.out").find(what) != std::string::npos;
    });
  }
  int newest() const {
    int most = 0;
    for (const auto& entry : std::filesystem::directory_iterator(desk_ / "run/checkpoints"))
      if (const std::string name = entry.path().filename(); name.find('.') == std::string::npos)
        most = std::max(most, std::stoi(name.substr(5)));
    return most;
  }

  Desk desk_;
  std::string endpoint_;
};

TEST_F(Served, TheLossOfAServerCostsNoBit) {
  ASSERT_EQ(desk_.run({"train", "job.yaml", "--nproc", "4", "--out", "whole"}).exit_code, 0);

  const auto kept = server("s0", "1Gb/s"), killed = server("s1", "500Mb/s");
  const auto first = host("n0");
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(desk_ / "n0.out"); }));
  ::usleep(300'000);  // it listens: the others join it
  const auto second = host("n1"), third = host("n2"), fourth = host("n3");
  ASSERT_TRUE(says("sums of all by 2 reduction servers"));
  ASSERT_TRUE(soon([&] {
    return std::filesystem::exists(desk_ / "run/checkpoints") && newest() >= 20;
  })) << read_file(desk_ / "n0.err");
  killed->signal(SIGKILL);
  ASSERT_TRUE(says("sums of all by 1 reduction server\n")) << read_file(desk_ / "n0.err");
  for (const auto& one : {first.get(), second.get(), third.get(), fourth.get(), kept.get()}) {
    const Result result = one->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  const std::vector<std::string> expected = trace(desk_ / "whole");
  EXPECT_EQ(expected.size(), 1500u);
  EXPECT_EQ(trace(desk_ / "run"), expected);
}

#endif

}  // namespace
}  // namespace trireme::app::reduce_server_test
