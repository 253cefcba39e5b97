// Environment variables, cache directory and terminal of this process, as the components of runs receive them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/job/runs/cache.h"
#include "trireme/job/runs/dataset.h"
#include "trireme/job/runs/place.h"
#include "trireme/job/runs/run_directory.h"

namespace trireme::app {

using namespace runs;

// ${XDG_CACHE_HOME:-$HOME/.cache}/trireme. Error{kUsage} when neither is set.
Path cache_directory();

// By this process's variables.
Place find_place(std::optional<int> ranks, std::optional<int> nproc, int most = kMostLocal);
Nodes find_nodes();

// With this machine's cache and headers.
LocatedDataset locate_dataset(const config::Data& data, const Note& say);

// Notes are lines of stderr.
void print_note(const std::string& note);
Path find_checkpoint(const Path& path);
Path find_model(const Path& path);

}  // namespace trireme::app
