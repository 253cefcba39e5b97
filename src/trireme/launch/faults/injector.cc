#include "trireme/launch/faults/injector.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <utility>

#include "trireme/base/os/descriptor.h"
#include "trireme/launch/faults/faulty_files.h"

namespace trireme::faults {
namespace {

std::set<std::string> lines_of(const Path& path) {
  std::set<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

bool holds(const Fault& fault, const watch::Moment& moment) {
  const bool operation = !moment.group.empty();
  if (fault.phase && fault.phase != moment.phase) return false;
  if (fault.step && fault.step != moment.step) return false;
  if (fault.line && fault.line != moment.line) return false;
  if (!fault.what.empty() && fault.what != moment.what) return false;
  if (!fault.group.empty() && fault.group != moment.group) return false;
  if (fault.chunk != moment.chunk) return false;
  if (fault.op && (!operation || moment.ended || fault.op != moment.sequence)) return false;
  if (fault.ended) return operation && moment.ended && fault.ended == moment.sequence;
  return !moment.ended;
}

}  // namespace

Injector::Injector(Config config) : config_(std::move(config)) {
  const std::set<std::string> noted = lines_of(config_.notes);
  for (const Fault& fault : config_.faults) {
    if (fault.rank && fault.rank != config_.rank) continue;
    if (fault.generation && fault.generation != config_.generation) continue;
    if (!fault.each_generation && noted.contains(line_of(fault))) continue;
    armed_.push_back(std::make_unique<Armed>(fault));
  }
}

Injector::~Injector() = default;

std::string Injector::line_of(const Fault& fault) const {
  return "rank " + std::to_string(config_.rank) + ": " + print(fault);
}

// Whole or not at all: no other process reads it before this rank starts again.
bool Injector::noted(const Fault& fault) const {
  if (fault.each_generation) return true;
  const os::Descriptor file(
      ::open(config_.notes.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  const std::string line = line_of(fault) + "\n";
  return file.open() &&
         ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

// The nth time that it holds, by whichever thread.
bool Injector::due(Armed& armed) const {
  return armed.met.fetch_add(1, std::memory_order_relaxed) + 1 == armed.fault.nth &&
         noted(armed.fault);
}

void Injector::start(std::string_view stage) {
  for (const auto& armed : armed_)
    if (armed->fault.start == stage && due(*armed)) act(armed->fault);
}

void Injector::see(const watch::Moment& moment) {
  phase_ = moment.phase;
  step_ = moment.step;
  for (const auto& armed : armed_) {
    const Fault& fault = armed->fault;
    if (!fault.call && fault.start.empty() && holds(fault, moment) && due(*armed)) act(fault);
  }
}

const Fault* Injector::at(DiskCall call, bool in_memory) {
  const watch::Moment now{.phase = phase_, .step = step_};
  const Fault* found = nullptr;
  for (const auto& armed : armed_) {  // all: each counts every call
    const Fault& fault = armed->fault;
    if ((fault.call != call && fault.call != DiskCall::kAny) || fault.in_memory != in_memory ||
        !holds(fault, now) || !due(*armed))
      continue;
    if (fault.action < Action::kError)
      act(fault);
    else
      found = &fault;
  }
  return found;
}

os::FileSystem& Injector::faulty(Files& files, os::FileSystem& inner, bool in_memory) {
  files = std::make_unique<FaultyFiles>(
      inner, [this, in_memory](DiskCall call) { return at(call, in_memory); },
      [this](const Fault& fault) { act(fault); });
  return *files;
}

}  // namespace trireme::faults
