// Reading the next step's micro-batches while this one is computed.
#pragma once

#include <memory>

#include "trireme/config/job.h"
#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

// The same samples; whoever asks for a micro-batch is given it, and two threads begin to read the one that is a global batch
// behind. What was not expected is read when asked for. `source` is asked by several threads at once.
std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source, const config::Job& job);

}  // namespace trireme::loaders
