// ARR-COC as data: regions of an image get as many tokens as they are worth to a question (docs/models_arrcoc.md).
#pragma once

#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// Parameters of scorers and balancer, in the order that blocks::Scorers binds; whole on every tp rank.
std::vector<ParamSpec> scorer_params(const config::Job& job);

// The tower: packed regions, at the least level and at their own.
Encoder region_tower(const config::Job& job);

// Nodes: `embed` embeds the text. `scorers` writes tokens and levels of regions. `vision.embed` and `vision.block.N`
// are the tower; `projector` turns its features into tokens. `splice` gates these and appends the text. `block.N` and
// `head` are Llama's or GPT-2's. Units have the names of nodes, except for `vision.norm` and `levels`.
//
// Inputs of a micro-batch of b rows with t tokens of text: `image`, float [b, 3, image, image] in [0, 1]; `targets`,
// int64 [b, t]; `noise`, float [b, regions]. `text`, int64 [b, t]: question and answer without its last token. `asked`,
// int64 [b]: length of the question. For a user's pictures `sizes`, int64 [b, 2]: height and width of each in the top
// left corner of `image`. Values between nodes: levels [b, regions] in the compute type, whole numbers; `charge`, [b],
// the charge for an answer's token in addition to its loss.
//
// Metrics: exact, accuracy; queried_tokens, of the region that is asked about, or largest_region; with a learned budget
// image_tokens. `job` is resolved.
ModelSpec arrcoc_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
