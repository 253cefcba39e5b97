// Small jobs of the families that read pictures or bytes, in fp64; tests/harness/vjepa_jobs.h has those of clips.
#pragma once

#include <initializer_list>

#include "trireme/config/resolve/resolve.h"

namespace trireme::harness {

inline config::Job job_with(std::initializer_list<const char*> sets) {
  config::Job job;
  for (const char* set : {"precision.compute=fp64", "parallel.dp_shard=1", "run.global_batch=4",
                          "run.micro_batch=1", "optim.eps=1e-4", "optim.warmup_steps=0"})
    config::apply_set(job, set);
  for (const char* set : sets) config::apply_set(job, set);
  return job;
}

inline config::Job vit_job() {
  return job_with({"model.family=vit", "data.source=stripes", "vision.image=16", "vision.patch=4",
                   "vision.hidden=24", "vision.heads=4", "vision.layers=2",
                   "vision.pooling=attention"});
}

// Its loss runs once a step, on all micro-batches of a rank.
inline config::Job clip_job() {
  return job_with({"model.family=clip", "data.source=scenes", "vision.image=16", "vision.patch=4",
                   "vision.hidden=24", "vision.heads=4", "vision.layers=2", "vision.pooling=class",
                   "model.seq_len=55", "model.hidden=16", "model.heads=4", "contrastive.width=12",
                   "parallel.schedule=gpipe"});
}

inline config::Job vlm_job() {
  return job_with({"model.family=vlm", "data.source=scenes", "data.samples=64", "vision.hidden=24",
                   "vision.heads=2", "vision.layers=2", "vision.patch=16", "model.hidden=32",
                   "model.heads=4", "model.kv_heads=2", "model.layers=2", "model.ffn=48",
                   "model.seq_len=48", "model.vocab=260", "vlm.layer=-1"});
}

inline config::Job arrcoc_job() {
  return job_with({"model.family=arrcoc", "data.source=quadrants", "data.samples=64",
                   "vision.image=32", "vision.patch=4", "vision.hidden=16", "vision.heads=2",
                   "vision.layers=2", "model.hidden=32", "model.heads=4", "model.kv_heads=2",
                   "model.layers=2", "model.ffn=48", "model.seq_len=40", "arrcoc.grid=2",
                   "arrcoc.sides=[2, 5]", "arrcoc.budget=36", "arrcoc.hidden=8"});
}

// Two stages within each other.
inline config::Job hnet_job() {
  return job_with({"model.family=hnet", "model.vocab=64", "model.seq_len=24",
                   "hnet.layout=T1,[T1,[T1],t1],T1", "hnet.hidden=16,16,32", "hnet.heads=2,2,4",
                   "hnet.ffn=24,24,40", "hnet.ratio=3,2", "optim.lr=1e-2"});
}

inline config::Job mamba_job() {
  return job_with({"model.family=hnet", "model.vocab=64", "model.seq_len=24",
                   "hnet.layout=m1,[T1],m1", "hnet.hidden=64,64", "hnet.heads=4,4", "hnet.ffn=0,40",
                   "hnet.ratio=3"});
}

}  // namespace trireme::harness
