// An image tower and a causal text tower whose features meet (Radford et al. 2021; Zhai et al. 2023), as data.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// The text tower of a resolved job's `model`, for a micro-batch of `sequences` captions.
Encoder text_tower(const config::Job& job, std::int64_t sequences);

// Whether image features are projected: a head that pools by attention into the common width is not (SigLIP).
bool projects_images(const config::Job& job);

// `job` is resolved, of family clip. Units and nodes vision.embed, vision.block.0 .., vision.head, the same of text,
// and loss; reads images, tokens and where each caption ends, counts accuracy.
ModelSpec clip_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
