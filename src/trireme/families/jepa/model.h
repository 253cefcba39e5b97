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

// Encoders of a resolved job: of the sequences that the student sees, kMasks for each of `samples` clips; of its
// teacher's, packed where it makes chunks; and of the student's together with the predicted tokens. Lengths are the
// maxima.
Encoder student_encoder(const config::Job& job, std::int64_t samples);
Encoder teacher_encoder(const config::Job& job, std::int64_t samples);
Encoder predictor_encoder(const config::Job& job, std::int64_t samples);

// Inputs: clips fp32 [samples, 3, frames, image, image]; context and targets, int64 [rows]; context_bounds and
// target_bounds, int32 prefix sums of the sequences' lengths. Context and targets are the tokens of each sequence, mask
// by mask and sample by sample; sample b has tokens b * tokens .. (b + 1) * tokens - 1. The loss is the sum over
// samples of the mean over masks of the mean distance. The metric teacher_std is the standard deviation of the
// teacher's features over a micro-batch's tokens. Family hvjepa turns tokens into chunks after the embedding; its
// metric chunk_ratio is the teacher's number of chunks per token.
ModelSpec jepa_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
