// Small models that see, as several classes have them.
#pragma once

#include "tests/checkpoint/convert/seeds.h"

namespace trireme::convert {

inline config::Job clip_tower() {
  config::Job job = with_tower(config::Family::kVit);
  job.vision.pre_norm = true;
  job.vision.activation = config::Activation::kQuickGelu;
  job.vision.pixels = "clip";
  return job;
}

inline config::Job llava(std::int64_t tiles, bool bias) {
  config::Job job = clip_tower();
  job.data.source = config::DataSource::kScenes;
  job.vision.layers = 3;
  job.vision.classes = 0;
  job.model = decoder(config::Family::kLlama, 260).model;
  job.model.head_dim = 6;  // hidden / heads is 4
  job.model.qkv_bias = bias;
  job.model.family = config::Family::kVlm;
  job.vlm.max_tiles = tiles;
  return job;
}

// Without a class token, and with biases everywhere.
inline config::Job siglip_tower(config::Pooling pooling) {
  config::Job job = with_tower(config::Family::kVit);
  job.vision.pooling = pooling;
  job.vision.activation = config::Activation::kGeluTanh;
  job.vision.norm_eps = 1e-6;
  return job;
}

inline config::Job llava_siglip() {
  config::Job job = llava(0, false);
  job.vision = siglip_tower(config::Pooling::kMean).vision;
  job.vision.layers = 3;
  job.vision.classes = 0;
  return job;
}

inline config::Job qwen3_vl() {
  config::Job job = llava_siglip();
  job.model.qk_norm = true;
  job.vision.heads = 6;  // of 4 channels
  job.vision.frames = job.vision.tubelet = 2;
  job.vision.positions = config::Positions::kLearnedRotary;
  job.vision.position_grid = 4;
  job.projector.kind = config::ProjectorKind::kMerger;
  job.vlm.layer = -1;
  job.vlm.deepstack = "0,2";
  job.vlm.mrope = "1,1,1 interleaved";
  return job;
}

}  // namespace trireme::convert
