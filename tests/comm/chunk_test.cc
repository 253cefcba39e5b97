// A rank is killed at the first, a middle and the last chunk of an operation of every kind, over every back end of
// processes: the others name it at once, and what has ended for them is right.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/comm/ways.h"
#include "trireme/base/error.h"
#include "trireme/base/ports.h"
#include "trireme/comm/gloo/gloo_world.h"
#include "trireme/launch/watch/witness.h"

namespace trireme::comm::chunk_test {
namespace {

constexpr int kRanks = 4;
constexpr std::uint64_t kAt = 2;  // the operation of the group at which it happens
constexpr std::int64_t kSlice = 100'000;
constexpr double kSoon = 30;  // far below the timeout, far above what a busy machine takes
constexpr double kPatience = 120;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What a rank leaves for who started it.
struct Left {
  std::atomic<std::uint64_t> chunks;
  std::atomic<bool> failed, torn;
  double killed_at, failed_at;
  char message[500];
};

struct Case {
  Verb verb;
  int victim;
  std::int64_t chunk;  // -1: nobody is killed

  bool kills() const { return chunk >= 0; }
};

// Counts the chunks of the operation, and dies at one.
class Killer : public watch::Witness {
 public:
  Killer(std::int64_t chunk, Left& left) : chunk_(chunk), left_(left) {}
  void see(const watch::Moment& moment) override {
    if (!moment.chunk || moment.group != "data" || moment.sequence != kAt) return;
    left_.chunks = *moment.chunk + 1;
    if (static_cast<std::int64_t>(*moment.chunk) != chunk_) return;
    left_.killed_at = now();
    ::kill(::getpid(), SIGKILL);
  }

 private:
  std::int64_t chunk_;
  Left& left_;
};

float value(int rank, std::uint64_t step, std::int64_t i) {
  return static_cast<float>(rank + 1) * static_cast<float>(static_cast<std::int64_t>(step) + i % 5);
}

using Floats = std::vector<float>;

// Of one rank in one operation.
struct Work {
  Floats in, out;
  Floats right;  // what `out` is to be afterwards
};

Floats data_of(int rank, std::uint64_t step, std::int64_t count) {
  Floats x(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) x[i] = value(rank, step, i);
  return x;
}

Floats sum_of_all(std::uint64_t step, std::int64_t count) {
  Floats sum(static_cast<std::size_t>(count));
  for (int rank = 0; rank < kRanks; ++rank) {
    const Floats one = data_of(rank, step, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  }
  return sum;
}

Buffer whole(Floats& x) { return {x.data(), std::ssize(x), DType::kF32}; }

// Pairs lie across hosts of two.
int partner(int rank) { return rank ^ 3; }

// What a rank brings to the operation of a step, and what it is to have afterwards.
Work prepare(int rank, Verb verb, std::uint64_t step) {
  constexpr std::int64_t kAll = kRanks * kSlice;
  Work work;
  switch (verb) {
    case Verb::kAllReduce: return {{}, data_of(rank, step, kAll), sum_of_all(step, kAll)};
    case Verb::kReduceScatter: {
      const Floats sum = sum_of_all(step, kAll);
      const auto mine = sum.begin() + rank * kSlice;
      return {data_of(rank, step, kAll), Floats(kSlice, -1), Floats(mine, mine + kSlice)};
    }
    case Verb::kAllGather:
    case Verb::kAllToAll:
      work = {data_of(rank, step, verb == Verb::kAllGather ? kSlice : kAll), Floats(kAll, -1), {}};
      for (int from = 0; from < kRanks; ++from) {
        const Floats all = data_of(from, step, kAll);
        const auto first = all.begin() + (verb == Verb::kAllGather ? 0 : rank * kSlice);
        work.right.insert(work.right.end(), first, first + kSlice);
      }
      return work;
    case Verb::kBroadcast:
      work.right = data_of(1, step, kAll);
      work.out = rank == 1 ? work.right : Floats(kAll, -1);
      return work;
    default:
      work.right = data_of(std::min(rank, partner(rank)), step, kSlice);
      work.out = rank < partner(rank) ? work.right : Floats(kSlice, -1);
      return work;
  }
}

Ticket submit(Group& group, Verb verb, Work& work) {
  const std::vector<std::int64_t> even(kRanks, kSlice);
  const int other = partner(group.rank());
  switch (verb) {
    case Verb::kAllReduce: return group.all_reduce(whole(work.out));
    case Verb::kReduceScatter: return group.reduce_scatter(whole(work.in), whole(work.out));
    case Verb::kAllGather: return group.all_gather(whole(work.in), whole(work.out));
    case Verb::kAllToAll: return group.all_to_all(whole(work.in), even, whole(work.out), even);
    case Verb::kBroadcast: return group.broadcast(whole(work.out), 1);
    default:
      return group.rank() < other ? group.send(whole(work.out), other)
                                  : group.recv(whole(work.out), other);
  }
}

// One rank, until something fails or three operations are done. Returns its exit code.
int run_rank(const BackEnd& way, const Case& what, int rank, int port, Left* left) {
  Left& mine = left[rank];
  std::uint64_t step = 0;
  Work work;
  Floats before;
  try {
    const auto world = connect_processes({.rank = rank,
                                          .size = kRanks,
                                          .port = port,
                                          .host_name = way.hosts ? std::to_string(rank / 2) : "",
                                          .timeout_s = kPatience},
                                         way.route);
    Killer killer(rank == what.victim ? what.chunk : -1, mine);
    world->flight().show(&killer);
    std::vector<int> ranks(kRanks);
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = world->make_group("data", ranks), steps = world->make_group("steps", ranks);
    try {
      for (; step <= kAt; ++step) {
        work = prepare(rank, what.verb, step);
        before = work.out;
        submit(*group, what.verb, work).wait();
        if (work.out != work.right) return 1;
        steps->barrier().wait();
      }
      return 0;
    } catch (const Error& error) {
      mine.failed_at = now();
      std::snprintf(mine.message, sizeof mine.message, "%s", error.what());
    }
    mine.torn = work.out != before && work.out != work.right;
    mine.failed = true;
    // Rank 0 has the store, in which the others may be reading why.
    for (int other = 0; other < kRanks; ++other)
      while (other != what.victim && !left[other].failed && now() - mine.failed_at < kSoon)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } catch (const Error& error) {
    std::snprintf(mine.message, sizeof mine.message, "%s", error.what());
    return 1;
  }
  return exit_code(ErrorKind::kPeerLost);
}

class Run {
 public:
  Run(const BackEnd& way, const Case& what) : what_(what) {
    void* const memory = ::mmap(nullptr, kRanks * sizeof(Left), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    left_ = static_cast<Left*>(memory);
    const int port = free_port();
    for (int rank = 0; rank < kRanks; ++rank) {
      pids_[rank] = ::fork();
      if (pids_[rank] == 0) ::_exit(run_rank(way, what, rank, port, left_));
    }
  }
  ~Run() { ::munmap(left_, kRanks * sizeof(Left)); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const Case& what() const { return what_; }
  void join() {
    for (int rank = 0; rank < kRanks; ++rank) {
      int status = 0;
      ::waitpid(pids_[rank], &status, 0);
      codes_[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
  }

  std::uint64_t chunks() const { return left_[what_.victim].chunks; }
  // Whether some rank's result is neither what it was nor what it should be.
  bool torn() const {
    return std::any_of(left_, left_ + kRanks, [](const Left& left) { return left.torn.load(); });
  }
  // What is wrong with how it ended; empty: nothing.
  std::string wrong() const {
    std::string text;
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool killed = rank == what_.victim && what_.kills();
      const int wanted = !what_.kills() ? 0 : killed ? -SIGKILL : exit_code(ErrorKind::kPeerLost);
      if (codes_[rank] != wanted)
        text += fmt::format("  rank {} ended with {}, not {}: {}\n", rank, codes_[rank], wanted,
                            left_[rank].message);
      if (codes_[rank] != wanted || killed || !what_.kills()) continue;
      const std::string message = left_[rank].message;
      if (message.find(fmt::format("lost rank {} after", what_.victim)) == std::string::npos &&
          !(what_.victim == 0 && message.find("its host (rank 0") != std::string::npos))
        text += fmt::format("  rank {} does not name it: {}\n", rank, message);
      const double seconds = left_[rank].failed_at - left_[what_.victim].killed_at;
      if (seconds > kSoon) text += fmt::format("  rank {} went on for {:.1f} s\n", rank, seconds);
    }
    return text;
  }

 private:
  Case what_;
  Left* left_;
  pid_t pids_[kRanks];
  int codes_[kRanks];
};

class KilledAtAChunk : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Routes, KilledAtAChunk, testing::Range(std::size_t{0}, std::size(kWays)),
                         [](const auto& info) { return kWays[info.param].name; });

// In a process of its own, which has one thread and LibTorch loaded, and whose copies the ranks are.
TEST_P(KilledAtAChunk, OfAnyOperationIsNamedAndNothingHalfDoneIsTakenForDone) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::string way = std::to_string(GetParam());
    ::execl("/proc/self/exe", "comm_test", kChunksFlag, way.c_str(), nullptr);
    ::_exit(99);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "what went wrong stands above";
}

}  // namespace

namespace {

// Whether results are filled chunk by chunk. Gloo's sender hands over all chunks at once, and sums of a reduce-scatter wait
// for all ranks: there nothing need be half done.
bool grows(Verb verb, const BackEnd& way) {
  return verb == Verb::kAllReduce || verb == Verb::kAllGather || verb == Verb::kBroadcast ||
         verb == Verb::kAllToAll || (verb == Verb::kSend && way.route == Route::kShm);
}

// Several at a time, who mostly wait.
void join(std::vector<std::unique_ptr<Run>>& runs, const BackEnd& way, bool& good,
          std::map<Verb, int>& torn) {
  for (const auto& run : runs) {
    run->join();
    const std::string wrong = run->wrong();
    if (!wrong.empty())
      fmt::print(stderr, "{}: rank {} at chunk {} of {}:\n{}", way.name, run->what().victim,
                 run->what().chunk, name(run->what().verb), wrong);
    good = good && wrong.empty();
    torn[run->what().verb] += run->torn() ? 1 : 0;
  }
}

}  // namespace
}  // namespace trireme::comm::chunk_test

namespace trireme::comm {

bool chunks_are_survived(const BackEnd& way) {
  using namespace chunk_test;
  silence_c10d();
  // Across hosts and within one, the sender and the receiver.
  const Case kinds[] = {{Verb::kAllReduce, 1, -1}, {Verb::kReduceScatter, 2, -1},
                        {Verb::kAllGather, 3, -1}, {Verb::kBroadcast, 1, -1},
                        {Verb::kAllToAll, 2, -1},  {Verb::kSend, 1, -1},
                        {Verb::kRecv, 2, -1},      {Verb::kAllReduce, 0, -1}};
  bool good = true;
  std::map<Verb, int> torn;  // runs with results that are half done
  std::vector<std::unique_ptr<Run>> whole;
  for (const Case& kind : kinds) whole.push_back(std::make_unique<Run>(way, kind));
  join(whole, way, good, torn);
  for (const auto& run : whole) {
    const auto chunks = static_cast<std::int64_t>(run->chunks());
    if (chunks < 2) {
      fmt::print(stderr, "{}: {} has {} chunks: it is too small to be killed in\n", way.name,
                 name(run->what().verb), chunks);
      return false;
    }
    const Case what = run->what();
    // Once more where machines were too fast or too slow for a half.
    constexpr int kRounds = 4;
    for (int round = 0; round == 0 || (round < kRounds && torn[what.verb] == 0); ++round) {
      std::vector<std::unique_ptr<Run>> killed;
      for (const std::int64_t chunk : {std::int64_t{0}, chunks / 2, chunks - 1})
        killed.push_back(std::make_unique<Run>(way, Case{what.verb, what.victim, chunk}));
      join(killed, way, good, torn);
      if (!grows(what.verb, way)) break;
    }
    // Negative control: who took a failed operation for done would go on with data of two steps.
    if (grows(what.verb, way) && torn[what.verb] == 0) {
      fmt::print(stderr, "{}: no result of {} was half done: the kills are not inside it\n",
                 way.name, name(what.verb));
      good = false;
    }
  }
  return good;
}

}  // namespace trireme::comm
