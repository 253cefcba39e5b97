#include "trireme/launch/elastic/lookout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "trireme/base/os/processes.h"
#include "trireme/launch/watch/recorder.h"

namespace trireme::elastic::lookout_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A process that is a rank: in its second step, for ever.
class Rank {
 public:
  explicit Rank(int rank) : memory_(watch::shared_area()), process_(::fork()) {
    if (process_ != 0) return;
    watch::Recorder recorder(memory_.get());
    recorder.identify(rank, 2);
    recorder.enter(watch::Phase::kTraining, 1);
    recorder.enter(watch::Phase::kTraining, 2);
    for (;;) ::pause();
  }
  ~Rank() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void stop() const {
    ::kill(process_, SIGSTOP);
    ::waitpid(process_, nullptr, WUNTRACED);
  }
  Watched watched(int rank) const { return {rank, process_, watch::map_area(memory_.get())}; }

 private:
  os::Descriptor memory_;
  pid_t process_;
};

TEST(Lookout, TellsOfAStoppedRankAfterItsTime) {
  const Rank first(0), second(1);
  const std::vector<Watched> ranks = {first.watched(0), second.watched(1)};
  while (ranks[0].area->step.load() < 2 || ranks[1].area->step.load() < 2) ::usleep(1000);
  second.stop();
  const auto processes = os::make_processes();
  StackReader stacks(*processes, {"/bin/echo", "stack of"}, {});
  Lookout lookout({.pause = 1e9}, stacks, 0);
  Hangs silent;
  double now = 0;
  const auto look = [&](double at) {
    now = at;
    for (const os::ProcessEvent& event : processes->take()) stacks.handle(event);
    if (auto silence = lookout.look(1, ranks, now)) silent.heard(*silence, now);
    return silent.look(1, 2, now);
  };
  // What was there before the first look counts from it; their first step has passed without it.
  EXPECT_FALSE(look(0));
  EXPECT_FALSE(look(4.9));
  // Stacks are read aside; what is there is told.
  auto found = look(61);
  for (int i = 0; i < 1000 && !(found && found->hang.ranks.size() == 2); ++i) {
    ::usleep(10'000);
    found = look(61);
  }
  ASSERT_TRUE(found);
  EXPECT_THAT(found->hang.ranks, ElementsAre(1, 0)) << "neither waits; the stopped one first";
  EXPECT_TRUE(found->hang.final);
  EXPECT_THAT(found->hang.cause,
              HasSubstr("rank 1 has been at training, step 2 for 61.0 s: its process is stopped"));
  EXPECT_FALSE(look(61.6)->fresh) << "one report of one hang";
  EXPECT_THAT(*stacks.read(second.watched(1).process, 'T', now),
              HasSubstr("stack of " + std::to_string(second.watched(1).process)));
  EXPECT_FALSE(silent.look(2, 2, now)) << "of another generation nothing is known";
}

// It has written nothing yet, and others wait for it where nothing is written either.
TEST(Lookout, SeesARankStoppedBeforeItHasBegun) {
  const os::Descriptor memory = watch::shared_area();
  const pid_t process = ::fork();
  if (process == 0)
    for (;;) ::pause();
  const std::vector<Watched> ranks = {{1, process, watch::map_area(memory.get())}};
  const auto processes = os::make_processes();
  StackReader stacks(*processes, {"/bin/echo", "stack of"}, {});
  Lookout lookout({.pause = 1e9}, stacks, 0);
  const auto look = [&](double at) {
    std::optional<Silence> silence;
    for (int i = 0; i < 100 && !silence; ++i) {
      for (const os::ProcessEvent& event : processes->take()) stacks.handle(event);
      silence = lookout.look(1, ranks, at);
      ::usleep(1000);
    }
    return silence;
  };
  EXPECT_FALSE(look(0));
  EXPECT_FALSE(look(500)) << "it may wait for others";
  ::kill(process, SIGSTOP);
  ::waitpid(process, nullptr, WUNTRACED);
  EXPECT_FALSE(look(501));
  EXPECT_FALSE(look(505)) << "a pause";
  ::kill(process, SIGCONT);
  ::waitpid(process, nullptr, WCONTINUED);
  EXPECT_FALSE(look(506));
  ::kill(process, SIGSTOP);
  ::waitpid(process, nullptr, WUNTRACED);
  EXPECT_FALSE(look(507));
  std::optional<Silence> silence;
  for (int i = 0; i < 20 && !silence; ++i) silence = look(513);
  ASSERT_TRUE(silence);
  ASSERT_THAT(silence->ranks, SizeIs(1));
  EXPECT_EQ(silence->ranks[0].state.rank, 1);
  EXPECT_EQ(silence->ranks[0].state.process, 'T');
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

// What a host looks like from outside, in a time of its own: one rank that is stopped at some moment, a reader of its
// stack that holds it for as long as it takes to find its symbols, and an agent that sleeps now and then.
class Host final : public os::Processes {
 public:
  Host(std::mt19937_64& random, double& now)
      : now_(now), stops_at_(drawn(random, 0, 10)), reads_s_(drawn(random, 0, 3)) {
    for (double at = drawn(random, 0, 4); at < 40; at += drawn(random, 2, 20))
      sleeps_.emplace_back(at, drawn(random, 1, 3));
  }

  int spawn(const os::Spawn&) override {
    reader_ends_ = now_ + reads_s_;
    return ++reader_;
  }
  void signal(int, int) override { reader_ends_ = now_; }
  std::vector<os::ProcessEvent> take() override {
    if (!reader_ends_ || now_ < *reader_ends_) return {};
    reader_ends_.reset();
    return {{.kind = os::ProcessEvent::Kind::kEnded, .pid = reader_}};
  }
  int descriptor() const override { return -1; }

  char state() const {
    if (now_ < stops_at_) return 'S';
    return reader_ends_ && now_ < *reader_ends_ ? 't' : 'T';
  }
  // When the agent looks next.
  double next() const {
    for (const auto& [at, seconds] : sleeps_)
      if (now_ < at && at <= now_ + 0.1) return at + seconds;
    return now_ + 0.1;
  }
  // By when it must have been told: its time, all that the reader may take, and what the agent slept.
  double limit(double patience) const {
    constexpr double kReading = 2, kLooks = 1;
    double limit = stops_at_ + patience + kReading + kLooks;
    for (const auto& [at, seconds] : sleeps_)
      if (at < limit) limit += seconds + 0.1;
    return limit;
  }

 private:
  static double drawn(std::mt19937_64& random, double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  }

  double& now_;
  double stops_at_, reads_s_;
  std::vector<std::pair<double, double>> sleeps_;  // when, and for how long
  std::optional<double> reader_ends_;
  int reader_ = 0;
};

TEST(Lookout, AStoppedRankIsNamedWhateverReadsItsStackAndWhenItsAgentSleeps) {
  constexpr double kPatience = 1;
  for (int life = 0; life < 1000; ++life) {
    std::mt19937_64 random(static_cast<std::uint64_t>(life));
    double now = 0;
    Host host(random, now);
    const os::Descriptor memory = watch::shared_area();
    const std::vector<Watched> ranks = {{0, 4711, watch::map_area(memory.get())}};
    StackReader stacks(host, {"/bin/stack"}, {});
    Lookout lookout({.steps = kPatience}, stacks, now, [&](int) { return host.state(); });
    bool named = false;
    while (!named && now < host.limit(kPatience)) {
      now = host.next();
      for (const os::ProcessEvent& event : host.take()) stacks.handle(event);
      const auto silence = lookout.look(1, ranks, now);
      named = silence && !silence->ranks.empty();
      EXPECT_TRUE(!named || silence->ranks[0].state.process == 'T') << "life " << life;
    }
    ASSERT_TRUE(named) << "life " << life << ", " << now << " s";
  }
}

Silence silence_of(HostId host, int rank, bool waiting) {
  Silence silence{.host = host, .generation = 1};
  Silence::Rank& one = silence.ranks.emplace_back();
  one.state.rank = rank;
  one.state.phase = watch::Phase::kTraining;
  one.state.waiting = waiting;
  if (waiting)
    one.state.operations = {{.track = "dp", .members = {0, 1}, .what = "all_reduce", .peer = -1}};
  one.seconds = 6;
  return silence;
}

TEST(Hangs, ReportsAHangOnceWithItsDetails) {
  Hangs silent;
  Silence silence = silence_of(8, 1, /*waiting=*/false);
  silence.ranks[0].details = "rank 1 (process 7)";
  silent.heard(silence, 1);
  const auto found = silent.look(1, 2, 1);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fresh);
  EXPECT_THAT(found->lines, Contains("rank 1 (process 7)"));
  silence = silence_of(8, 1, false);  // details come once
  silence.ranks[0].seconds = 9;
  silent.heard(silence, 4);
  const auto later = silent.look(1, 2, 4);
  ASSERT_TRUE(later);
  EXPECT_FALSE(later->fresh);
  EXPECT_DOUBLE_EQ(later->reported_s, 3) << "what the rank was silent, not what the clock says";
}

// A state is told once in a while; between, that it is as it was.
TEST(Hangs, WhatIsAsBeforeNeedNotBeToldAgain) {
  Hangs silent;
  Silence same = silence_of(8, 1, false);
  same.ranks[0].state = {.rank = 1};
  same.ranks[0].same = true;
  silent.heard(same, 1);
  EXPECT_FALSE(silent.look(1, 2, 1)) << "what it refers to got lost";
  silent.heard(silence_of(8, 1, false), 1.5);
  same.ranks[0].seconds = 7;
  silent.heard(same, 2);
  const auto found = silent.look(1, 2, 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->hang.ranks, std::vector{1});
  EXPECT_TRUE(found->hang.in_step == silence_of(8, 1, false).ranks[0].in_step);
  EXPECT_DOUBLE_EQ(found->hang.seconds, 7);
  EXPECT_FALSE(silent.look(1, 2, 5)) << "but that it is";
}

TEST(Hangs, PutsTogetherWhatHostsTell) {
  Hangs silent;
  silent.heard(silence_of(7, 0, /*waiting=*/true), 10);
  EXPECT_FALSE(silent.look(1, 2, 10)) << "rank 1 goes on, for all that is known";
  silent.heard(silence_of(8, 1, /*waiting=*/false), 10.2);
  const auto found = silent.look(1, 2, 10.2);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->hang.ranks, ElementsAre(1));
  EXPECT_FALSE(silent.look(1, 2, 13)) << "who tells nothing any more counts no more";
  silent.heard(silence_of(8, 1, false), 13);
  EXPECT_TRUE(silent.look(1, 2, 13));
  silent.heard({.host = 8, .generation = 1}, 13.1);
  EXPECT_FALSE(silent.look(1, 2, 13.1)) << "it goes on";
}

}  // namespace
}  // namespace trireme::elastic::lookout_test
