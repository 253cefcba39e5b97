// Inputs of each family from a user's pictures, captions, clips and trajectories.
#pragma once

#include "trireme/data/loaders/samples/file_samples.h"

namespace trireme::loaders {

// Samples of family vit: float [3, frames, image, image], which repeats the picture, and its class.
FileReader image_reader(const config::Job& job);
// Samples of family clip: the picture; its caption as bytes, int64 [seq_len], of which the first 0 is its end and fills
// the rest; the place of that end. A longer caption is cut.
FileReader caption_reader(const config::Job& job);
// Samples of families jepa and hvjepa: float [3, frames, image, image].
FileReader clip_reader(const config::Job& job);
// Samples of family probe: as many clips as a sample has segments, [segments, 3, frames, image, image] (for one segment
// without that dim), and the class. A held-out sample has as many rows as views; all labels except the first are
// model::kSameSample.
FileReader probe_reader(const config::Job& job);
// Samples of family jepa_ac: the same, the actions between two frames and the state of the first of them, both float
// [frames - 1, 7].
FileReader trajectory_reader(const config::Job& job);
// Samples of family vlm: one of the questions about a picture, in training another one an epoch.
FileReader question_reader(const config::Job& job);
// Samples of family arrcoc: the same as inputs of model::arrcoc_spec.
FileReader region_question_reader(const config::Job& job);

}  // namespace trireme::loaders
