// V-JEPA 2-AC (Assran et al. 2025): frames' features predicted from those before, from actions and states.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// Tokens of a frame in addition to its patches: the action and the state.
inline constexpr std::int64_t kConditions = 2;
inline constexpr std::int64_t kExtrinsics = 6;

// The tower of single frames, each repeated to fill a tubelet.
Encoder frame_tower(const config::Job& job, std::int64_t samples);
// The predictor over `frames` frames of kConditions and a frame's patches.
Encoder action_encoder(const config::Job& job, std::int64_t samples, std::int64_t frames);

// Inputs: clips fp32 [samples, 3, frames, image, image], actions and states fp32 [samples, frames - 1, 7]. The
// predictor runs once over all frames except the last. Then it runs, with the same units, over 2 .. action.rollout
// frames, of which all except the first are its own predictions. The loss is the sum over samples of both mean
// distances.
ModelSpec action_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
