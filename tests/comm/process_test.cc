// The back ends of processes with real ones: this binary runs itself as the ranks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/comm/ways.h"
#include "tests/harness/ranks.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/connect/processes.h"
#include "trireme/comm/gloo/gloo_world.h"

namespace trireme::comm::process_test {
namespace {

constexpr double kTimeout = 2.5;  // of ranks that share two cores
constexpr double kPatience = 60;  // a busy machine takes its time to load LibTorch and to unload it
constexpr char kRankFlag[] = "--rank";

// One rank, in a process of its own: sums until the steps are done (0: until something fails).
int run_rank(const BackEnd& way, int rank, int size, int port, int steps, const char* ready) {
  silence_c10d();
  try {
    const auto world = connect_processes({.rank = rank,
                                          .size = size,
                                          .port = port,
                                          .host_name = way.hosts ? std::to_string(rank / 2) : "",
                                          .timeout_s = steps > 0 ? kPatience : kTimeout},
                                         way.route);
    std::vector<int> ranks;
    for (int r = 0; r < size; ++r) ranks.push_back(r);
    const auto group = world->make_group("dp", ranks);
    std::vector<float> x(100'000);
    for (int step = 0; steps == 0 || step < steps; ++step) {
      std::fill(x.begin(), x.end(), static_cast<float>(rank));
      group->all_reduce({x.data(), std::ssize(x), DType::kF32}).wait();
      if (x.back() != static_cast<float>(size * (size - 1) / 2)) return 1;
      if (step == 3) std::ofstream{ready};
    }
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return exit_code(e.kind());
  }
}

class Ranks {
 public:
  Ranks(std::size_t way, int size, int steps) : way_(way) {
    const int port = free_port();
    for (int rank = 0; rank < size; ++rank) pids_.push_back(start(rank, size, port, steps));
  }
  ~Ranks() {
    for (pid_t pid : pids_)
      if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
      }
  }

  // Whether they all came so far.
  bool await_running() {
    const Stopwatch watch;
    for (std::size_t rank = 0; rank < pids_.size(); ++rank)
      while (!std::filesystem::exists(file("ready", rank))) {
        if (watch.seconds() > kPatience) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    return true;
  }
  void signal(std::size_t rank, int number) { kill(pids_[rank], number); }
  // The exit code; -signal if a signal ended it; -1000 if it is still running.
  int join(std::size_t rank) {
    const Stopwatch watch;
    int status = 0;
    while (waitpid(pids_[rank], &status, WNOHANG) == 0) {
      if (watch.seconds() > kPatience) return -1000;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pids_[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string errors(std::size_t rank) {
    std::ifstream in(file("stderr", rank));
    return (std::stringstream() << in.rdbuf()).str();
  }

 private:
  std::string file(const std::string& what, std::size_t rank) {
    return (scratch_ / fmt::format("{}{}", what, rank)).string();
  }

  pid_t start(int rank, int size, int port, int steps) {
    const auto index = static_cast<std::size_t>(rank);
    std::vector<std::string> words = {"/proc/self/exe",      kRankFlag,
                                      std::to_string(way_),  std::to_string(rank),
                                      std::to_string(size),  std::to_string(port),
                                      std::to_string(steps), file("ready", index)};
    std::vector<char*> args;
    for (std::string& word : words) args.push_back(word.data());
    args.push_back(nullptr);
    const std::string errors = file("stderr", index);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open("/dev/null", O_WRONLY), 1);
      dup2(open(errors.c_str(), O_CREAT | O_WRONLY, 0600), 2);
      execv(args[0], args.data());
      _exit(99);
    }
    return pid;
  }

  std::size_t way_;  // of kWays
  harness::ScratchDirectory scratch_;
  std::vector<pid_t> pids_;
};

class ProcessesVia : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Routes, ProcessesVia, testing::Range(std::size_t{0}, std::size(kWays)),
                         [](const auto& info) { return kWays[info.param].name; });

TEST_P(ProcessesVia, RunAndCloseSilently) {
  Ranks ranks(GetParam(), 3, 20);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.join(rank), 0) << ranks.errors(rank);
    EXPECT_EQ(ranks.errors(rank), "");
  }
}

void expect_named(Ranks& ranks, std::size_t survivor, std::size_t victim) {
  EXPECT_EQ(ranks.join(survivor), 4);
  const std::string text = ranks.errors(survivor);
  SCOPED_TRACE(fmt::format("rank {} says: {}", survivor, text));
  const bool host_left = victim == 0 && text.find("its host (rank 0") != std::string::npos;
  EXPECT_TRUE(host_left ||
              text.find(fmt::format("lost rank {} after", victim)) != std::string::npos);
  EXPECT_NE(text.find("all_reduce #"), std::string::npos);
  EXPECT_NE(text.find("group 'dp' (400000 bytes)"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_P(ProcessesVia, KilledRankIsNamedByAllSurvivors) {
  for (const std::size_t size : {std::size_t{3}, std::size_t{4}})
    for (std::size_t victim : {size - 2, std::size_t{0}}) {
      SCOPED_TRACE(fmt::format("rank {} of {}", victim, size));
      Ranks ranks(GetParam(), static_cast<int>(size), 0);
      ASSERT_TRUE(ranks.await_running());
      ranks.signal(victim, SIGKILL);
      EXPECT_EQ(ranks.join(victim), -SIGKILL);
      for (std::size_t rank = 0; rank < size; ++rank)
        if (rank != victim) expect_named(ranks, rank, victim);
    }
}

// A stopped rank keeps its connections, so that only waiting tells; and of three, a survivor may be
// waiting for one that itself waits.
TEST_P(ProcessesVia, StoppedRankIsNamedByAllSurvivors) {
  struct Life {
    std::size_t size, victim;
    std::unique_ptr<Ranks> ranks;
  };
  std::vector<Life> lives;  // at once, as they mostly wait
  for (const std::size_t size : {std::size_t{2}, std::size_t{4}})
    for (std::size_t victim : {size - 1, std::size_t{0}}) {  // rank 0 hosts the store
      const auto ranks = static_cast<int>(size);
      lives.push_back({size, victim, std::make_unique<Ranks>(GetParam(), ranks, 0)});
    }
  for (Life& life : lives) {
    ASSERT_TRUE(life.ranks->await_running());
    life.ranks->signal(life.victim, SIGSTOP);
  }
  for (Life& life : lives) {
    SCOPED_TRACE(fmt::format("rank {} of {}", life.victim, life.size));
    for (std::size_t rank = 0; rank < life.size; ++rank)
      if (rank != life.victim) expect_named(*life.ranks, rank, life.victim);
  }
}

TEST(Processes, OfOneHostShareMemory) {
  const int port = free_port();
  run_ranks(
      2, [](World& world) { EXPECT_EQ(world.via(), "shared memory"); },
      [&](int rank) { return connect_processes({.rank = rank, .size = 2, .port = port}); });
}

}  // namespace
}  // namespace trireme::comm::process_test

// As `comm_test --rank WAY RANK SIZE PORT STEPS READY` one rank, as `comm_test --chunks WAY` one of those killed at chunks,
// else the tests.
int main(int argc, char** argv) {
  using namespace trireme::comm;
  using namespace process_test;
  std::signal(SIGPIPE, SIG_IGN);
  if (argc == 8 && std::string(argv[1]) == kRankFlag)
    return run_rank(kWays[std::atoi(argv[2])], std::atoi(argv[3]), std::atoi(argv[4]),
                    std::atoi(argv[5]), std::atoi(argv[6]), argv[7]);
  if (argc == 3 && std::string(argv[1]) == kChunksFlag)
    return chunks_are_survived(kWays[std::atoi(argv[2])]) ? 0 : 1;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
