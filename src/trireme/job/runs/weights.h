// The weights that a run begins with, as far as they can be judged without tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/job/runs/dataset.h"
#include "trireme/job/runs/plan_job.h"

namespace trireme::runs {

// Directory of model.weights: a checkpoint's step-N directory (of a run the newest), or a Hugging Face directory;
// absolute. Throws Error{kData} if there is neither, or if a run's newest checkpoint cannot be used, as far as `check`
// reads it.
Path find_weights(const Path& path,
                  formats::CheckpointCheck check = formats::CheckpointCheck::kManifest);

// The same for a run in `run`, which keeps the checkpoint that it began with although the run that wrote it has
// continued. Missing weights stay as they are named for such a run, and for one that `resumes` from a checkpoint
// elsewhere.
Path settled_weights(const Path& path, const Path& run, bool resumes,
                     formats::CheckpointCheck check);

// A job's origin in weights: their job, resolved, and the file of their vocabulary.
struct Origin {
  config::Job job;
  std::optional<Path> vocabulary;
};
// Origin from the weights or, if these no longer exist, from the run in `run` that began with them; nothing if neither
// exists.
std::optional<Origin> origin_of(const Path& weights, const Path& run);

// One line about model.weights: their step, and those of its parameters that are not in the model. Throws Error{kUsage}
// if keys or the vocabulary give the weights another meaning, except for keys in `allowed`. Throws Error{kData} if a
// parameter has another shape.
std::string describe_weights(const Path& directory, const Planned& planned,
                             const LocatedDataset& data, const std::vector<std::string>& allowed);

}  // namespace trireme::runs
