// Files of a run directory that an agent reads, and those that it writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/launch/elastic/membership.h"
#include "trireme/launch/watch/silence.h"

namespace trireme::app {

inline constexpr char kHangsName[] = "hangs.txt";

// The newest step in `checkpoints`; 0: there is none. A disk that does not answer ends nothing.
std::int64_t newest_step(const Path& checkpoints);
elastic::Progress progress_of(const Path& run);

// How long ranks may be silent.
watch::Patience patience_of(const config::Run& keys);

// Command that prints the call stacks of a process.
std::vector<std::string> stack_command();

// A line of events.jsonl.
void write_event(const Path& run, const elastic::Fault& fault);
// Appends to hangs.txt.
void write_hang(const Path& run, const std::string& cause, const std::vector<std::string>& lines);

}  // namespace trireme::app
