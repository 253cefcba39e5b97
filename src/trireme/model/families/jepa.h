// V-JEPA 2's pretraining (Assran et al. 2025): a student sees parts of a clip, a predictor guesses what its teacher makes
// of the rest.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// Masks of a clip: short and long range.
inline constexpr std::int64_t kMasks = 2;

// Of a resolved job: sequences of what the student sees, of which `samples` clips have kMasks each; of what its teacher
// does, packed where it makes chunks; and of the first together with what is to be predicted. Lengths are the most there
// can be.
Encoder student_encoder(const config::Job& job, std::int64_t samples);
Encoder teacher_encoder(const config::Job& job, std::int64_t samples);
Encoder predictor_encoder(const config::Job& job, std::int64_t samples);

// Inputs: clips fp32 [samples, 3, frames, image, image]; context and targets, the tokens of each sequence, mask by mask
// and sample by sample, int64 [rows], of which sample b's are b * tokens .. (b + 1) * tokens - 1; context_bounds and
// target_bounds, int32 prefix sums of the sequences' lengths. The loss is the sum over samples of the mean over masks of
// the mean distance; the metric teacher_std the standard deviation of the teacher's features over a micro-batch's tokens.
// Of family hvjepa, whose tokens become chunks behind the embedding, chunk_ratio is the teacher's chunks out of its tokens.
ModelSpec jepa_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
