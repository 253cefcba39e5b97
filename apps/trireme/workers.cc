#include "workers.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "apps/guard.h"
#include "apps/limits.h"
#include "apps/run_record.h"
#include "trireme/base/cpu.h"
#include "trireme/base/error.h"
#include "trireme/base/free_memory.h"
#include "trireme/base/text.h"
#include "trireme/job/runs/run_directory.h"

namespace trireme::app {
namespace {

// The environment, and what LibTorch reads while it loads; what the user has set stays.
class Environment {
 public:
  Environment() {
    for (char** entry = environ; *entry != nullptr; ++entry) entries_.emplace_back(*entry);
  }
  void set(const std::string& name, const std::string& value) {
    std::erase_if(entries_,
                  [&](const std::string& entry) { return entry.starts_with(name + "="); });
    entries_.push_back(name + "=" + value);
  }
  void set_if_absent(const std::string& name, const std::string& value) {
    if (std::none_of(entries_.begin(), entries_.end(),
                     [&](const std::string& entry) { return entry.starts_with(name + "="); }))
      set(name, value);
  }
  void erase(const std::string& name) {
    std::erase_if(entries_,
                  [&](const std::string& entry) { return entry.starts_with(name + "="); });
  }
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::vector<std::string> entries_;
};

Environment worker_environment() {
  Environment environment;
  // One core a rank: ranks are what uses the cores of a machine. Two thread pools in one process, LibTorch's
  // and OpenBLAS's, wait for each other by spinning; on a busy machine that costs tenfold.
  environment.set_if_absent("OMP_NUM_THREADS", "1");
  environment.set_if_absent("OPENBLAS_NUM_THREADS", "1");
  if (has_avx512()) environment.set_if_absent("ATEN_CPU_CAPABILITY", "avx512");
  return environment;
}

std::vector<std::string> command(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {worker_program()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

elastic::Launch launch_of(const std::vector<std::string>& arguments, const Place& place) {
  return {.command = command(arguments),
          .environment = worker_environment().entries(),
          .ranks = place.world,
          .on_line = print_line_of};
}

[[noreturn]] void execute(std::vector<std::string> words, std::vector<std::string> environment) {
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  ::execve(argv[0], argv.data(), envp.data());
  fail(ErrorKind::kUsage, "cannot run {}: {}", words.front(), std::strerror(errno));
}

// What a line about a rank that the kernel killed for lack of memory adds.
std::string need_and_limit(const Path& run) {
  const std::optional<std::int64_t> limit = memory_limit();
  const std::string allowed =
      limit ? fmt::format("; its control group allows {}", bytes_text(static_cast<double>(*limit)))
            : "";
  std::error_code absent;
  if (!std::filesystem::is_regular_file(run / kNeedName, absent)) return allowed;
  return fmt::format("; {}{}", read_file(run / kNeedName), allowed);
}

}  // namespace

std::string worker_program() {
  std::error_code cause;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", cause);
  const std::filesystem::path worker = self.parent_path() / "trireme-worker";
  if (cause || ::access(worker.c_str(), X_OK) != 0)
    fail(ErrorKind::kUsage,
         "{} is not there, and this command computes; build it with LibTorch: ./dev build",
         worker.string());
  return worker.string();
}

void check_limits(int processes, int ranks_of_each) {
  // The least that any run has: a process takes signals, watches its ranks and holds LibTorch's pool; a rank sums while it
  // computes.
  constexpr int kOfProcess = 3, kOfRank = 1;
  const int threads =
      kOfProcess + kOfRank * ranks_of_each + (ranks_of_each > 1 ? ranks_of_each : 0);
  check_threads(processes * threads + (processes > 1 ? processes : 0));
  // Files, connections and memory that a rank shares; what the agent has of each rank: its output and two connections.
  constexpr int kFiles = 24, kOfEachRank = 3;
  check_descriptors(kFiles + kOfEachRank * processes * ranks_of_each);
}

void become_worker(const std::vector<std::string>& arguments, const Place& place) {
  Environment environment = worker_environment();
  // The worker knows torchrun's names only, and takes its absence for a world of its own.
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
    environment.erase(name);
  if (place.launched() && place.world > 1) {
    environment.set("RANK", std::to_string(place.rank));
    environment.set("WORLD_SIZE", std::to_string(place.world));
    environment.set("LOCAL_RANK", std::to_string(place.local_rank));
    environment.set("LOCAL_WORLD_SIZE", std::to_string(place.local_world));
    environment.set("MASTER_ADDR", place.address);
    environment.set("MASTER_PORT", std::to_string(place.port));
  }
  std::fflush(nullptr);
  execute(command(arguments), environment.entries());
}

int report_outcome(const elastic::Outcome& outcome, const Path& run) {
  if (outcome.cause.empty()) return outcome.exit_code;
  const bool lost = outcome.exit_code == exit_code(ErrorKind::kPeerLost);
  const bool starved =
      outcome.exit_code == exit_code(ErrorKind::kOutOfMemory) && outcome.signal == SIGKILL;
  print_error(lost                      ? "peer lost"
              : outcome.exit_code > 128 ? "interrupted"
                                        : "worker",
              outcome.cause + (lost ? "; the same command with --out " + run.string() +
                                          " continues from the last checkpoint"
                               : starved ? need_and_limit(run)
                                         : ""));
  return outcome.exit_code;
}

void print_line_of(int rank, std::string_view line) {
  std::fputs(fmt::format("[rank {}] {}\n", rank, line).c_str(), stderr);
}

std::vector<std::string> worker_variables() { return worker_environment().entries(); }

elastic::Outcome run_workers(const std::vector<std::string>& arguments, const Place& place) {
  std::fflush(nullptr);
  return elastic::run(launch_of(arguments, place));
}

elastic::Outcome run_ranks(std::vector<std::string> arguments, const Place& place) {
  Place where{.launcher = Launcher::kProcesses, .address = {}};
  if (place.launcher == Launcher::kProcesses)
    where.world = place.world;
  else
    arguments.insert(arguments.end(), {"--ranks", std::to_string(place.world)});
  return run_workers(arguments, where);
}

elastic::Outcome run_workers(const std::vector<std::string>& arguments, const Place& place,
                             const config::Run& keys, const Path& run) {
  std::fflush(nullptr);
  elastic::Launch launch = launch_of(arguments, place);
  launch.progress = [run] { return progress_of(run); };
  launch.patience = patience_of(keys);
  launch.stack_command = stack_command();
  launch.on_note = [](const std::string& note) { print_error("note", note); };
  launch.on_fault = [run](const elastic::Fault& fault) { write_event(run, fault); };
  launch.on_hang = [run](const auto& cause, const auto& lines) { write_hang(run, cause, lines); };
  return elastic::run(launch);
}

}  // namespace trireme::app
