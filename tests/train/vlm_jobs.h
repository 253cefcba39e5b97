// A small vision-language model.
#pragma once

#include <vector>

#include "tests/harness/small_jobs.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::train {

inline config::Job small_vlm(const harness::Sets& sets) {
  config::Job job;
  for (const char* set :
       {"model.family=vlm", "data.source=scenes", "data.samples=64", "precision.compute=fp64",
        "vision.hidden=24", "vision.heads=2", "vision.layers=2", "vision.patch=16",
        "model.hidden=32", "model.heads=4", "model.kv_heads=2", "model.layers=2", "model.ffn=48",
        "model.seq_len=48", "model.vocab=260", "vlm.layer=-1", "run.global_batch=8",
        "run.micro_batch=1", "parallel.dp_shard=1"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

}  // namespace trireme::train
