// Jobs in phases: one file whose runs follow one another, each from the weights that an earlier one ended with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"

namespace trireme::config {

struct Phase {
  std::string name;  // a word; empty: the file is one job without phases
  Job job;           // the file's sections with the phase's over them
  std::optional<int>
      from{};  // the phase whose weights it begins with; none: what model.weights says
};

// Reads a job file of sections and `phases`, a list of maps. A map has `name`, `from` (an earlier phase, or `nothing`;
// by default the previous one) and sections of its own. A phase that sets model.weights begins with these weights.
// Throws Error{kUsage} as parse_job, for names that are no words or appear twice, and for a `from` that names no
// earlier phase. Keys that the file leaves out have the values of `base`.
std::vector<Phase> parse_phases(std::string_view text, const std::string& what,
                                const Job& base = {});
std::vector<Phase> load_phases(const Path& path, const Job& base = {});

// "pretrain, probe": for messages.
std::string phase_names(const std::vector<Phase>& phases);

}  // namespace trireme::config
