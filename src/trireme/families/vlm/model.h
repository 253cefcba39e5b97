// Vision-language models as data: a tower, a projector and a decoder (Liu et al. 2023, LLaVA).
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// Whether a frozen tower of clips, one a sample, is in the place of a tower of tiles.
bool sees_clips(const config::Job& job);
// Most tiles of a row: those of one image, or as many as fill it with their tokens; with vlm.cross one for each
// second token.
std::int64_t row_tiles(const config::Job& job);
// Tiles, or clips, of a micro-batch that plans count: of an image a row, or where samples share rows of full ones. At
// least one: a micro-batch without an image has a blank one.
std::int64_t expected_tiles(const config::Job& job);
// Whether a node's work goes with tiles: those of the tower and the projector.
bool sees_tiles(const plan::Node& node);
// Throws Error{kUsage} for vlm.features where the tower's nodes are of several stages.
void check_kept_features(const config::Job& job, const plan::Program& program);
// Number of a token's positions: time, row and column with vlm.mrope, then with vlm.pack its place in its sample.
std::int64_t position_columns(const config::Job& job);

// Nodes `vision.embed` and `vision.block.N` are the tower, of tiles. `projector` turns their features into tokens,
// after unit `vision.norm` where the tower is read after its last block. `embed` puts these among the embedded tokens,
// with a `newline` after every row of an image's grid. `block.N` and `head` are Llama's. Units have the names of nodes.
// vlm.deepstack adds the nodes of families/vlm/model_deepstack.h. With vlm.cross no projected row is among the tokens;
// nodes `cross.N` of families/vlm/model_gated_cross.h read `visual` and the projected tokens.
//
// Inputs: `tokens` and `targets`, int64 [micro_batch, seq_len]; a target of -100 does not count. `visual`, int64 of the
// same shape: for each token its row of the micro-batch's projected tokens [tiles * tile_tokens, hidden], -1 for an
// embedded token, -2 for a newline. With vlm.cross it is the first row of the latest image up to the token, -1 without
// one. `tiles`, float [tiles, 3, image, image], or `clips`, float [micro_batch, 3, frames, image, image], whose nodes
// and units are those of model::frozen_tower. Where the model has them `positions`, int64 [micro_batch, seq_len], or
// with several position_columns() [micro_batch, seq_len, columns]. Metrics: exact (answers with all tokens correct),
// accuracy (of tokens). `job` is resolved.
ModelSpec vlm_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
