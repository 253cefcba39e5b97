#include "trireme/families/hvjepa/keys_checks.h"

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/families/jepa/keys_checks.h"

namespace trireme::config {

void check_chunks(const Job& job) {
  const Chunk& chunk = job.chunk;
  if (chunk.layers > 0) check_rotary_heads("chunk", chunk.hidden, chunk.heads);
  const std::int64_t columns = job.vision.image / job.vision.patch;
  if (chunk.mode == ChunkMode::kFixed && columns % chunk.ratio != 0)
    fail(ErrorKind::kUsage,
         "chunk.ratio={} does not divide the {} tokens of a row (vision.image={} / "
         "vision.patch={}), as chunk.mode=fixed needs; change one",
         chunk.ratio, columns, job.vision.image, job.vision.patch);
  if (job.vicreg.weight > 0 && job.run.global_batch < 2)
    fail(
        ErrorKind::kUsage,
        "run.global_batch={}: vicreg.weight={} needs the variance over a batch of 2 or more; raise "
        "it, or set vicreg.weight=0",
        job.run.global_batch, job.vicreg.weight);
}

void resolve_frozen_tower(Job& job) {
  resolve_video_tower(job);
  if (!job.vision.chunked && job.chunk != Chunk{})
    fail(ErrorKind::kUsage,
         "chunk: the tower of family {} makes no chunks; leave the section out, or set "
         "vision.chunked=true",
         name(job.model.family));
  if (job.vision.chunked) check_chunks(job);
}

}  // namespace trireme::config
