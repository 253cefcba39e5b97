// ARR-COC as data: regions of an image get as many tokens as they are worth to a question (docs/models_arrcoc.md).
#pragma once

#include <vector>

#include "trireme/arch/encoder.h"
#include "trireme/arch/per_rank.h"
#include "trireme/arch/spec.h"
#include "trireme/arch/training.h"
#include "trireme/config/job.h"

namespace trireme::arch {

// Of scorers and balancer, in the order that models::Scorers binds; whole on every tp rank.
std::vector<ParamSpec> scorer_params(const config::Job& job);

// The tower: packed regions, at the least level and at their own.
Encoder region_tower(const config::Job& job);

// Nodes: `question` embeds it without a gradient; `scorers` write tokens and levels of regions; `vision.embed` and
// `vision.block.N` are the tower; `projector` makes tokens of its features; `splice` gates these and puts the
// question behind them; `block.N` and `head` are Llama's. Units are called as nodes are, but for `vision.norm` and `levels`.
//
// Inputs of a micro-batch of b: `image`, float [b, 3, image, image] in [0, 1]; `question`, int64 [b], the number of a
// region; `answer`, int64 [b, 1]; `noise`, float [b, regions]. Values between nodes: levels [b, regions] in the compute
// type, whole numbers. Metrics: accuracy, queried_tokens (of the region that is asked about). `job` is resolved.
ModelSpec arrcoc_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::arch
