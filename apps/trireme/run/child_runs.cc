#include "child_runs.h"

#include <poll.h>
#include <unistd.h>

#include <filesystem>

#include "trireme/base/os/processes.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::app {

std::vector<std::string> train_command(const JobOptions& job, const Path& out) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "train", job.file};
  const auto append = [&](const char* key, const std::string& value) {
    command.insert(command.end(), {key, value});
  };
  if (!job.phase.empty()) append("--phase", job.phase);
  append("--out", out.string());
  for (const std::string& assignment : job.assignments) append("--set", assignment);
  for (const std::string& key : job.allow) append("--allow", key);
  if (job.ranks) append("--ranks", std::to_string(*job.ranks));
  if (job.nproc) append("--nproc", std::to_string(*job.nproc));
  return command;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

bool has_ended(const Path& run, std::int64_t steps) {
  const auto newest = formats::newest_checkpoint(run / "checkpoints");
  return newest && newest->manifest.step >= steps;
}

int run_child(const std::vector<std::string>& command) {
  const std::unique_ptr<os::Processes> processes = os::make_processes();
  const int child = processes->spawn({.command = command, .environment = own_environment()});
  for (;;) {
    pollfd ready{.fd = processes->descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, -1);
    for (const os::ProcessEvent& event : processes->take()) {
      using Kind = os::ProcessEvent::Kind;
      if (event.kind == Kind::kSignal) processes->signal(child, event.signal);
      if (event.kind == Kind::kEnded) return event.signal != 0 ? 128 + event.signal : event.code;
    }
  }
}

}  // namespace trireme::app
