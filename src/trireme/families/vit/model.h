// Vision transformers that classify images, as data (Dosovitskiy et al. 2021).
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// `job` is resolved, of family vit. Units embed, block.0 .. and head; reads images and labels, counts accuracy.
ModelSpec vit_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
