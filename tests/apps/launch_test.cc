// trireme launch from end to end: ranks that die, agents that die, runs that cannot go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <functional>
#include <thread>

#include "tests/apps/launched.h"
#include "tests/apps/run_files.h"
#include "trireme/base/clock.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/base/ports.h"

namespace trireme::app::launch_test {
namespace {

using ::testing::HasSubstr;

TEST_F(Launched, ARankThatDiesIsStartedAgain) {
  worker(
      "[ $TRIREME_GENERATION = 1 ] && [ $RANK = 1 ] && kill -9 $$\n"
      "[ $TRIREME_GENERATION = 1 ] && exec sleep 600\n"
      "echo $RANK of $WORLD_SIZE > rank$RANK");
  const Result result = launch({"--nproc-per-node", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_THAT(result.err, HasSubstr("restarting from step 0"));
  EXPECT_EQ(read_file(desk_ / "rank0"), "0 of 2\n");
  EXPECT_EQ(read_file(desk_ / "rank1"), "1 of 2\n");
  const std::vector<Json> events = lines_of(desk_ / "run/events.jsonl");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["class"], "rank killed");
  EXPECT_EQ(events[0]["rank"], 1);
  EXPECT_EQ(events[0]["generation"], 1);
  EXPECT_EQ(events[0]["action"], "restart");
  EXPECT_GE(events[0]["lost_s"].get<double>(), 0);
}

TEST_F(Launched, ADirectoryThatAKilledRankHalfMadeIsNoObstacle) {
  worker("exit 0");
  desk_.write("run/job.lock.yaml.tmp-123", "half");
  desk_.write("run/.lock", "");
  EXPECT_EQ(launch({}).exit_code, 0);
  desk_.write("other/thesis.tex", "");
  EXPECT_EQ(desk_.run({"launch", "--", "train", "job.yaml", "--out", "other"}, front()).exit_code,
            2);
}

TEST_F(Launched, ACrashLoopEndsWithRankAndStep) {
  worker(
      "[ $RANK = 0 ] && exec sleep 600\nuntil [ -e run/job.lock.yaml ]; do sleep 0.05; done\n"
      "echo $TRIREME_GENERATION >> generations\n"
      "echo '{\"step\":39}' > run/metrics.jsonl; kill -9 $$");
  const Result result = launch({"--nproc-per-node", "2"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_THAT(result.err, HasSubstr("in step 40; 3 restarts since the checkpoint of step 0"));
  EXPECT_EQ(read_file(desk_ / "generations"), "1\n2\n3\n4\n");
  const std::vector<Json> events = lines_of(desk_ / "run/events.jsonl");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2]["action"], "restart");
  EXPECT_EQ(events[3]["action"], "stop");
  EXPECT_EQ(events[3]["step"], 40);
}

TEST_F(Launched, MaxRestartsDecides) {
  worker("echo x >> starts; exit 1");
  EXPECT_EQ(launch({"--max-restarts", "0"}).exit_code, 1) << "what the rank ended with";
  EXPECT_EQ(read_file(desk_ / "starts"), "x\n");
  EXPECT_EQ(launch({"--max-restarts", "1"}).exit_code, 4);
  EXPECT_EQ(read_file(desk_ / "starts"), "x\nx\nx\n");
}

TEST_F(Launched, WhereAPersonMustDecideNothingRestarts) {
  for (const int code : {2, 3, 5, 6}) {
    std::filesystem::remove(desk_ / "starts");
    worker("[ $RANK = 0 ] && exec sleep 600\necho x >> starts; exit " + std::to_string(code));
    EXPECT_EQ(launch({"--nproc-per-node", "2"}).exit_code, code);
    EXPECT_EQ(read_file(desk_ / "starts"), "x\n");
  }
}

TEST_F(Launched, ATermReachesTheRanksOnce) {
  worker(
      "trap 'echo term >> terms; sleep 2; exit 143' TERM; touch ready$RANK\n"
      "while :; do sleep 0.05; done");
  Running running(desk_.path(), front(), words({"--nproc-per-node", "2"}));
  ASSERT_TRUE(soon([&] {
    return std::filesystem::exists(desk_ / "ready0") && std::filesystem::exists(desk_ / "ready1");
  }));
  running.signal(SIGTERM);
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(desk_ / "terms"); }));
  running.signal(SIGTERM);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 143) << result.err;
  expect_one_line(result.err);
  EXPECT_THAT(result.err, HasSubstr("SIGTERM received"));
  EXPECT_EQ(read_file(desk_ / "terms"), "term\nterm\n") << "one of each rank";
}

TEST_F(Hosts, ComeAndGo) {
  const auto first = agent("first", {"--nnodes", "1:2", "--max-restarts", "1000"});
  ASSERT_TRUE(comes("0", 1));
  auto second = agent("second", {"--nnodes", "1:2", "--max-restarts", "1000"});
  ASSERT_TRUE(comes("0", 2)) << "it joins";
  ASSERT_TRUE(comes("1", 2));
  second->signal(SIGKILL);
  ASSERT_TRUE(comes("0", 1)) << "the first goes on alone";
  second->wait();
  second = agent("second", {"--nnodes", "1:2", "--max-restarts", "1000"});
  ASSERT_TRUE(comes("1", 2));
  second->signal(SIGTERM);
  EXPECT_EQ(second->wait().exit_code, 143);
  ASSERT_TRUE(comes("0", 1));
  desk_.write("finish", "");
  EXPECT_EQ(first->wait().exit_code, 0);
  const std::vector<Json> events = lines_of(desk_ / "run/events.jsonl");
  ASSERT_FALSE(events.empty());
  for (const Json& event : events)
    EXPECT_EQ(event["class"], "host lost") << "who leaves in order is no fault";
  EXPECT_GE(std::stoi(read_file(desk_ / "run/.generation")), 5);
}

TEST_F(Hosts, EndTogether) {
  const auto first = agent("first", {"--nnodes", "2"}), second = agent("second", {"--nnodes", "2"});
  ASSERT_TRUE(comes("1", 2));
  desk_.write("finish", "");
  EXPECT_EQ(first->wait().exit_code, 0);
  EXPECT_EQ(second->wait().exit_code, 0);
}

// As on a full disk. Without a word the second would wait for a leader for the join timeout, ten minutes.
TEST_F(Hosts, AGenerationThatCannotBeNotedEndsAllOfThem) {
  const auto first = agent("first", {"--nnodes", "1:2", "--max-restarts", "1000"});
  ASSERT_TRUE(comes("0", 1));
  std::filesystem::remove(desk_ / "run/.generation");
  std::filesystem::create_directories(desk_ / "run/.generation");
  const auto second = agent("second", {"--nnodes", "1:2", "--max-restarts", "1000"});
  const Stopwatch clock;
  for (const auto* each : {&first, &second}) {
    const Result result = (*each)->wait();
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, AllOf(HasSubstr("generation 2 cannot begin: run/.generation"),
                                  HasSubstr("Is a directory")));
  }
  EXPECT_LT(clock.seconds(), 60);
}

// Without a word of its ranks the others would wait for that host, or for the leader, for ten minutes.
TEST_F(Hosts, RanksThatCannotBeStartedEndAllOfThem) {
  for (const char* spoiled : {"0", "1"}) {
    std::filesystem::remove_all(desk_ / "other");
    std::filesystem::copy(desk_ / "bin", desk_ / "other");
    const Path program = desk_ / "other/trireme";
    const auto start = [&](const std::string& host, const Path& file) {
      return std::make_unique<Running>(
          desk_.path(), file.string(),
          words({"--nnodes", "2", "--node-rank", host, "--rdzv-endpoint", endpoint_, "--token-file",
                 "token"}),
          "host" + host);
    };
    std::vector<std::unique_ptr<Running>> agents;
    agents.push_back(start(spoiled, program));
    const Path running = "/proc/" + std::to_string(agents.back()->pid()) + "/exe";
    ASSERT_TRUE(soon([&] { return std::filesystem::read_symlink(running) == program; }));
    std::filesystem::remove(program);  // what its ranks would run
    agents.push_back(start(*spoiled == '0' ? "1" : "0", front()));
    const Stopwatch clock;
    for (const auto& each : agents) {
      const Result result = each->wait();
      EXPECT_EQ(result.exit_code, 2) << result.err;
      EXPECT_THAT(result.err, HasSubstr("No such file or directory"));
    }
    EXPECT_LT(clock.seconds(), 60);
  }
}

// Which host leads, and where, is what those say who started the agents.
TEST_F(Hosts, AgentsTakeTheirPlaceFromSlurmOpenMpiAndTorchrun) {
  const std::string port = endpoint_.substr(endpoint_.find(':') + 1);
  const auto place = [&](const std::string& by, const std::string& host) {
    using Variables = std::map<std::string, std::string>;
    if (by == "torchrun")
      return Variables{
          {"PET_NODE_RANK", host}, {"PET_RDZV_ENDPOINT", endpoint_}, {"PET_RDZV_ID", "r"}};
    if (by == "Open MPI")
      return Variables{{"OMPI_COMM_WORLD_RANK", host},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", port}};
    return Variables{{"SLURM_PROCID", host},
                     {"SLURM_NODEID", host},
                     {"SLURM_NNODES", "2"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_JOB_NAME", "train"},
                     {"SLURM_JOB_ID", "7"},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", port},
                     {"SLURM_STEP_NODELIST", "n[1-2]"}};
  };
  for (const std::string by : {"Slurm", "Open MPI", "torchrun"}) {
    std::vector<std::string> options = {"--token-file", "token"};
    if (by == "torchrun") options.insert(options.end(), {"--nnodes", "2"});
    std::vector<std::unique_ptr<Running>> agents;
    for (const char* host : {"1", "0"})  // whoever comes first does not lead for that
      agents.push_back(std::make_unique<Running>(desk_.path(), front(), words(options),
                                                 *host == '0' ? "first" : "second",
                                                 place(by, host)));
    ASSERT_TRUE(comes("1", 2)) << by;
    desk_.write("finish", "");
    for (const auto& agent : agents) EXPECT_EQ(agent->wait().exit_code, 0) << by;
    std::filesystem::remove(desk_ / "finish");
  }
}

TEST_F(Hosts, TooFewEndWithTheReason) {
  const Result result = agent("first", {"--nnodes", "2", "--join-timeout", "1"})->wait();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("1 of at least 2 hosts were there for 1 s"));
}

TEST_F(Hosts, AnotherTokenGetsNothing) {
  token("other", "the token of other hosts");
  const auto first = agent("first", {"--nnodes", "1:2"});
  ASSERT_TRUE(comes("0", 1));
  const Result result =
      agent("second", {"--nnodes", "1:2", "--join-timeout", "2"}, "other")->wait();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("no word from the leader"));
  desk_.write("finish", "");
  EXPECT_EQ(first->wait().exit_code, 0);
}

bool is_gone(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return !(stat >> number >> name >> state) || state == "Z";
}

TEST_F(Launched, RanksDieWithTheirAgentAndTheNextStartsAtOnce) {
  worker("echo $$ > pid$RANK.new; mv pid$RANK.new pid$RANK; [ -e second ] || exec sleep 600");
  for (int round = 0; round < 3; ++round) {
    Running running(desk_.path(), front(), words({"--nproc-per-node", "2"}));
    std::vector<int> pids;
    for (const char* name : {"pid0", "pid1"}) {
      ASSERT_TRUE(soon([&] { return std::filesystem::exists(desk_ / name); }));
      pids.push_back(std::stoi(read_file(desk_ / name)));
      std::filesystem::remove(desk_ / name);
    }
    running.signal(SIGKILL);
    running.wait();
    for (const int pid : pids) EXPECT_TRUE(soon([&] { return is_gone(pid); }));
  }
  desk_.write("second", "");
  EXPECT_EQ(launch({"--nproc-per-node", "2"}).exit_code, 0)
      << "nothing of the killed ones is in the way";
}

TEST_F(Launched, SaysWhatItNeedsBeforeAnythingStarts) {
  worker("touch started");
  const auto refused = [&](const std::vector<std::string>& options, const std::string& why) {
    const Result result = desk_.run(options, front());
    EXPECT_EQ(result.exit_code, 2) << why;
    EXPECT_THAT(result.err, HasSubstr(why));
    expect_one_line(result.err);
  };
  refused({"launch"}, "-- train JOB.yaml");
  refused({"launch", "--", "explain", "job.yaml"}, "not explain");
  refused({"launch", "--", "train", "none.yaml"}, "none.yaml");
  refused({"launch", "--", "train", "job.yaml", "--ranks", "2"}, "--nproc-per-node");
  refused({"launch", "--", "train", "job.yaml", "--stps", "2"}, "--stps");
  refused({"launch", "--", "train", "job.yaml", "--steps", "0"}, "--steps 0; needs");
  refused({"launch", "--", "train", "job.yaml", "--steps", "-5"}, "--steps -5; needs");
  refused(words({"--nproc-per-node", "3"}), "run.global_batch=8 is not divisible");
  refused(words({"--nnodes", "2:1"}), "--nnodes 2:1");
  refused(words({"--nnodes", "x"}), "--nnodes x");
  refused(words({"--nnodes", "2"}), "--rdzv-endpoint HOST:PORT");
  refused(words({"--rdzv-endpoint", "localhost"}), "needs HOST:PORT");
  refused(words({"--rdzv-endpoint", "localhost:1"}), "--token-file");
  desk_.write("token", "0123456789abcdef");
  ::chmod((desk_ / "token").c_str(), 0644);
  refused(words({"--rdzv-endpoint", "localhost:1", "--token-file", "token"}), "chmod 600");
  EXPECT_FALSE(std::filesystem::exists(desk_ / "started"));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "run"));
}

std::vector<std::string> with_memory(std::vector<std::string> words) {
  words.insert(words.end(), {"--set", "checkpoint.memory_every=2"});
  return words;
}

// A directory for ranks that comes and goes with their agent; what a killed one leaves the next launch takes away.
TEST_F(Launched, MemoryForSnapshotsLastsAsLongAsItsAgent) {
  worker(
      "echo $TRIREME_MEMORY > where.new; mv where.new where; [ -e second ] && exit 0\n"
      "touch $TRIREME_MEMORY/something; exec sleep 600");
  Path left;
  {
    Running running(desk_.path(), front(), with_memory(words({})));
    ASSERT_TRUE(soon([&] { return std::filesystem::exists(desk_ / "where"); }));
    left = read_file(desk_ / "where").substr(0, read_file(desk_ / "where").find('\n'));
    ASSERT_TRUE(left.string().starts_with("/dev/shm/trireme-memory-")) << left;
    ASSERT_TRUE(soon([&] { return std::filesystem::exists(left / "something"); }));
    EXPECT_EQ(std::filesystem::status(left).permissions(), std::filesystem::perms::owner_all);
    // Another launch leaves it alone while its agent lives.
    desk_.write("second", "");
    EXPECT_EQ(
        desk_.run(with_memory({"launch", "--", "train", "job.yaml", "--out", "other"}), front())
            .exit_code,
        0);
    EXPECT_TRUE(std::filesystem::exists(left / "something"));
    running.signal(SIGKILL);
    running.wait();
  }
  EXPECT_TRUE(std::filesystem::exists(left)) << "nobody was there to take it away";
  EXPECT_EQ(desk_.run(with_memory(words({})), front()).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(left));
  const Path own = read_file(desk_ / "where").substr(0, read_file(desk_ / "where").find('\n'));
  EXPECT_NE(own, left);
  EXPECT_FALSE(std::filesystem::exists(own));
  EXPECT_EQ(desk_.run(words({}), front()).exit_code, 0);
  EXPECT_EQ(read_file(desk_ / "where"), "\n") << "only for jobs that keep something there";
}

// Two runs of one directory: the second is refused while the first lives, and has it afterwards.
TEST_F(Launched, ADirectoryHasOneRun) {
  worker("[ -e second ] && exit 0; touch begun; exec sleep 600");
  const std::vector<std::string> again = {"train", "job.yaml", "--out", "run"};
  {
    Running running(desk_.path(), front(), words({}));
    ASSERT_TRUE(soon([&] { return std::filesystem::exists(desk_ / "begun"); }));
    const Result refused = desk_.run(again, front());
    EXPECT_EQ(refused.exit_code, 2);
    expect_one_line(refused.err);
    EXPECT_THAT(refused.err, HasSubstr("is in use by a run that has not ended"));
    running.signal(SIGKILL);
    running.wait();
  }
  desk_.write("second", "");
  EXPECT_TRUE(soon([&] { return desk_.run(again, front()).exit_code == 0; }));
}

TEST_F(Launched, SaysWhereSnapshotsHaveNoRoom) {
  worker("exit 0");
  const std::string says = "snapshots in memory need";
  const Result small = desk_.run(with_memory(words({})), front());
  EXPECT_EQ(small.exit_code, 0) << small.err;
  EXPECT_EQ(small.out.find(says), std::string::npos);
  std::vector<std::string> large = with_memory(words({}));
  for (const char* word : {"--set", "model.layers=96", "model.hidden=65536", "model.heads=512",
                           "run.memory_limit=500TiB"})
    large.emplace_back(word);
  const Result none = desk_.run(large, front());
  EXPECT_EQ(none.exit_code, 0) << none.err;
  EXPECT_THAT(none.out, ::testing::AllOf(HasSubstr(says), HasSubstr("of /dev/shm, which has")));
}

// It was not there while the run went on: what it has is not the past of what it joins.
TEST_F(Hosts, MemoryOfAHostThatMissedAGenerationIsEmptied) {
  worker(
      "trap 'exit 143' TERM\n"
      "ls $TRIREME_MEMORY > seen-${RANK:-0}-$TRIREME_GENERATION\n"
      "touch $TRIREME_MEMORY/mark\n"
      "echo \"$TRIREME_GENERATION ${RANK:-0} of ${WORLD_SIZE:-1}\" > now-${RANK:-0}.new; mv "
      "now-${RANK:-0}.new now-${RANK:-0}\n"
      "until [ -e finish ]; do sleep 0.05; done");
  const auto start = [&](const std::string& name) {
    return std::make_unique<Running>(
        desk_.path(), front(),
        with_memory(words({"--nnodes", "1:2", "--max-restarts", "1000", "--rdzv-endpoint",
                           endpoint_, "--token-file", "token"})),
        name);
  };
  const auto first = start("first");
  ASSERT_TRUE(comes("0", 1));
  const auto second = start("second");
  ASSERT_TRUE(comes("1", 2));
  second->signal(SIGSTOP);
  ASSERT_TRUE(comes("0", 1)) << "the first goes on alone";
  second->signal(SIGCONT);
  ASSERT_TRUE(comes("1", 2));
  ASSERT_TRUE(comes("0", 2)) << "which may begin later";
  const std::string generation = std::to_string(seen_["1"]);
  EXPECT_EQ(read_file(desk_ / ("seen-1-" + generation)), "");
  EXPECT_EQ(read_file(desk_ / ("seen-0-" + generation)), "mark\n") << "it was always there";
  desk_.write("finish", "");
  EXPECT_EQ(first->wait().exit_code, 0);
  EXPECT_EQ(second->wait().exit_code, 0);
}

#if TRIREME_HAS_WORKER

// A job of many short steps, and its ranks as the processes that they are.
class Launch : public ::testing::Test {
 protected:
  Launch() {
    std::string text;
    for (int i = 0; i < 2000; ++i)
      text += "value[" + std::to_string(i) + "] = " + std::to_string(i * i % 97) + ";\n";
    desk_.write("text.txt", text);
    desk_.write(
        "job.yaml",
        "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
        "parallel: {zero: 3}\noptim: {schedule: constant}\ncheckpoint: {every: 10, async: false}\n"
        "run: {steps: 400, global_batch: 8, micro_batch: 2, eval_every: -1, hang_report_s: 2}\n");
  }

  // What an uninterrupted run of the job wrote; the first test that asks runs it.
  const std::vector<std::string>& whole() const {
    static const std::vector<std::string> kTrace = [this] {
      EXPECT_EQ(desk_.run({"train", "job.yaml", "--nproc", "2", "--out", "whole"}).exit_code, 0);
      return trace(desk_ / "whole");
    }();
    return kTrace;
  }
  Running launch(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"launch", "--nproc-per-node", "2",     "--",
                                      "train",  "job.yaml",         "--out", "run"};
    words.insert(words.end(), more.begin(), more.end());
    return Running(desk_.path(), std::string(TRIREME_BIN_DIR) + "/trireme", words);
  }
  bool reaches(int step) const {
    return soon([&] {
      return std::filesystem::exists(desk_ / "run/checkpoints" / ("step-" + std::to_string(step)));
    });
  }
  // Children of the agent, in the order in which it has started them.
  static std::vector<pid_t> ranks(const Running& running) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream stat(entry.path() / "stat");
      std::string number, name, state, parent;
      if (stat >> number >> name >> state >> parent && parent == std::to_string(running.pid()))
        found.push_back(std::stoi(number));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<Json> events(const std::string& kind) const {
    std::vector<Json> found;
    for (Json& event : lines_of(desk_ / "run/events.jsonl"))
      if (event["class"] == kind) found.push_back(std::move(event));
    return found;
  }

  const Desk desk_;
};

TEST_F(Launch, AKilledRankCostsNoBit) {
  const std::vector<std::string>& expected = whole();
  Running running = launch();
  ASSERT_TRUE(reaches(20));
  ASSERT_EQ(ranks(running).size(), 2u);
  ::kill(ranks(running)[1], SIGKILL);
  ASSERT_TRUE(reaches(100));
  ASSERT_EQ(ranks(running).size(), 2u);
  ::kill(ranks(running)[0], SIGKILL);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("was killed by signal 9"));
  EXPECT_EQ(trace(desk_ / "run"), expected);
  EXPECT_EQ(expected.size(), 400u);
  const std::vector<Json> killed = events("rank killed");
  ASSERT_EQ(killed.size(), 2u);
  for (const Json& event : killed)
    EXPECT_THAT(event["op"].get<std::string>(), HasSubstr("step")) << "what it was at";
}

// Connections without a token that say nothing, a hundred of them every 2 ms, from this host as well.
class Flood {
 public:
  explicit Flood(int port) : port_(port), thread_([this] { run(); }) {}
  ~Flood() {
    done_ = true;
    thread_.join();
  }
  int made() const { return made_; }

 private:
  void run() {
    constexpr std::size_t kKept = 300;
    std::deque<os::Descriptor> kept;
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(static_cast<std::uint16_t>(port_));
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (; !done_; ::usleep(2000)) {
      for (int i = 0; i < 100; ++i) {
        os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const int begun =
            ::connect(socket.get(), reinterpret_cast<sockaddr*>(&there), sizeof there);
        if (begun == 0 || errno == EINPROGRESS) ++made_;
        kept.push_back(std::move(socket));
      }
      while (kept.size() > kKept) kept.pop_front();
    }
  }

  int port_;
  std::atomic<bool> done_{false};
  std::atomic<int> made_{0};
  std::thread thread_;
};

// While ranks start, and while they are started again, strangers neither keep them from the agent nor spend a restart.
TEST_F(Launch, AFloodOfStrangersCostsNoRestart) {
  const int port = free_port();
  ::chmod(desk_.write("token", "the token of this run").c_str(), 0600);
  Running running(desk_.path(), std::string(TRIREME_BIN_DIR) + "/trireme",
                  {"launch", "--nproc-per-node", "2", "--max-restarts", "1", "--rdzv-endpoint",
                   "127.0.0.1:" + std::to_string(port), "--token-file", "token", "--", "train",
                   "job.yaml", "--out", "run"});
  const Flood flood(port);  // a thread: begun when nothing is forked any more
  ASSERT_TRUE(reaches(20)) << read_file(desk_ / "launch.err");
  ::kill(ranks(running)[1], SIGKILL);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("did not show this run's token"));
  EXPECT_EQ(events("rank killed").size(), 1u);
  EXPECT_EQ(events("rank failed").size(), 0u);
  EXPECT_EQ(trace(desk_ / "run"), whole());
  EXPECT_GT(flood.made(), 1000);
}

// However its length is given: a rank that is killed after run.steps of the file, of which nothing is left, loses nothing.
TEST_F(Launch, ARunEndsWithItsLastStepAndNoOther) {
  const std::vector<std::string> length = {"--set", "run.steps=20", "--steps", "200"};
  std::vector<std::string> words = {"train", "job.yaml", "--nproc", "2", "--out", "whole"};
  words.insert(words.end(), length.begin(), length.end());
  ASSERT_EQ(desk_.run(words).exit_code, 0);
  Running running = launch(length);
  ASSERT_TRUE(reaches(40));
  ASSERT_EQ(ranks(running).size(), 2u);
  ::kill(ranks(running)[1], SIGKILL);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("restarting from step"));
  EXPECT_EQ(trace(desk_ / "run"), trace(desk_ / "whole"));
  EXPECT_EQ(trace(desk_ / "run").size(), 200u);

  words = {"launch", "--nproc-per-node", "2", "--", "train", "job.yaml", "--out", "run"};
  words.insert(words.end(), length.begin(), length.end());
  EXPECT_THAT(desk_.run(words).out, HasSubstr("is at step 200 of 200: nothing is left to do"));
  // A last checkpoint that is damaged is none.
  const Path last = desk_ / "run/checkpoints/step-200/manifest.json";
  ASSERT_TRUE(std::filesystem::exists(last));
  std::filesystem::resize_file(last, 100);
  const Result again = desk_.run(words);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("newer checkpoints cannot be used"));
  EXPECT_EQ(trace(desk_ / "run"), trace(desk_ / "whole"));
}

// World 4, 3, 2, and 4 again, also with three micro-batches a rank: one tree for all of them.
TEST_F(Launch, HostsThatGoAndComeCostNoBit) {
  const std::vector<std::string> keys = {
      "--set", "run.global_batch=12", "--set", "run.micro_batch=1", "--set", "run.steps=1500"};
  std::vector<std::string> words = {"train", "job.yaml", "--nproc", "2", "--out", "whole"};
  words.insert(words.end(), keys.begin(), keys.end());
  ASSERT_EQ(desk_.run(words).exit_code, 0);

  ::chmod(desk_.write("token", "the token of these hosts").c_str(), 0600);
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  words[2] = "--out";
  words.resize(3);
  words.insert(words.begin(), {"launch", "--nnodes", "2:4", "--max-restarts", "1000",
                               "--rdzv-endpoint", endpoint, "--token-file", "token", "--"});
  words.push_back("run");
  words.insert(words.end(), keys.begin(), keys.end());
  const auto agent = [&](const std::string& name) {
    return std::make_unique<Running>(desk_.path(), std::string(TRIREME_BIN_DIR) + "/trireme", words,
                                     name);
  };
  const auto begun = [&](int world) {
    const std::string line = "rank 0 of " + std::to_string(world),
                      out = read_file(desk_ / "n0.out");
    int times = 0;
    for (std::size_t at = 0; (at = out.find(line, at)) != std::string::npos; ++at) ++times;
    return times;
  };
  const auto newest = [&] {
    int most = 0;
    for (const auto& entry : std::filesystem::directory_iterator(desk_ / "run/checkpoints"))
      if (const std::string name = entry.path().filename(); name.find('.') == std::string::npos)
        most = std::max(most, std::stoi(name.substr(5)));
    return most;
  };
  // After what changes the hosts, and until a checkpoint was written by so many.
  const auto becomes = [&](int world, const std::function<void()>& change) {
    const int before = begun(world);
    change();
    if (!soon([&] { return begun(world) > before; })) return false;
    const int step = newest();
    return soon([&] { return newest() > step; });
  };
  const auto first = agent("n0");
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(desk_ / "n0.out"); }));
  ::usleep(300'000);  // it listens: the others join it
  auto second = agent("n1"), third = agent("n2"), fourth = agent("n3");
  ASSERT_TRUE(soon([&] { return begun(4) > 0; }) && reaches(50));
  ASSERT_TRUE(becomes(3, [&] { fourth->signal(SIGKILL); }));
  ASSERT_TRUE(becomes(2, [&] { third->signal(SIGKILL); }));
  ASSERT_TRUE(becomes(4, [&] {
    third = agent("n4");
    fourth = agent("n5");
  }));
  for (const auto& one : {first.get(), second.get(), third.get(), fourth.get()}) {
    const Result result = one->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  const std::vector<std::string> expected = trace(desk_ / "whole");
  EXPECT_EQ(expected.size(), 1500u);
  EXPECT_EQ(trace(desk_ / "run"), expected);
  EXPECT_EQ(events("host lost").size(), 2u);
}

// It cannot tell anything, nor can it be asked: its record lies where the agent reads it.
TEST_F(Launch, AStoppedRankIsNamedAndCostsNoBit) {
  Running running = launch();
  ASSERT_TRUE(reaches(20));
  const std::vector<pid_t> before = ranks(running);
  ASSERT_EQ(before.size(), 2u);
  ::kill(before[1], SIGSTOP);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("its process is stopped"));
  EXPECT_EQ(trace(desk_ / "run"), whole());
  const std::vector<Json> hung = events("rank hung");
  ASSERT_EQ(hung.size(), 1u);
  EXPECT_EQ(hung[0]["rank"], 1);
  EXPECT_EQ(hung[0]["action"], "restart");
  EXPECT_GE(events("rank silent").size(), 1u) << "a busy machine may add a short one";
  const std::string report = read_file(desk_ / "run/hangs.txt");
  EXPECT_THAT(report, HasSubstr("rank 0: ")) << "silent, or not yet";
  EXPECT_THAT(report, HasSubstr("rank 1 (process " + std::to_string(before[1]) + ")"));
  EXPECT_THAT(report, HasSubstr("of 'dp_shard'")) << "its last operations";
}

// Ranks go on while their agent is stopped, and what they save is there.
TEST_F(Launch, AStoppedAgentHoldsUpNoCheckpoint) {
  Running running = launch();
  ASSERT_TRUE(reaches(20));
  running.signal(SIGSTOP);
  EXPECT_TRUE(reaches(60)) << "while it is stopped";
  running.signal(SIGCONT);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(trace(desk_ / "run"), whole());
}

// Control: where nobody looks, the same stop is told by nobody for as long.
TEST_F(Launch, WithoutALookoutAStoppedRankIsNotNamed) {
  Running running = launch({"--set", "run.hang_report_s=0"});
  ASSERT_TRUE(reaches(20));
  const pid_t rank = ranks(running)[1];
  ::kill(rank, SIGSTOP);
  ::sleep(5);
  EXPECT_FALSE(std::filesystem::exists(desk_ / "run/hangs.txt"));
  ::kill(rank, SIGCONT);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err.find("its process is stopped"), std::string::npos);
}

// Nor does a rank that pauses: a second is nobody's end.
TEST_F(Launch, AShortPauseIsNoHang) {
  Running running = launch({"--set", "run.hang_report_s=5"});
  ASSERT_TRUE(reaches(20));
  const pid_t rank = ranks(running)[1];
  ::kill(rank, SIGSTOP);
  ::sleep(1);
  ::kill(rank, SIGCONT);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  if (!std::filesystem::exists(desk_ / "run/events.jsonl")) return;
  for (const char* kind : {"rank silent", "rank hung", "rank killed"})
    EXPECT_TRUE(events(kind).empty()) << kind;
}

// Snapshots in the memory that the ranks of an agent have been given.
class LaunchWithMemory : public Launch {
 protected:
  static Path memory_of(const Running& running) {
    Path memory;
    soon([&] {
      for (const pid_t rank : ranks(running)) {
        std::ifstream file("/proc/" + std::to_string(rank) + "/environ");
        for (std::string entry; std::getline(file, entry, '\0');)
          if (entry.starts_with("TRIREME_MEMORY=")) memory = entry.substr(entry.find('=') + 1);
      }
      return !memory.empty();
    });
    return memory;
  }
  static int newest(const Path& memory) {
    int newest = 0;
    std::error_code error;  // they come and go
    for (std::filesystem::directory_iterator entry(memory, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename();
      if (name.starts_with("step-") && name.find('.') == std::string::npos)
        newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }
  static std::vector<std::string> in_memory_alone() {
    return {"--set", "checkpoint.every=0", "--set", "checkpoint.memory_every=5"};
  }
};

TEST_F(LaunchWithMemory, AKilledRankCostsAFewStepsAndNoBit) {
  Running running = launch(in_memory_alone());
  const Path memory = memory_of(running);
  ASSERT_TRUE(soon([&] { return newest(memory) >= 20; }));
  ::kill(ranks(running)[1], SIGKILL);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr(" in memory, or 0 on disk"));
  EXPECT_THAT(result.out, HasSubstr(" from memory, "));
  EXPECT_THAT(result.out, HasSubstr("snapshots in memory: "));
  EXPECT_EQ(trace(desk_ / "run"), whole());
  EXPECT_FALSE(std::filesystem::exists(memory)) << "it goes with the agent";
  EXPECT_EQ(desk_.run({"checkpoint", "verify", "run"}).exit_code, 0);
}

// Negative control: the same kill where what is in memory cannot be used begins at the checkpoint on disk: here, at none.
TEST_F(LaunchWithMemory, WhatIsDamagedIsRefused) {
  const std::vector<std::string>& expected = whole();
  Running running = launch(in_memory_alone());
  const Path memory = memory_of(running);
  ASSERT_TRUE(soon([&] { return newest(memory) >= 20; }));
  const pid_t rank = ranks(running)[1];
  ::kill(rank, SIGSTOP);  // the other waits for it
  ::usleep(300'000);
  for (const auto& step : std::filesystem::directory_iterator(memory)) {
    const Path file = step.path() / "rank-00001.safetensors";
    if (!std::filesystem::exists(file)) continue;
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }
  ::kill(rank, SIGKILL);
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("are not those that were written"));
  EXPECT_THAT(result.out, HasSubstr("continue from step 0 on disk"));
  EXPECT_EQ(result.out.find(" from memory, "), std::string::npos);
  EXPECT_EQ(trace(desk_ / "run"), expected);
  EXPECT_GE(events("snapshot refused").size(), 1u);
}

// Two hosts of one rank each; what the lost one had is with the other.
TEST_F(LaunchWithMemory, AHostIsLostAndTheOtherHasItsPart) {
  const std::vector<std::string>& expected = whole();
  ::chmod(desk_.write("token", "the token of these hosts").c_str(), 0600);
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  const auto agent = [&](const std::string& host, const std::string& rank) {
    std::vector<std::string> words = {"TRIREME_HOST=" + host,
                                      std::string(TRIREME_BIN_DIR) + "/trireme",
                                      "launch",
                                      "--nnodes",
                                      "1:2",
                                      "--node-rank",
                                      rank,
                                      "--rdzv-endpoint",
                                      endpoint,
                                      "--token-file",
                                      "token",
                                      "--",
                                      "train",
                                      "job.yaml",
                                      "--out",
                                      "run"};
    for (const std::string& word : in_memory_alone()) words.push_back(word);
    return Running(desk_.path(), "/usr/bin/env", words, host);
  };
  Running first = agent("first", "0");
  Running second = agent("second", "1");
  const Path near = memory_of(first), far = memory_of(second);
  ASSERT_NE(near, far);
  ASSERT_TRUE(soon([&] { return newest(near) >= 20 && newest(far) >= 20; }))
      << read_file(desk_ / "first.err");
  EXPECT_TRUE(std::filesystem::exists(near / ("step-" + std::to_string(newest(near)))));
  second.signal(SIGKILL);
  const Result result = first.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" from memory, "));
  EXPECT_EQ(trace(desk_ / "run"), expected);
  EXPECT_FALSE(std::filesystem::exists(near));
  second.wait();
  // Its agent could not take it away; any launch of this user does, so that one beside this test may have done it already.
  EXPECT_EQ(
      desk_.run({"launch", "--", "train", "job.yaml", "--out", "next", "--steps", "1"}).exit_code,
      0);
  EXPECT_FALSE(std::filesystem::exists(far));
}

TEST_F(LaunchWithMemory, NeedsAnAgentThatStays) {
  const Result result =
      desk_.run({"train", "job.yaml", "--nproc", "2", "--set", "checkpoint.memory_every=5"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("start the job by trireme launch"));
  expect_one_line(result.err);
}

#endif

}  // namespace
}  // namespace trireme::app::launch_test
