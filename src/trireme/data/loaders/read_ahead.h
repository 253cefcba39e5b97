// Reading the next step's micro-batches while this one is computed.
#pragma once

#include <memory>

#include "trireme/config/job.h"
#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

// The same samples, read ahead: when a micro-batch is returned, two threads begin to read the one that follows a global
// batch later. Unexpected requests are read when they come. `source` is used by several threads at once.
std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source, const config::Job& job);

}  // namespace trireme::loaders
