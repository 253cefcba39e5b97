// trireme train and generate from end to end, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"
#include "tests/harness/file_limit.h"

#if TRIREME_HAS_WORKER

#include <signal.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "trireme/base/json.h"
#include "trireme/base/os/stop.h"
#include "trireme/base/ports.h"
#include "trireme/config/job.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::app::train_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Train : public ::testing::Test {
 protected:
  Train() {
    std::string text;
    for (int i = 0; i < 2000; ++i)
      text += "value[" + std::to_string(i) + "] = " + std::to_string(i * i % 97) + ";\n";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: "
                "text.txt}\nparallel: {zero: 3}\n"
                "run: {steps: 6, global_batch: 8, micro_batch: 2, eval_every: 3, eval_batches: "
                "2}\ncheckpoint: {every: 2, async: false}\n");
  }

  // metrics.jsonl without what depends on the clock.
  std::vector<std::string> numbers(const std::string& run) const {
    std::vector<std::string> lines;
    std::istringstream text(read_file(desk_ / (run + "/metrics.jsonl")));
    for (std::string line; std::getline(text, line);) {
      const Json json = parse_json(line, run);
      lines.push_back(json.contains("val_loss")
                          ? "eval " + json["step"].dump() + " " + json["val_loss"].dump()
                          : json["step"].dump() + " " + json["loss"].dump() + " " +
                                json["grad_norm"].dump());
    }
    return lines;
  }

  // What the files of a checkpoint hash to.
  std::vector<std::uint64_t> shards(const std::string& checkpoint) const {
    std::vector<std::uint64_t> hashes;
    for (const formats::ManifestFile& file : formats::verify_checkpoint(desk_ / checkpoint).files)
      hashes.push_back(file.hash);
    return hashes;
  }

  Result train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "job.yaml"});
    return desk_.run(more);
  }

  Desk desk_;
};

// One step of every rank beside its forecast, and costs that the next plan goes by.
TEST_F(Train, TracesAStep) {
  const std::vector<std::string> pipeline = {
      "--ranks",         "2",     "--set",         "parallel.pp=2", "--set",
      "parallel.zero=0", "--set", "model.layers=2"};
  std::vector<std::string> arguments = {"--out", "run", "--set", "run.trace=3"};
  arguments.insert(arguments.end(), pipeline.begin(), pipeline.end());
  const Result result = train(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json trace = parse_json(read_file(desk_ / "run/trace.json"), "trace.json");
  std::map<int, int> forwards;  // by process: two ranks as measured, two as forecast
  for (const Json& event : trace["traceEvents"])
    forwards[event["pid"]] += event.value("cat", "") == "forward";
  EXPECT_THAT(forwards, testing::ElementsAre(testing::Pair(0, 8), testing::Pair(1, 8),
                                             testing::Pair(2, 8), testing::Pair(3, 8)));
  EXPECT_THAT(read_file(desk_ / "run/timeline.svg"), HasSubstr("step 3, measured over forecast"));
  const Json costs = parse_json(read_file(desk_ / "run/node_costs.json"), "costs")["nodes"];
  EXPECT_EQ(costs.size(), 4u);
  for (const auto& [node, cost] : costs.items()) EXPECT_GT(cost["forward"], 0) << node;
  arguments = {"explain", "job.yaml", "--set", "parallel.costs=run/node_costs.json"};
  arguments.insert(arguments.end(), pipeline.begin(), pipeline.end());
  EXPECT_EQ(desk_.run(arguments).exit_code, 0);
  const Result late = train({"--set", "run.trace=7"});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_THAT(late.err, HasSubstr("run.trace=7 is more than run.steps=6"));
}

TEST_F(Train, ThreadsProcessesAndOneRankGiveTheSameNumbersAndAllFiles) {
  for (const auto& [out, world] :
       {std::pair("one", std::vector<std::string>{}),
        std::pair("threads", std::vector<std::string>{"--ranks", "2"}),
        std::pair("processes", std::vector<std::string>{"--nproc", "2"})}) {
    std::vector<std::string> arguments = {"--out", out};
    arguments.insert(arguments.end(), world.begin(), world.end());
    const Result result = train(arguments);
    ASSERT_EQ(result.exit_code, 0) << out << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, HasSubstr("done: 6 steps"));
    EXPECT_EQ(numbers(out).size(), 8u);
    EXPECT_EQ(numbers(out), numbers("one")) << out;
    for (const char* name :
         {"job.lock.yaml", "vocabulary.json", "report.html", "checkpoints/step-6/manifest.json"})
      EXPECT_TRUE(std::filesystem::exists(desk_ / out / name)) << name;
  }
  const Result listed = desk_.run({"checkpoint", "ls", "processes"});
  EXPECT_THAT(listed.out, HasSubstr("step-6"));
  EXPECT_EQ(desk_.run({"checkpoint", "verify", "processes"}).exit_code, 0);
  EXPECT_THAT(desk_.run({"checkpoint", "inspect", "processes"}).out, HasSubstr("block.0"));
}

// Under every schedule, on processes and threads, also resumed on another number of stages.
TEST_F(Train, PipelinesGiveOneRanksNumbers) {
  const std::vector<std::string> untied = {"--set", "model.tied=false", "--set", "model.layers=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), untied.begin(), untied.end());
    return train(more);
  };
  ASSERT_EQ(with({"--out", "one"}).exit_code, 0);
  // Six nodes: unequal stages on four ranks, three ranks or two, by threads and processes.
  for (const auto& [schedule, ranks, stages] :
       {std::tuple("gpipe", "4", "1,1,1,3"), std::tuple("1f1b", "4", "auto"),
        std::tuple("interleaved", "2", "auto"), std::tuple("zb_h1", "4", "3,1,1,1"),
        std::tuple("zb_h2", "4", "auto"), std::tuple("zb_auto", "4", "auto"),
        std::tuple("zb_v", "3", "auto"), std::tuple("v_half", "3", "auto"),
        std::tuple("v_min", "3", "auto"), std::tuple("v_auto", "3", "auto"),
        std::tuple("dualpipe_v", "2", "1,1,1,3")}) {
    const bool threads = std::string(schedule) > "zb";
    const Result result = with({"--out", schedule, threads ? "--ranks" : "--nproc", ranks, "--set",
                                std::string("parallel.pp=") + ranks, "--set",
                                std::string("parallel.schedule=") + schedule, "--set",
                                std::string("parallel.stages=") + stages});
    ASSERT_EQ(result.exit_code, 0) << schedule << result.err;
    EXPECT_EQ(numbers(schedule), numbers("one")) << schedule;
  }
  std::filesystem::remove_all(desk_ / "zb_v/checkpoints/step-6");
  ASSERT_EQ(with({"--out", "zb_v", "--nproc", "3", "--set", "parallel.pp=3"}).exit_code, 0);
  EXPECT_EQ(numbers("zb_v"), numbers("one"));
  const Result refused = with({"--out", "refused", "--ranks", "3", "--set", "parallel.pp=3",
                               "--set", "parallel.schedule=interleaved"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("groups of 3"));
}

TEST_F(Train, AResumedRunGoesOnWithTheSameNumbers) {
  ASSERT_EQ(train({"--out", "whole"}).exit_code, 0);
  ASSERT_EQ(train({"--out", "parts", "--ranks", "2"}).exit_code, 0);
  // As if it had been killed after step 5: the newest checkpoint is step 4, later lines are there.
  std::filesystem::remove_all(desk_ / "parts/checkpoints/step-6");
  const Result resumed = train({"--out", "parts", "--ranks", "4"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("step-4 (step 4)"));
  EXPECT_THAT(resumed.out, HasSubstr("parallel.dp_shard: was 2, now 4"));
  EXPECT_EQ(numbers("parts"), numbers("whole"));
  const Result again = train({"--out", "parts"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out,
              HasSubstr("nothing is left to do. To continue, give --steps N with a later "
                        "step; the learning rate follows optim.decay_steps\n"));
}

// Starts a long run and hands its pid to `act` once the first step is recorded. The run's learning rate
// is constant, so that every step changes every parameter.
Result long_run(const Desk& desk, const std::vector<std::string>& world,
                const std::function<void(pid_t)>& act, const std::string& steps = "100000") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<std::string> words = {std::string(TRIREME_BIN_DIR) + "/trireme",
                                      "train",
                                      "job.yaml",
                                      "--out",
                                      "run",
                                      "--set",
                                      "optim.schedule=constant",
                                      "--steps",
                                      steps};
    words.insert(words.end(), world.begin(), world.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int out = ::open((desk / "out.log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = ::open((desk / "err.log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, 1);
    ::dup2(err, 2);
    ::setenv("XDG_CACHE_HOME", (desk / "cache").c_str(), 1);
    os::restore_stop_signals();  // tests may run in the background or under nohup
    ::setenv("TRIREME_NO_CALIBRATE", "1", 1);
    if (::chdir(desk.path().c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  const Path metrics = desk / "run/metrics.jsonl";
  for (int i = 0;
       i < 600 && !(std::filesystem::exists(metrics) && std::filesystem::file_size(metrics) > 0);
       ++i)
    ::usleep(50'000);
  act(pid);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_file(desk / "out.log"),
          read_file(desk / "err.log")};
}

TEST_F(Train, AnInterruptSavesAndExits) {
  for (const auto& [signal, world] :
       {std::pair(SIGINT, std::vector<std::string>{"--nproc", "2"}),
        std::pair(SIGTERM, std::vector<std::string>{"--ranks", "2"})}) {
    std::filesystem::remove_all(desk_ / "run");
    const Result result = long_run(desk_, world, [&, signal = signal](pid_t pid) {
      EXPECT_EQ(desk_.run({"train", "job.yaml", "--out", "run"}).exit_code, 2)
          << "a second run in the same directory";
      ::kill(pid, signal);
    });
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    expect_one_line(result.err);
    EXPECT_THAT(result.err, HasSubstr(os::signal_name(signal) + " received: the run finishes its"));
    EXPECT_THAT(result.out, HasSubstr("interrupted after step"));
    EXPECT_TRUE(formats::newest_checkpoint(desk_ / "run/checkpoints").has_value());
    EXPECT_TRUE(std::filesystem::exists(desk_ / "run/report.html"));
  }
}

// The children of a process.
std::vector<pid_t> children(pid_t parent) {
  std::vector<pid_t> found;
  std::ifstream list("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                     "/children");
  for (pid_t pid; list >> pid;) found.push_back(pid);
  return found;
}

TEST_F(Train, AKilledRankIsNamedAndTheRunRestartable) {
  std::vector<pid_t> ranks;
  const Result result = long_run(desk_, {"--nproc", "2"}, [&](pid_t pid) {
    ranks = children(pid);
    ASSERT_EQ(ranks.size(), 2u);
    ::kill(ranks[1], SIGKILL);
  });
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by signal 9"));
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0) << "rank outlived the front";
}

// Of a run in memory, and of one whose states wait in a scratch file, which is gone with the process.
TEST_F(Train, KilledWithoutNoticeAndResumedItEndsWithTheSameBits) {
  const auto to = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--nproc", "2",   "--set", "optim.schedule=constant",
                                          "--steps", "200", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return train(arguments);
  };
  ASSERT_EQ(to("whole", {}).exit_code, 0);
  for (const std::vector<std::string>& away :
       {std::vector<std::string>{},
        {"--set", "offload.optimizer=nvme", "--set", "offload.params=nvme", "--set",
         "offload.grads=host"}}) {
    std::filesystem::remove_all(desk_ / "run");
    std::vector<std::string> world = {"--nproc", "2"};
    world.insert(world.end(), away.begin(), away.end());
    std::vector<pid_t> ranks;
    const Result killed = long_run(
        desk_, world,
        [&](pid_t pid) {
          ranks = children(pid);
          while (!std::filesystem::exists(desk_ / "run/checkpoints/step-6")) ::usleep(1000);
          ::kill(pid, SIGKILL);
        },
        "200");
    ASSERT_EQ(killed.exit_code, -SIGKILL);
    for (int i = 0; i < 1000; ++i)  // the kernel ends the workers of a dead front
      if (::kill(ranks.at(0), 0) != 0 && ::kill(ranks.at(1), 0) != 0)
        break;
      else
        ::usleep(10'000);
    EXPECT_FALSE(std::filesystem::exists(desk_ / "run/checkpoints/step-200"));
    if (!away.empty()) {
      EXPECT_FALSE(std::filesystem::exists(desk_ / "run/scratch"));
    }

    const Result resumed = to("run", away);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.out, HasSubstr("resum"));
    EXPECT_EQ(numbers("run"), numbers("whole"));
    EXPECT_EQ(shards("run/checkpoints/step-200"), shards("whole/checkpoints/step-200"));
  }
}

TEST_F(Train, AFullDiskEndsTheRunWithTheLastCheckpointIntact) {
  const auto to = [&](const std::string& out, const std::string& steps) {
    return train({"--out", out, "--ranks", "2", "--steps", steps});
  };
  ASSERT_EQ(to("whole", "6").exit_code, 0);
  ASSERT_EQ(to("run", "2").exit_code, 0);
  const Result full = [&] {
    const harness::FileLimit limit(50'000);
    return to("run", "6");
  }();
  EXPECT_EQ(full.exit_code, 3) << full.out;
  expect_one_line(full.err);
  EXPECT_THAT(full.out, HasSubstr("step 4  warning: checkpoint of step 4 not written"))
      << "it goes on";
  EXPECT_THAT(full.err, HasSubstr("checkpoint of step 6 not written"));
  EXPECT_THAT(full.err, HasSubstr("File too large"));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "run/checkpoints/step-4.tmp"));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "run/checkpoints/step-6.tmp"));
  const Result verified = desk_.run({"checkpoint", "verify", "run"});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("step-2"));
  ASSERT_EQ(to("run", "6").exit_code, 0);
  EXPECT_EQ(shards("run/checkpoints/step-6"), shards("whole/checkpoints/step-6"));
}

using Spans = std::vector<std::pair<double, double>>;  // from, to

// What each lane of the first rank did when, as measured.
std::map<std::string, Spans> lanes_of_first_rank(const Json& trace) {
  std::map<int, std::string> names;
  std::map<std::string, Spans> lanes;
  for (const Json& event : trace["traceEvents"])
    if (event.value("pid", -1) == 0 && event.value("name", "") == "thread_name")
      names[event["tid"]] = event["args"]["name"];
  for (const Json& event : trace["traceEvents"])
    if (event.value("pid", -1) == 0 && event.value("ph", "") == "X") {
      const double from = event["ts"];
      lanes[names[event["tid"]]].emplace_back(from, from + event["dur"].get<double>());
    }
  return lanes;
}

bool overlap(const Spans& some, const Spans& others) {
  for (const auto& [from, to] : some)
    for (const auto& [other_from, other_to] : others)
      if (std::max(from, other_from) < std::min(to, other_to)) return true;
  return false;
}

// Everything waits elsewhere: numbers and files are those of a run in memory, and the trace has the lanes.
TEST_F(Train, OffloadedItGivesTheSameNumbersAndFiles) {
  const std::vector<std::string> away = {
      "--set", "offload.optimizer=nvme",   "--set", "offload.params=nvme",
      "--set", "offload.grads=nvme",       "--set", "recompute.policy=full",
      "--set", "offload.activations=nvme", "--set", "run.trace=3"};
  ASSERT_EQ(train({"--ranks", "2", "--out", "memory", "--set", "model.layers=2"}).exit_code, 0);
  for (const char* ranks : {"--ranks", "--nproc"}) {
    std::vector<std::string> arguments = {ranks,     "2",     "--out",
                                          ranks + 2, "--set", "model.layers=2"};
    arguments.insert(arguments.end(), away.begin(), away.end());
    const Result result = train(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(numbers(ranks + 2), numbers("memory"));
    EXPECT_EQ(shards(std::string(ranks + 2) + "/checkpoints/step-6"),
              shards("memory/checkpoints/step-6"));
    const Json trace =
        parse_json(read_file(desk_ / (std::string(ranks + 2) + "/trace.json")), "trace");
    std::map<std::string, Spans> lanes = lanes_of_first_rank(trace);
    for (const char* lane : {"comp", "dp", "h2d", "d2h"}) EXPECT_FALSE(lanes[lane].empty()) << lane;
    for (const char* lane : {"h2d", "d2h"})
      EXPECT_TRUE(overlap(lanes[lane], lanes["comp"])) << lane << " moves nothing meanwhile";
    EXPECT_FALSE(std::filesystem::exists(desk_ / (std::string(ranks + 2) + "/scratch")));
  }
}

TEST_F(Train, TheRecipeThatOffloadsRuns) {
  const Result result =
      desk_.run({"train", TRIREME_SOURCE_DIR "/recipes/gpt_1b3_offload.yaml", "--out", "run",
                 "--set", "model.layers=2", "model.hidden=64", "model.heads=2", "model.vocab=0",
                 "model.seq_len=32", "run.steps=2", "optim.warmup_steps=0", "run.global_batch=4",
                 "run.micro_batch=2", "data.path=text.txt"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("done: 2 steps"));
  EXPECT_THAT(result.out, HasSubstr("offload   nvme: "));
}

// How the scratch file is moved, which may not be as the disk would have it, and what was moved, by whom it concerns.
TEST_F(Train, OffloadSaysHowItWorks) {
  ASSERT_EQ(train({"--steps", "2", "--out", "run"}).exit_code, 0);
  std::filesystem::create_directory(desk_ / "run/scratch");  // such as a link to a fast disk
  const Result result = train({"--out", "run", "--set", "offload.optimizer=nvme"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" 0.0 ms waiting for communication, "));
  EXPECT_THAT(result.out,
              testing::ContainsRegex(" ms[[:space:]]+waiting[[:space:]]+for[[:space:]]+offload, "));
  EXPECT_THAT(result.out, HasSubstr("offload   nvme: "));
  EXPECT_THAT(result.out, testing::ContainsRegex("offload of rank 0: .* GB at .* GB/s written to "
                                                 "nvme, .* GB at .* GB/s read"));
  const std::string report = read_file(desk_ / "run/report.html");
  EXPECT_THAT(report, HasSubstr("nvme: "));
  EXPECT_THAT(report, HasSubstr(" GB/s written"));
  EXPECT_TRUE(std::filesystem::is_empty(desk_ / "run/scratch"));
}

TEST_F(Train, OffloadSaysWhatItLacksBeforeTheFirstStep) {
  ASSERT_EQ(train({"--steps", "1", "--out", "first"}).exit_code, 0);  // has made the dataset
  const Result full = [&] {
    const harness::FileLimit limit(10'000);
    return train({"--set", "offload.optimizer=nvme", "--out", "run"});
  }();
  EXPECT_EQ(full.exit_code, 3) << full.out;
  expect_one_line(full.err);
  EXPECT_THAT(full.err, HasSubstr("scratch"));
  desk_.write("file", "x");
  const Result place = train(
      {"--set", "offload.optimizer=nvme", "--set", "offload.path=file/below", "--out", "run"});
  EXPECT_EQ(place.exit_code, 3) << place.out;
  EXPECT_THAT(place.err, HasSubstr("/file/below: cannot make a scratch file: Not a directory; "
                                   "choose a directory that exists"));
  // A mount point that is gone is not made again: the disk beneath would fill.
  const Result gone =
      train({"--set", "offload.optimizer=nvme", "--set", "offload.path=disk", "--out", "run"});
  EXPECT_EQ(gone.exit_code, 3);
  EXPECT_THAT(gone.err, HasSubstr("/disk: cannot make a scratch file"));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "disk"));
}

// As when the disk under it is taken away: nothing is written to what is below, and with the disk back it goes on.
TEST_F(Train, AVanishedDirectoryEndsTheRunWithTheLastCheckpointIntact) {
  const Path checkpoints = desk_ / "run/checkpoints";
  const Result ended = long_run(
      desk_, {"--ranks", "2"},
      [&](pid_t) {
        while (!std::filesystem::exists(checkpoints / "step-4")) ::usleep(1000);
        std::filesystem::rename(checkpoints, desk_ / "elsewhere");
      },
      "400");
  EXPECT_EQ(ended.exit_code, 3) << ended.out;
  expect_one_line(ended.err);
  EXPECT_THAT(ended.err, HasSubstr("not written, those before it are untouched"));
  EXPECT_FALSE(std::filesystem::exists(checkpoints));
  std::filesystem::rename(desk_ / "elsewhere", checkpoints);
  EXPECT_EQ(desk_.run({"checkpoint", "verify", "run"}).exit_code, 0);
}

// What torchrun, srun and mpirun say to one of two processes.
using Variables = std::map<std::string, std::string>;
Variables torchrun_says(const std::string& rank, const std::string& port) {
  return {{"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
}
Variables open_mpi_says(const std::string& rank, const std::string& port) {
  return {{"OMPI_COMM_WORLD_RANK", rank},       {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", rank}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", port}};
}
// The port follows from the number of the job.
Variables slurm_says(const std::string& rank, const std::string& port) {
  return {{"SLURM_PROCID", rank},
          {"SLURM_LOCALID", rank},
          {"SLURM_NODEID", "0"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "2"},
          {"SLURM_STEP_NODELIST", "localhost"},
          {"SLURM_JOB_NAME", "train"},
          {"SLURM_JOB_ID", std::to_string(std::stoi(port) - 15000)}};
}

TEST_F(Train, ProcessesStartedByALauncher) {
  int job = ::getpid();
  for (const auto& says : {torchrun_says, open_mpi_says, slurm_says}) {
    int port = 0;
    do port = 15000 + ++job % 10000;
    while (!can_listen(port));
    const std::string run = "run" + std::to_string(port);
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        Desk own;  // its own place for captured output
        std::filesystem::copy(desk_.path(), own.path(),
                              std::filesystem::copy_options::recursive |
                                  std::filesystem::copy_options::overwrite_existing);
        for (const auto& [name, value] : says(std::to_string(rank), std::to_string(port)))
          own.set(name, value);
        const Result result = own.run({"train", "job.yaml", "--out", (desk_ / run).string()});
        std::ofstream(desk_ / ("result" + std::to_string(rank))) << result.exit_code << result.err;
        ::_exit(0);
      }
      ranks.push_back(pid);
    }
    for (const pid_t pid : ranks) ::waitpid(pid, nullptr, 0);
    EXPECT_EQ(read_file(desk_ / "result0"), "0");
    EXPECT_EQ(read_file(desk_ / "result1"), "0");
    EXPECT_EQ(numbers(run).size(), 8u);
  }
}

TEST_F(Train, GeneratesTheSameTextForASeed) {
  ASSERT_EQ(train({"--out", "run"}).exit_code, 0);
  const auto text = [&](const std::string& seed) {
    const Result result = desk_.run({"generate", "--checkpoint", "run", "--prompt", "value[",
                                     "--tokens", "40", "--seed", seed});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string first = text("1");
  EXPECT_TRUE(first.starts_with("value[")) << first;
  EXPECT_GE(first.size(), 46u);
  EXPECT_EQ(text("1"), first);
  EXPECT_NE(text("2"), first);
}

TEST_F(Train, ValidatesTheLastStepByDefaultAndWarnsOfFewSamples) {
  const Result many = train({"--out", "many", "--set", "run.eval_every=0", "run.eval_batches=0"});
  ASSERT_EQ(many.exit_code, 0) << many.err;
  EXPECT_THAT(many.out, Not(HasSubstr("held-out sample")));
  EXPECT_EQ(numbers("many").size(), 7u);
  EXPECT_THAT(numbers("many").back(), HasSubstr("eval 6"));
  const Result few = train({"--out", "few", "--set", "run.eval_every=0", "data.validation=0.01"});
  ASSERT_EQ(few.exit_code, 0) << few.err;
  EXPECT_THAT(few.out, testing::ContainsRegex("warning   validation uses [0-9]+ held-out samples"));
  const Result never =
      train({"--out", "never", "--set", "run.eval_every=-1", "data.validation=0.01"});
  ASSERT_EQ(never.exit_code, 0) << never.err;
  EXPECT_THAT(never.out, Not(HasSubstr("warning")));
  EXPECT_EQ(numbers("never").size(), 6u);
}

// The run's own job and ranks are enough to go on.
TEST_F(Train, ResumesFromItsDirectoryAlone) {
  ASSERT_EQ(train({"--out", "whole", "--ranks", "2", "--set", "parallel.zero=0"}).exit_code, 0);
  const Result first =
      train({"--out", "run", "--ranks", "2", "--steps", "4", "--set", "parallel.zero=0"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("layout    dp 2, replicated (ZeRO-0)\n"));
  // The run ends there, and its schedules keep the job's length.
  const std::string lock = read_file(desk_ / "run/job.lock.yaml");
  EXPECT_THAT(lock, HasSubstr("  steps: 4\n"));
  EXPECT_THAT(lock, HasSubstr("  decay_steps: 6\n"));
  const Result second = desk_.run({"train", "--out", "run", "--steps", "6", "run.log_every=1"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("2 ranks as threads"));
  EXPECT_THAT(second.out, HasSubstr("done: 2 steps"));
  EXPECT_EQ(numbers("run").back(), numbers("whole").back());
  const Result nowhere = desk_.run({"train", "--out", "nowhere"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err,
              HasSubstr("--out nowhere without a JOB: there is no nowhere/job.lock.yaml"));
}

// A job names its data relative to where it was started.
TEST_F(Train, ResumesFromAnotherDirectory) {
  ASSERT_EQ(train({"--out", "run", "--steps", "4"}).exit_code, 0);
  std::filesystem::create_directory(desk_ / "elsewhere");
  const Result second = desk_.run({"-C", "elsewhere", std::string(TRIREME_BIN_DIR) + "/trireme",
                                   "train", "--out", "../run", "--steps", "6"},
                                  "/usr/bin/env");
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("done: 2 steps"));
  EXPECT_EQ(config::load_job(desk_ / "run/job.lock.yaml").data.path, (desk_ / "text.txt").string());
}

// data.path is then a list.
TEST_F(Train, SeveralDataSetsAreFoundFromAnotherDirectory) {
  for (const char* made : {"one", "two"})
    ASSERT_EQ(desk_
                  .run({"data", "synth", "video", made, "--count", "6", "--size", "32x32",
                        "--format", "webp"})
                  .exit_code,
              0);
  desk_.write("clips.yaml",
              "model: {family: jepa}\n"
              "vision: {image: 32, patch: 8, frames: 2, tubelet: 2, layers: 1, hidden: 24, heads: "
              "2, positions: rotary}\n"
              "jepa: {layers: 1, hidden: 12, heads: 2}\n"
              "data: {source: clips, path: \"one,two\", weights: \"3,1\"}\n"
              "run: {steps: 2, global_batch: 2, micro_batch: 2, eval_every: -1}\n");
  const Result first = desk_.run({"train", "clips.yaml", "--out", "run"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(config::load_job(desk_ / "run/job.lock.yaml").data.path,
            (desk_ / "one").string() + "," + (desk_ / "two").string());
  std::filesystem::create_directory(desk_ / "elsewhere");
  const Result second = desk_.run({"-C", "elsewhere", std::string(TRIREME_BIN_DIR) + "/trireme",
                                   "train", "--out", "../run", "--steps", "3"},
                                  "/usr/bin/env");
  EXPECT_EQ(second.exit_code, 0) << second.err;
  const Result refused =
      desk_.run({"explain", "clips.yaml", "--set", "data.source=squares", "--set",
                 "data.antialias=false", "--set", "data.weights=", "--set", "data.path="});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("data.antialias=false: model.family=jepa with"));
}

TEST_F(Train, ACacheThatCannotBeWrittenIsNamedWithTheWayOut) {
  desk_.write("file", "");
  desk_.set("XDG_CACHE_HOME", (desk_ / "file").string());
  const Result result = train({"--out", "run"});
  EXPECT_EQ(result.exit_code, 2);
  expect_one_line(result.err);
  EXPECT_THAT(result.err, HasSubstr("cannot write to the cache directory"));
  EXPECT_THAT(result.err, HasSubstr("Set XDG_CACHE_HOME"));
  EXPECT_THAT(result.err, Not(HasSubstr("--out")));
}

TEST_F(Train, TheReportIsAboutTheRun) {
  const Result result = train({"--out", "first", "--ranks", "2", "--set", "run.trace=3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("loss      cross-entropy, nats/token\n"));
  EXPECT_THAT(result.out, testing::ContainsRegex("validation loss [0-9.]+ nats/token"));
  const std::string page = read_file(desk_ / "first/report.html");
  for (const char* wanted :
       {"<title>first</title>", "trireme train job.yaml --out first --ranks 2 --set run.trace=3",
        "text.txt: ", "LibTorch", "<h2>Samples</h2>", "step 3, measured over forecast",
        "cross-entropy, nats/token"})
    EXPECT_THAT(page, HasSubstr(wanted));
  const Json line = parse_json(read_file(desk_ / "first/metrics.jsonl")
                                   .substr(0, read_file(desk_ / "first/metrics.jsonl").find('\n')),
                               "metrics.jsonl");
  EXPECT_GT(line["time"].get<double>(), 1.7e9);
  EXPECT_EQ(line["loss_unit"], "nats/token");
}

// Copies that fill up a batch would make the loss of any model ln 32, and its accuracy that of chance.
TEST_F(Train, ClipIsValidatedOnFewerSamplesThanABatch) {
  ASSERT_EQ(
      desk_.run({"data", "synth", "vlm", "scenes", "--count", "40", "--validation", "5"}).exit_code,
      0);
  const Result result =
      desk_.run({"train", TRIREME_SOURCE_DIR "/recipes/clip_tiny.yaml", "--out", "clip", "--ranks",
                 "2", "--set", "data.source=pairs", "data.path=scenes", "model.seq_len=128",
                 "run.steps=1", "optim.warmup_steps=0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("validation uses 5 held-out samples"));
  std::istringstream text(read_file(desk_ / "clip/metrics.jsonl"));
  std::string line;
  while (std::getline(text, line) && line.find("val_loss") == std::string::npos) {
  }
  const Json eval = parse_json(line, "metrics");
  EXPECT_EQ(eval["val_tokens"], 5);
  EXPECT_LT(eval["val_loss"].get<double>(), 2.5);  // about ln 5 at the start, not ln 32
  const double right = 5 * eval["val_accuracy"].get<double>();
  EXPECT_NEAR(right, std::round(right), 1e-9);
}

// Bytes in, bytes out: the likeliest one, or drawn with a seed; made-up text has the vocabulary of bytes.
TEST_F(Train, AnHnetWritesBytes) {
  ASSERT_EQ(desk_
                .run({"train", TRIREME_SOURCE_DIR "/recipes/hnet_tiny.yaml", "--out", "hnet",
                      "--set", "run.steps=2", "run.eval_every=-1"})
                .exit_code,
            0);
  const auto text = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--checkpoint", "hnet", "--prompt", "oars ", "--tokens",
                               "70"});  // further than model.seq_len
    const Result result = desk_.run(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(result.out.starts_with("oars ")) << result.out;
    EXPECT_EQ(result.out.size(), 5 + 70 + 1U);
    return result.out;
  };
  const std::string likeliest = text({"--temperature", "0", "--seed", "1"});
  EXPECT_EQ(text({"--temperature", "0", "--seed", "2"}), likeliest);
  EXPECT_NE(text({"--seed", "1"}), text({"--seed", "2"}));
}

// What it took to train has no say in how a model is used.
TEST_F(Train, GeneratesWhateverWasComputedAgain) {
  const std::vector<std::vector<std::string>> policies = {
      // Enough for two ranks that share the model, not for one.
      {"recompute.policy=auto", "recompute.memory=430KiB", "run.global_batch=2",
       "run.micro_batch=1"},
      {"recompute.policy=selective", "recompute.parts=mlp,logits", "parallel.zero=1"},
      {"recompute.policy=full", "recompute.nodes=block.*", "offload.optimizer=host"}};
  for (std::size_t i = 0; i < policies.size(); ++i) {
    SCOPED_TRACE(::testing::PrintToString(policies[i]));
    const std::string run = "run" + std::to_string(i);
    std::vector<std::string> words = {"--out", run, "--steps", "1", "--ranks", "2", "--set"};
    words.insert(words.end(), policies[i].begin(), policies[i].end());
    ASSERT_EQ(train(words).exit_code, 0);
    const Result result =
        desk_.run({"generate", "--checkpoint", run, "--prompt", "value[", "--tokens", "4"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(result.out.starts_with("value[")) << result.out;
  }
}

TEST_F(Train, BenchStepTimesStepsAndTheirProductsWithoutData) {
  std::filesystem::remove(desk_ / "text.txt");
  for (const std::string world : {"--ranks", "--nproc"}) {
    const Result result = desk_.run({"bench", "step", "job.yaml", world, "2", "--steps", "3",
                                     "--warmup", "1", "--json", "step.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("tokens/s if only ATen's matrix products took time"));
    const Json report = parse_json(read_file(desk_ / "step.json"), "step.json");
    EXPECT_EQ(report["as"], world == "--ranks" ? "threads" : "processes");
    EXPECT_EQ(report["seconds"].size(), 3u);
    EXPECT_EQ(report["comm_wait_ms"].size(), 2u);
    EXPECT_GT(report["base_mb"], 10);
    EXPECT_GT(report["beyond_base_mb"][1], 0);
    // 8 samples of 16 tokens a step.
    const double tokens_per_s = report["tokens_per_s"], step_ms = report["step_ms"];
    EXPECT_NEAR(tokens_per_s * step_ms, 128e3, 1);
    // The five linear layers, each for 2 micro-batches of a rank; the tied head's is the embedding's.
    std::map<std::pair<int, int>, int> products;
    for (const Json& product : report["products"]) {
      EXPECT_EQ(product["rows"], 32);
      EXPECT_GT(product["weight_gradient_gflops"], 0);
      products[{product["in"], product["out"]}] = product["a_step"];
    }
    const std::map<std::pair<int, int>, int> expected = {
        {{32, 96}, 2}, {{32, 32}, 2}, {{32, 128}, 2}, {{128, 32}, 2}, {{32, 256}, 2}};
    EXPECT_EQ(products, expected);
  }
}

TEST_F(Train, BenchStepTakesSamplesOfTheJobsFamily) {
  const std::string recipe = TRIREME_SOURCE_DIR "/recipes/clip_tiny.yaml";
  const Result result = desk_.run({"bench", "step", recipe, "--ranks", "1", "--steps", "1",
                                   "--warmup", "0", "--set", "run.global_batch=16"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("tokens/s"));
}

}  // namespace
}  // namespace trireme::app::train_test

#endif
