// trireme islands from end to end: runs merge their weights, one is killed and comes back, and the tape replays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

#include "tests/apps/launched.h"
#include "tests/apps/run_files.h"
#include "trireme/base/clock.h"
#include "trireme/base/ports.h"

namespace trireme::app::islands_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

TEST(Islands, SayWhatTheyNeed) {
  const Desk desk;
  ::chmod(desk.write("token", kToken).c_str(), 0600);
  desk.write("text.txt", std::string(4000, 'x') + "\n");
  desk.write("job.yaml",
             "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
             "run: {steps: 6, global_batch: 8, micro_batch: 2}\n");
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const Result result = desk.run(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({"islands", "--token-file", "token"}, "--listen");
  refused({"islands", "--listen", "here", "--token-file", "token"},
          "--listen here; needs HOST:PORT");
  refused({"replay", "nowhere"}, "nowhere has no tape.jsonl");
  const auto train = [&](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), {"train", "job.yaml"});
    refused(words, why);
  };
  train({"--island", "0/2"}, "--island 0/2 needs --islands");
  train({"--islands", "head:1", "--island", "0/2"}, "needs --token-file");
  const std::vector<std::string> leader = {"--islands", "head:1", "--token-file", "token"};
  const auto island = [&](const std::string& number, const std::string& outer,
                          const std::string& why) {
    std::vector<std::string> words = leader;
    words.insert(words.end(), {"--island", number, "--set", "network.outer=" + outer});
    train(words, why);
  };
  island("2/2", "every:2", "--island \"2/2\"; needs the number");
  island("0/2", "none", "needs outer steps");
  island("0/2", "islands:2,every:2", "has islands:2 inside the job");
}

#if TRIREME_HAS_WORKER

class Together : public ::testing::Test {
 protected:
  Together() : leader_("127.0.0.1:" + std::to_string(free_port())) {
    std::string text;
    for (int i = 0; i < 4000; ++i)
      text += "value[" + std::to_string(i) + "] = " + std::to_string(i * i % 97) + ";\n";
    desk_.write("text.txt", text);
    ::chmod(desk_.write("token", kToken).c_str(), 0600);
  }
  void job(const std::string& outer, int steps, int hidden = 32) const {
    desk_.write("job.yaml",
                "model: {layers: 2, hidden: " + std::to_string(hidden) +
                    ", heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                    "optim: {schedule: constant}\ncheckpoint: {every: 10, async: false}\n"
                    "network: {outer: \"" +
                    outer + "\"}\nrun: {steps: " + std::to_string(steps) +
                    ", global_batch: 8, micro_batch: 2, eval_every: -1}\n");
  }
  std::unique_ptr<Running> start(const std::string& name, std::vector<std::string> words) const {
    return std::make_unique<Running>(desk_.path(), std::string(TRIREME_BIN_DIR) + "/trireme",
                                     std::move(words), name);
  }
  std::unique_ptr<Running> lead(std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"islands", "--listen", leader_, "--token-file", "token", "--dir", "tape"});
    return start("leader", more);
  }
  std::unique_ptr<Running> island(int number, std::vector<std::string> more = {}) const {
    const std::string name = "island" + std::to_string(number);
    more.insert(more.begin(), {"train", "job.yaml", "--out", name, "--islands", leader_, "--island",
                               std::to_string(number) + "/4", "--token-file", "token"});
    return start(name, more);
  }
  bool has(const std::string& name) const {
    return soon([&] { return std::filesystem::exists(desk_ / name); });
  }
  std::vector<Json> merges() const {
    std::vector<Json> found;
    for (const Json& line : lines_of(desk_ / "tape/tape.jsonl"))
      if (line["kind"] == "merge") found.push_back(line);
    return found;
  }
  // Lines of the tape, while it is written, that have both texts.
  std::size_t lines_with(const std::string& one, const std::string& other) const {
    if (!std::filesystem::exists(desk_ / "tape/tape.jsonl")) return 0;
    std::istringstream text(read_file(desk_ / "tape/tape.jsonl"));
    std::size_t found = 0;
    for (std::string line; std::getline(text, line);)
      found += line.find(one) != line.npos && line.find(other) != line.npos;
    return found;
  }
  // They wait for the leader, so that it gets to know them together: alone, the first one would not wait for the second.
  bool wait_for_the_leader(std::initializer_list<int> islands) const {
    return std::ranges::all_of(islands, [&](int island) {
      return has("island" + std::to_string(island) + "/islands/tape.jsonl");
    });
  }
  bool has_merged(int island, std::size_t merges) const {
    return soon([&] {
      return lines_with("\"merge\"", "\"island\":" + std::to_string(island) + ",") >= merges;
    });
  }
  // Each once, up to the last.
  void expect_steps(const std::string& run, std::int64_t last) const {
    std::int64_t before = -1;
    for (const Json& line : lines_of(desk_ / run / "metrics.jsonl")) {
      if (!line.contains("loss")) continue;
      const auto step = line["step"].get<std::int64_t>();
      if (before >= 0) {
        EXPECT_EQ(step, before + 1);
      }
      before = step;
    }
    EXPECT_EQ(before, last);
  }
  void expect_replay(const std::string& islands) const {
    const Result result = desk_.run({"replay", "tape"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(islands + " have sent the codes of the tape"));
  }

  Desk desk_;
  std::string leader_;
};

TEST_F(Together, OneIslandAloneHasTheBitsOfTheSameOuterStepsInsideAJob) {
  for (const char* outer : {"every:5", "every:5,momentum:0,lr:0.5,codec:q4:bf16,back:q8"}) {
    std::filesystem::remove_all(desk_ / "tape");
    std::filesystem::remove_all(desk_ / "island0");
    std::filesystem::remove_all(desk_ / "plain");
    job(outer, 30, /*hidden=*/96);
    ASSERT_EQ(desk_.run({"train", "job.yaml", "--out", "plain"}).exit_code, 0);
    const auto leader = lead();
    const Result result = start("island0", {"train", "job.yaml", "--out", "island0", "--islands",
                                            leader_, "--island", "0/1", "--token-file", "token"})
                              ->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(merges().size(), 6u);
    EXPECT_EQ(trace(desk_ / "island0"), trace(desk_ / "plain")) << outer;
  }
}

// Nothing listens where the leader should be.
TEST_F(Together, AnIslandWithoutItsLeaderCanBeStopped) {
  job("every:5", 20);
  const auto lone = island(0);
  ASSERT_TRUE(has("island0/islands/tape.jsonl"));
  ::usleep(500'000);
  const Stopwatch watch;
  lone->signal(SIGTERM);
  const Result result = lone->wait();
  EXPECT_LT(watch.seconds(), 30) << "of the minute that it would wait";
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("asked to stop before the leader of islands"));
}

TEST_F(Together, AKilledIslandComesBackAndTheTapeHasEqualBits) {
  job("every:10", 120);
  const auto first = island(0);
  auto second = island(1);
  ASSERT_TRUE(wait_for_the_leader({0, 1}));
  auto leader = lead();
  ASSERT_TRUE(has_merged(1, 2)) << read_file(desk_ / "island1.err");
  second->signal(SIGKILL);
  EXPECT_EQ(second->wait().exit_code, -SIGKILL);
  second = island(1);
  for (const auto& one : {first.get(), second.get()}) {
    const Result result = one->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  expect_steps("island0", 120);
  std::size_t both = 0;
  for (const Json& merge : merges()) both += merge["from"].size() == 2;
  EXPECT_GE(both, 3u);  // the one with fewer steps merges its last rounds alone
  leader->signal(SIGTERM);
  EXPECT_EQ(leader->wait().exit_code, 0);
  expect_replay("3");
  // An island that has another history is not taken for this one.
  std::filesystem::remove_all(desk_ / "tape");
  leader = lead();
  job("every:10", 140);
  const Result stranger = island(0)->wait();
  EXPECT_EQ(stranger.exit_code, 2);
  EXPECT_THAT(stranger.err, HasSubstr("this leader has"));
}

// Fragments with a delay, codes with residuals, two ranks that share states, and islands that are late.
TEST_F(Together, StreamedCodesOfSeveralRanksReplay) {
  job("every:8,fragments:2,delay:2,codec:q4:bf16,back:q8", 80,
      /*hidden=*/96);  // large enough for codes
  const auto leader = lead({"--quorum", "1", "--grace", "0.05"});
  const auto first = island(0, {"--ranks", "2", "--set", "parallel.zero=1"});
  const auto second = island(2);
  for (const auto& one : {first.get(), second.get()}) {
    const Result result = one->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_GE(merges().size(), 10u);
  leader->signal(SIGTERM);
  EXPECT_EQ(leader->wait().exit_code, 0);
  expect_replay("2");
}

// The leader is killed and its disk is lost: another one continues from the islands' copies. An island that joins then
// takes the checkpoint of one that trains, so it begins at its step.
TEST_F(Together, ALostLeaderComesBackFromCopiesAndAnIslandJoinsByState) {
  job("every:5,delay:1,codec:q4:bf16,back:q8", 500, /*hidden=*/96);
  const auto first = island(0);
  const auto second = island(1);
  ASSERT_TRUE(wait_for_the_leader({0, 1}));
  auto leader = lead();
  ASSERT_TRUE(has_merged(1, 3)) << read_file(desk_ / "island1.err");
  leader->signal(SIGKILL);
  leader->wait();
  const std::size_t before = merges().size();
  std::filesystem::rename(desk_ / "tape", desk_ / "lost");
  const Result few = desk_.run({"islands", "--listen", leader_, "--token-file", "token", "--dir",
                                "tape", "--from", "island0/islands"});
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_THAT(few.err, HasSubstr("copies of 1 of 2 islands"));
  leader = lead({"--from", "island0/islands", "--from", "island1/islands"});
  ASSERT_TRUE(has_merged(0, before + 2)) << read_file(desk_ / "island0.err");
  const auto third = island(2);
  for (const auto& one : {first.get(), second.get(), third.get()}) {
    const Result result = one->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  expect_steps("island0", 500);
  expect_steps("island1", 500);
  expect_steps("island2", 500);
  EXPECT_LT(trace(desk_ / "island2").size(), 500u);
  EXPECT_THAT(read_file(desk_ / "island2.err"), HasSubstr("island 2 takes the state of island"));
  // A round of a fragment is merged once.
  std::set<std::int64_t> rounds;
  for (const Json& merge : merges())
    EXPECT_TRUE(rounds.insert(merge["round"].get<std::int64_t>()).second);
  EXPECT_GT(merges().size(), before + 4);
  leader->signal(SIGTERM);
  EXPECT_EQ(leader->wait().exit_code, 0);
  expect_replay("3");
}

// Both islands are needed for a merge. The slow one, whose steps are longer, does fewer of them in a round.
TEST_F(Together, AnIslandThatIsSlowDoesFewerStepsOfARound) {
  job("every:20", 160);
  const auto second = island(1, {"--set", "run.global_batch=32"});
  const auto first = island(0);
  ASSERT_TRUE(wait_for_the_leader({0, 1}));
  const auto leader = lead();
  for (const auto& one : {first.get(), second.get()}) {
    const Result result = one->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  leader->signal(SIGTERM);
  EXPECT_EQ(leader->wait().exit_code, 0);
  std::int64_t paces = 0, last = 0, least = 20;
  for (const Json& merge : merges()) {
    paces += static_cast<std::int64_t>(merge["paces"].size());
    for (const Json& one : merge["from"]) {
      if (one["island"] != 1) continue;
      const auto step = one["step"].get<std::int64_t>();
      if (last > 0) least = std::min(least, step - last);
      last = step;
    }
  }
  EXPECT_GT(paces, 0);
  EXPECT_LT(least, 12);
  expect_replay("2");
}

#endif

}  // namespace
}  // namespace trireme::app::islands_test
