// Small jobs of V-JEPA 2's families.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::harness {

// Clips of 4 frames of 16 x 16 pixels: 32 tokens; widths up to 32, 2 blocks each. Not resolved.
inline config::Job vjepa_job(config::Family family, const std::vector<std::string>& sets = {}) {
  config::Job job;
  job.model.family = family;
  job.vision = {.image = 16,
                .patch = 4,
                .frames = 4,
                .tubelet = 2,
                .layers = 2,
                .hidden = 24,
                .heads = 2,
                .positions = config::Positions::kRotary};
  job.data.source =
      family == config::Family::kJepaAc ? config::DataSource::kArm : config::DataSource::kSquares;
  if (family == config::Family::kJepa || family == config::Family::kHvjepa)
    job.jepa = {.layers = 2, .hidden = 16, .heads = 2, .momentum = 0.9};
  if (family == config::Family::kHvjepa)
    job.chunk = {.ratio = 4, .hidden = 16, .heads = 2, .layers = 1};
  if (family == config::Family::kProbe) {
    job.probe = {.layers = 2, .heads = 2};
    job.vision.classes = 8;
  }
  if (family == config::Family::kJepaAc)
    job.action = {.layers = 2, .hidden = 16, .heads = 2, .rollout = 2};
  if (family == config::Family::kVlm) {
    job.vlm.tower = config::VlmTower::kJepa;
    job.model.layers = 2, job.model.hidden = 32, job.model.heads = 4, job.model.kv_heads = 2;
    job.model.ffn = 48, job.model.vocab = 260, job.model.seq_len = 48;
  }
  job.precision.compute = DType::kF64;
  job.parallel.dp_shard = 1;
  job.run.global_batch = 8;
  job.optim.warmup_steps = 0;
  job.optim.eps = 1e-4;
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

// The same on a frozen tower that sees chunks of 4 tokens.
inline config::Job chunked_job(config::Family family, const std::vector<std::string>& sets = {}) {
  config::Job job = vjepa_job(family);
  job.vision.chunked = true;
  job.chunk = {.ratio = 4, .hidden = 16, .heads = 2, .layers = 1};
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

}  // namespace trireme::harness
