// The encoder of V-JEPA 2 (Assran et al. 2025): patches of clips, rotary blocks, a norm; trained, followed or frozen.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Prefixes of parameter names in checkpoints: those of the trained tower, and those of its moving average, which later
// phases use.
inline constexpr char kStudent[] = "encoder.";
inline constexpr char kTeacher[] = "target_encoder.";

// patch_embed.proj, a convolution's [hidden, 3, tubelet, patch, patch] and its bias.
std::vector<ParamSpec> video_embed_params(const config::Vision& vision, const std::string& prefix);
// `rows` tokens of a micro-batch are embedded.
Work video_embed_work(const Graph& graph, const config::Vision& vision, std::int64_t rows);

// Patches of all clips, also where only some are embedded, in fp32 and in the compute type. `apart`: each frame is a
// clip of equal frames.
plan::NodeWork video_embed_transients(const Graph& graph, const config::Vision& vision,
                                      std::int64_t samples, bool apart = false);

// Bytes of a micro-batch of clips, in fp32.
std::int64_t clip_bytes(const config::Vision& vision, std::int64_t samples);

// Bytes that a norm, alone or after a linear layer, reads and writes.
Work norm_work(const Graph& graph, const Encoder& encoder);
// A norm that keeps nothing writes its result once more where that is normalised again.
plan::NodeWork norm_transients(const Graph& graph, const Encoder& encoder);

// A tower that never trains, from clips to features [sequences, tokens, hidden]: nodes and units tower.embed,
// tower.block.N, tower.norm, with parameters under a teacher's names. With vision.chunked that of families/hvjepa/model_tower.h. The
// tokens of `segments` sequences follow one another in the features: [sequences / segments, segments * tokens, hidden].
plan::ValueId frozen_tower(Graph& graph, const config::Job& job, const Encoder& encoder,
                           plan::ValueId clips, std::int64_t segments = 1);

}  // namespace trireme::model
