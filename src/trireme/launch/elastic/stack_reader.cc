#include "trireme/launch/elastic/stack_reader.h"

#include <signal.h>

#include "trireme/base/error.h"

namespace trireme::elastic {

std::optional<std::string> StackReader::read(int process, char state, double now) {
  constexpr double kPatience = 2;  // seconds
  if (command_.empty()) return "";
  const auto [found, fresh] = readings_.try_emplace(process);
  Reading& reading = found->second;
  if (fresh) {
    reading.since = now;
    reading.found = state;
    std::vector<std::string> command = command_;
    command.push_back(std::to_string(process));
    try {
      reading.reader = processes_.spawn(
          {.command = std::move(command), .environment = environment_, .capture = true});
    } catch (const Error& error) {
      reading.done = true;
      reading.lines = std::string("  no stack: ") + error.what() + "\n";
    }
  }
  if (!reading.done && now - reading.since > kPatience) {
    processes_.signal(reading.reader, SIGKILL);
    reading.done = true;
    reading.lines += "  its stack could not be read in time\n";
  }
  return reading.done ? std::optional(reading.lines) : std::nullopt;
}

std::optional<char> StackReader::found(int process) const {
  const auto reading = readings_.find(process);
  if (reading == readings_.end() || reading->second.done) return std::nullopt;
  return reading->second.found;
}

void StackReader::handle(const os::ProcessEvent& event) {
  for (auto& [process, reading] : readings_) {
    if (reading.reader != event.pid || reading.done) continue;
    if (event.kind == os::ProcessEvent::Kind::kLine) reading.lines += event.line + "\n";
    if (event.kind == os::ProcessEvent::Kind::kEnded) reading.done = true;
  }
}

}  // namespace trireme::elastic
