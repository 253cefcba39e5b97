// GPT-NeoX and Pythia as data.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): LayerNorm and biases everywhere but in the output layer,
// and rotary positions in a part of each head. Attention and feed-forward layers read the same x, and their results are
// added at once. Units, nodes and inputs are as gpt_spec's.
//
// Parameters have Hugging Face's names, except query_key_value: queries, keys and values have one each. Of each head's
// queries and keys, channel i turns with channel i + width / 2 (convert/hugging_face_names.h).
ModelSpec neox_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
