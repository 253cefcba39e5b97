// Attentive probes (Bardes et al. 2024): a few blocks and a query that classify a frozen tower's features.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

inline constexpr double kProbeNormEps = 1e-5;

// The probe's blocks of self-attention.
Encoder probe_encoder(const config::Job& job, std::int64_t samples);

// A label of this: the sample is another view of the one before it, and the probabilities of all its views are averaged.
inline constexpr std::int64_t kSameSample = -101;

// Inputs: clips fp32 [samples * probe.segments, 3, frames, image, image], labels int64 [samples]. The tower's parameters have a teacher's
// names. The loss is the sum of cross-entropies of all probes, the metrics each one's share of labels that have the largest
// score. Names of several begin with "probe.N.".
ModelSpec probe_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
