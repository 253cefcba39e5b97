// Samples of what a text model writes after its training, for report.html.
#pragma once

#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/train/callbacks/report.h"

namespace trireme::app {

// Whether samples are generated from this job's model. Conditions: families that continue text, up to 20M parameters,
// on the CPU, without run.memory_limit. The model is loaded a second time.
bool writes_samples(const config::Job& job);

// Continuations by the checkpoint's model of beginnings of held-out text, in a few seconds. `run` has the vocabulary,
// `dataset` is the job's training data. If the model cannot be loaded, the one sample says why.
std::vector<train::Written> write_samples(const config::Job& job, const Path& checkpoint,
                                          const Path& run, const Path& dataset);

}  // namespace trireme::app
