#include "run_record.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/event.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

// Of the last whole line of metrics.jsonl.
std::int64_t last_step(const Path& metrics) {
  constexpr std::streamoff kTail = 8192;  // longer than any line
  std::ifstream file(metrics, std::ios::binary);
  if (!file.seekg(0, std::ios::end)) return 0;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTail));
  std::int64_t step = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer())
      step = json["step"].get<std::int64_t>();
  }
  return step;
}

// The next start commits it.
std::int64_t newest_complete_draft(const Path& checkpoints) {
  try {
    const auto steps = formats::complete_drafts(os::real_file_system(), checkpoints);
    return steps.empty() ? 0 : std::ranges::max(steps);
  } catch (const Error&) {
    return 0;  // a disk that does not answer must not end the agent
  }
}

}  // namespace

std::int64_t newest_step(const Path& checkpoints) {
  std::int64_t newest = 0;
  std::error_code error;  // a disk that does not answer must not end the agent
  for (fs::directory_iterator entry(checkpoints, error), end; !error && entry != end;
       entry.increment(error))
    newest = std::max(newest, formats::step_of(entry->path().filename().string()).value_or(0));
  return newest;
}

elastic::Progress progress_of(const Path& run) {
  const std::int64_t durable =
      std::max(newest_step(run / "checkpoints"), newest_complete_draft(run / "checkpoints"));
  return {.durable_step = durable,
          .last_step = std::max(durable, last_step(run / "metrics.jsonl"))};
}

void write_event(const Path& run, const elastic::Fault& fault) {
  const formats::Event event{.kind = fault.kind,
                             .rank = fault.rank,
                             .host = fault.host,
                             .step = fault.step,
                             .op = fault.op.empty() ? "training" : fault.op,
                             .cause = fault.cause,
                             .action = fault.action,
                             .lost_s = fault.lost_s,
                             .generation = fault.generation};
  std::error_code ignored;
  std::filesystem::create_directories(run, ignored);
  std::ofstream(run / formats::kEventsName, std::ios::app)
      << formats::event_line(event, std::chrono::system_clock::now()) + "\n";
}

watch::Patience patience_of(const config::Run& keys) {
  watch::Patience patience{.steps = keys.hang_report_s};
  patience.rest = std::max(patience.rest, patience.steps);
  return patience;
}

std::vector<std::string> stack_command() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "stack"};
}

void write_hang(const Path& run, const std::string& cause, const std::vector<std::string>& lines) {
  std::ofstream file(run / kHangsName, std::ios::app);
  file << fmt::format("{:%FT%TZ} {}\n", fmt::gmtime(std::time(nullptr)), cause);
  for (const std::string& line : lines) file << line << "\n";
  file << "\n";
}

}  // namespace trireme::app
