// Stop signals to runs: which are taken, what they save, what people are told, and with which code a run ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <array>
#include <fstream>

#include "tests/apps/launched.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::app::signals_test {
namespace {

using ::testing::HasSubstr;

const std::string kProgram = std::string(TRIREME_BIN_DIR) + "/trireme";
const std::vector<std::string> kThreads = {"--ranks", "2"}, kProcesses = {"--nproc", "2"};

void ignore(int number) {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  ::sigaction(number, &action, nullptr);
}

// Runs without an end, but for those that say otherwise.
class Signals : public ::testing::Test {
 protected:
  Signals() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "value[" + std::to_string(i) + "];\n";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                "run: {steps: 100000, global_batch: 8, micro_batch: 2}\n");
  }

  std::unique_ptr<Running> start(std::vector<std::string> words,
                                 const std::function<void()>& in_child = {}) {
    std::filesystem::remove_all(desk_ / "run");
    std::filesystem::remove(desk_ / "run-of.err");
    return std::make_unique<Running>(desk_.path(), kProgram, std::move(words), "run-of",
                                     std::map<std::string, std::string>{}, in_child);
  }
  static std::vector<std::string> train(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "job.yaml", "--out", "run"});
    return more;
  }
  bool has_step() const {
    const Path metrics = desk_ / "run/metrics.jsonl";
    return soon([&] {
      std::error_code none;
      return std::filesystem::file_size(metrics, none) > 0 && !none;
    });
  }
  // Has a rank begun the fault of its options? It stays in that step until the fault's time is over.
  bool in_fault() const {
    const Path err = desk_ / "run-of.err";  // made by the run
    return soon([&] {
      return std::filesystem::exists(err) &&
             read_file(err).find("a fault made on purpose") != std::string::npos;
    });
  }
  // Libraries are loaded before main(); until it runs, a signal ends the process as it would any. Later it is caught, or
  // blocked and waited for.
  static bool takes_interrupts(pid_t pid) {
    return soon([&] {
      std::ifstream status("/proc/" + std::to_string(pid) + "/status");
      for (std::string line; std::getline(status, line);)
        if ((line.starts_with("SigCgt:") || line.starts_with("SigBlk:")) &&
            (std::stoull(line.substr(7), nullptr, 16) >> (SIGINT - 1) & 1) != 0)
          return true;
      return false;
    });
  }
  bool has_checkpoint() const {
    return formats::newest_checkpoint(desk_ / "run/checkpoints").has_value();
  }

  Desk desk_;
};

TEST_F(Signals, AClosedTerminalAndSlurmsNoticeSaveAsTermDoes) {
  for (const auto& world : {kThreads, kProcesses})
    for (const int signal : {SIGHUP, SIGUSR1}) {
      const auto run = start(train(world));
      ASSERT_TRUE(has_step());
      run->signal(signal);
      const Result result = run->wait();
      EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
      EXPECT_THAT(result.out, HasSubstr("interrupted after step"));
      EXPECT_THAT(result.err, HasSubstr(os::signal_name(signal) + " received"));
      EXPECT_TRUE(has_checkpoint());
    }
}

// A job in the background of a script ignores SIGINT, one under nohup SIGHUP.
TEST_F(Signals, WhatWasIgnoredDoesNotKeepOthersFromEndingTheRun) {
  const auto in_group = [] {
    ignore(SIGINT);
    ::setpgid(0, 0);
  };
  const auto run = start(train(kProcesses), in_group);
  ::usleep(300'000);
  ::kill(-run->pid(), SIGINT);
  ASSERT_TRUE(has_step()) << "it is ignored";
  run->signal(SIGTERM);
  const Result result = run->wait();
  EXPECT_EQ(result.exit_code, 143) << result.err;
  EXPECT_TRUE(has_checkpoint());
}

TEST_F(Signals, InTheFirstSecondPeopleAreToldThatNothingWasSaved) {
  for (const auto& world : {kThreads, kProcesses})
    for (const int wait_ms : {0, 100, 250, 450}) {
      const auto run = start(train(world));
      ASSERT_TRUE(takes_interrupts(run->pid()));
      ::usleep(static_cast<useconds_t>(1000 * wait_ms));
      const bool trained = std::filesystem::exists(desk_ / "run/metrics.jsonl");
      run->signal(SIGINT);
      const Result result = run->wait();
      EXPECT_EQ(result.exit_code, 130) << wait_ms << " ms: " << result.err;
      EXPECT_THAT(result.err, HasSubstr("SIGINT")) << wait_ms << " ms of " << world.front();
      const bool nothing = result.err.find("nothing new was saved") != std::string::npos;
      EXPECT_NE(nothing, has_checkpoint()) << result.err;
      EXPECT_FALSE(trained && nothing) << result.err;
    }
}

// Within one step that takes its time.
TEST_F(Signals, OneCtrlCThatComesTwiceSaves) {
  for (auto world : {kThreads, kProcesses}) {
    world.insert(world.end(),
                 {"--allow-fault-injection", "--faults", "rank=0 step=3 line=3: delay=2000ms"});
    const auto run = start(train(world));
    ASSERT_TRUE(in_fault());
    run->signal(SIGINT);
    ::usleep(40'000);
    run->signal(SIGINT);
    const Result result = run->wait();
    EXPECT_EQ(result.exit_code, 130) << result.err;
    EXPECT_TRUE(has_checkpoint());
  }
}

TEST_F(Signals, ALaterCtrlCEndsAtOnceAndSaysSo) {
  for (auto world : {kThreads, kProcesses}) {
    world.insert(world.end(),
                 {"--allow-fault-injection", "--faults", "rank=0 step=3 line=3: delay=30000ms"});
    const auto run = start(train(world));
    ASSERT_TRUE(in_fault());
    run->signal(SIGINT);
    ::usleep(1'300'000);
    run->signal(SIGINT);
    const Result result = run->wait();
    EXPECT_EQ(result.exit_code, os::kEndedUnsaved) << result.err;
    EXPECT_THAT(result.err, HasSubstr("SIGINT received"));
    EXPECT_THAT(result.err, HasSubstr("a further SIGINT ended the run at once, without saving"));
    EXPECT_FALSE(has_checkpoint());
  }
}

// The end of a terminal that a run has alone, as a window that is closed.
class Terminal {
 public:
  Terminal() { EXPECT_EQ(::openpty(&ours_, &theirs_, nullptr, nullptr, nullptr), 0); }
  ~Terminal() { close(); }
  void attach() const {
    ::setsid();
    ::ioctl(theirs_, TIOCSCTTY, 0);
    for (const int stream : {0, 1, 2}) ::dup2(theirs_, stream);
    ::close(ours_);
    ::close(theirs_);
  }
  void close() {
    for (int* end : {&ours_, &theirs_})
      if (*end >= 0) ::close(std::exchange(*end, -1));
  }
  void keep_empty() const {
    char bytes[4096];
    ::ioctl(ours_, FIONBIO, std::array<int, 1>{1}.data());
    while (::read(ours_, bytes, sizeof bytes) > 0) continue;
  }

 private:
  int ours_ = -1, theirs_ = -1;
};

TEST_F(Signals, AClosedTerminalEndsALaunchAfterSavingUnlessHangUpsAreIgnored) {
  const std::vector<std::string> launch = {
      "launch", "--nproc-per-node", "2", "--", "train", "job.yaml", "--out", "run", "--steps"};
  for (const bool nohup : {false, true}) {
    Terminal terminal;
    std::vector<std::string> words = launch;
    words.push_back(nohup ? "600" : "100000");
    const auto run = start(words, [&] {
      terminal.attach();
      if (nohup) ignore(SIGHUP);
    });
    ASSERT_TRUE(has_step());
    terminal.keep_empty();
    terminal.close();
    EXPECT_EQ(run->wait().exit_code, nohup ? 0 : 129);
    EXPECT_TRUE(has_checkpoint());
  }
}

// `trireme launch ... 2>&1 | head -1`
TEST_F(Signals, ALaunchOutlivesTheReaderOfItsOutput) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const auto run = start({"launch", "--nproc-per-node", "2", "--", "train", "job.yaml", "--out",
                          "run", "--steps", "600"},
                         [&] {
                           for (const int stream : {1, 2}) ::dup2(ends[1], stream);
                         });
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_TRUE(has_step());
  EXPECT_EQ(run->wait().exit_code, 0);
}

}  // namespace
}  // namespace trireme::app::signals_test

#endif
