// The weights that a run begins with, as far as they can be judged without tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/job/runs/dataset.h"
#include "trireme/job/runs/plan_job.h"

namespace trireme::runs {

// What model.weights stands for: a checkpoint's step-N directory (of a run the newest), or a Hugging Face directory;
// absolute. Throws Error{kData} where there is neither, or where a run's newest checkpoint cannot be used.
Path find_weights(const Path& path);

// The same for a run in `run`, which keeps the checkpoint that it began with although the run that wrote it has gone on.
// Weights that have gone stay as they are named for such a run, and for one that `resumes` from a checkpoint elsewhere.
Path settled_weights(const Path& path, const Path& run, bool resumes);

// What a job has from weights: theirs, resolved, and the file of their vocabulary.
struct Origin {
  config::Job job;
  std::optional<Path> vocabulary;
};
// Of the weights or, where these have gone, of the run in `run` that began with them; nothing where neither is there.
std::optional<Origin> origin_of(const Path& weights, const Path& run);

// One line about model.weights: from which step, and which of its parameters the model has no place for. Throws
// Error{kUsage} where keys or the vocabulary give them another meaning, but for those in `allowed`, and Error{kData} where a
// parameter has another shape.
std::string describe_weights(const Path& directory, const Planned& planned,
                             const LocatedDataset& data, const std::vector<std::string>& allowed);

}  // namespace trireme::runs
