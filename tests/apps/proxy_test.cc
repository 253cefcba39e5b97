// Two agents of which the second reaches the first through bench/faultproxy, which does to their connection what networks
// do: damage is refused and the connection made anew, a long silence costs a generation, and the run ends as it should.
#include "tests/apps/launched.h"
#include "tests/harness/needs.h"
#include "trireme/base/os/descriptor.h"

namespace trireme::app::proxy_test {
namespace {

class Proxied : public Hosts {
 protected:
  static constexpr char kPython[] = "/usr/bin/python3";

  void SetUp() override {
    TRIREME_NEEDS("python3", ::access(kPython, X_OK) == 0
                                 ? ""
                                 : "bench/faultproxy is written in it; runs where it is installed");
    direct_ = endpoint_;
    through_ = "127.0.0.1:" + std::to_string(free_port());
    ASSERT_EQ(::mkfifo((desk_ / "lines").c_str(), 0600), 0);
    const std::string program = TRIREME_SOURCE_DIR "/bench/faultproxy";
    desk_.write("proxy.sh", "exec " + std::string(kPython) + " " + program + " --listen " +
                                through_ + " --to " + direct_ + " --seed 1 < lines");
    proxy_ = std::make_unique<Running>(desk_.path(), "/bin/sh",
                                       std::vector<std::string>{"proxy.sh"}, "proxy");
    lines_ = os::Descriptor(::open((desk_ / "lines").c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(soon([&] { return said("listening") == 1; }));
  }

  std::size_t said(const std::string& line) const {
    std::istringstream text(read_file(desk_ / "proxy.out"));
    std::size_t count = 0;
    for (std::string each; std::getline(text, each);) count += each.starts_with(line);
    return count;
  }
  void make(const std::string& kind) {
    const std::size_t before = said(kind);
    const std::string line = kind + "\n";
    ASSERT_EQ(::write(lines_.get(), line.data(), line.size()), std::ssize(line));
    ASSERT_TRUE(soon([&] { return said(kind) == before + 1; }));
  }
  std::unique_ptr<Running> agent(const std::string& name, const std::string& endpoint) {
    endpoint_ = endpoint;
    return Hosts::agent(name, {"--nnodes", "2", "--max-restarts", "1000", "--node-rank",
                               endpoint == direct_ ? "0" : "1"});
  }

  std::string direct_, through_;
  std::unique_ptr<Running> proxy_;
  os::Descriptor lines_;
};

TEST_F(Proxied, WhatANetworkDoesIsOutlived) {
  const auto first = agent("first", direct_), second = agent("second", through_);
  ASSERT_TRUE(comes("1", 2));
  for (const char* kind : {"corrupt", "reset", "half-close", "split", "corrupt", "jitter", "reset",
                           "delay", "corrupt"}) {
    make(kind);
    ::usleep(400'000);
  }
  make("cut");
  ::sleep(1);
  desk_.write("finish", "");
  EXPECT_EQ(first->wait().exit_code, 0) << read_file(desk_ / "first.err");
  EXPECT_EQ(second->wait().exit_code, 0) << read_file(desk_ / "second.err");
}

// The proxy itself: what it is told to damage is damaged.
TEST_F(Proxied, DamageIsRefusedAndTheConnectionMadeAnew) {
  const auto first = agent("first", direct_);
  make("corrupt");  // the first bytes of the next connection
  const auto second = agent("second", through_);
  ASSERT_TRUE(comes("1", 2)) << "at the second try";
  EXPECT_GE(said("connection"), 2u);
  desk_.write("finish", "");
  EXPECT_EQ(first->wait().exit_code, 0) << read_file(desk_ / "first.err");
  EXPECT_EQ(second->wait().exit_code, 0) << read_file(desk_ / "second.err");
}

}  // namespace
}  // namespace trireme::app::proxy_test
