// Memory that ranks may need, and what is done about it before training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "place.h"
#include "planned.h"
#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/plan/simulate/footprint.h"

namespace trireme::app {

// Of what a process holds beside tensors, the share of one of its ranks; 0 on a GPU, whose memory holds tensors.
std::int64_t library_share(const config::Job& job, const Place& place);

// What every rank needs of the memory that its tensors are in.
std::vector<simulate::Footprint> footprints(const Planned& planned, const Place& place);

// Throws Error{kNoRoom} if a rank is forecast to need more than run.memory_limit.
void check_room(const Planned& planned, const Place& place);

// Where snapshots in memory do not fit into the file system of `memory`, on this rank's host: one line that says so.
std::optional<std::string> too_small(const Planned& planned, const Place& place,
                                     const Path& memory);

// The job with the largest micro_batch that fits, by forecast and then by a trial in processes of its own; prints
// what it finds, which is settled then: nothing looks for it again. Throws Error{kNoRoom} where not even the smallest does. The ranks are started here. Scratch files of
// trials have no names and lie above the run directory `run`, which is not touched.
config::Job with_found_micro_batch(config::Job job, const Place& place,
                                   const config::DatasetFacts& data, const Path& run);

}  // namespace trireme::app
