#include "trireme/config/resolve/resolve_jepa.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/mask_rules.h"
#include "trireme/config/probes.h"
#include "trireme/config/resolve/resolve_family.h"
#include "trireme/config/resolve/resolve_towers.h"

namespace trireme::config {
namespace {

// Rotary positions over time, row and column turn pairs of channels on each axis.
void check_heads(std::string_view section, std::int64_t hidden, std::int64_t heads) {
  if (hidden % heads != 0)
    fail(ErrorKind::kUsage, "{0}.hidden={1} is not divisible by {0}.heads={2}; change one", section,
         hidden, heads);
  const std::int64_t width = hidden / heads;
  if (width % 2 != 0 || width < 6)
    fail(ErrorKind::kUsage,
         "{0}.hidden={1} / {0}.heads={2} = {3} per head; rotary positions over time, row and "
         "column need an even number of 6 or more",
         section, hidden, heads, width);
}

void resolve_tower(Job& job) {
  Vision& vision = job.vision;
  if (has_position_table(vision))
    fail(ErrorKind::kUsage,
         "vision.positions={}: family {} has rotary ones; set vision.positions=rotary (or "
         "rotary_compat)",
         vision.positions == Positions::kLearned ? "learned" : "learned_rotary",
         name(job.model.family));
  resolve_vision(vision);
  check_text_keys(job);
}

void resolve_masks(const Job& job) {
  const Jepa& jepa = job.jepa;
  const std::int64_t side = job.vision.image / job.vision.patch;
  if (side * side < 2)
    fail(ErrorKind::kUsage,
         "vision.image={} / vision.patch={}: a frame of one token leaves no context for its "
         "targets; lower vision.patch",
         job.vision.image, job.vision.patch);
  for (const auto& [blocks, scale] : mask_rules(jepa)) {
    const double tokens = scale * static_cast<double>(side * side);
    if (tokens < 1)
      fail(ErrorKind::kUsage,
           "jepa.masks={}: {} of {} x {} tokens of a frame is less than one; raise it to {:.3g} or "
           "more",
           jepa.masks, scale, side, side, 1.0 / static_cast<double>(side * side));
    if (scale >= 1)
      fail(ErrorKind::kUsage,
           "jepa.masks={}: a block of {} covers the frame and leaves no context; lower it",
           jepa.masks, scale);
  }
}

// How a probe is trained and evaluated on a user's clips.
void check_protocol(const Job& job) {
  const Probe& probe = job.probe;
  const bool plain = probe.augment == 0 && probe.segments == 1 && probe.views == 1;
  if (job.data.source != DataSource::kClips && !plain)
    fail(ErrorKind::kUsage,
         "probe.augment={}, probe.clips=[{}, {}]: these keys are for clips in files, "
         "and data.source makes its clips itself. Set data.source=clips, or leave the keys out.",
         probe.augment, probe.segments, probe.views);
  if (probe.segments > 1 && job.vision.chunked)
    fail(
        ErrorKind::kUsage,
        "probe.clips=[{}, {}]: a tower of chunks (vision.chunked=true) reads one clip of a sample. "
        "Set probe.clips=[1, {}].",
        probe.segments, probe.views, probe.views);
  if (job.run.micro_batch % probe.views != 0)
    fail(ErrorKind::kUsage,
         "{} in probe.clips does not divide run.micro_batch={}: all views of a held-out sample are "
         "in "
         "one micro-batch. Set {}.",
         probe.views, job.run.micro_batch,
         nearest_multiples("run.micro_batch", job.run.micro_batch, probe.views));
}

void resolve_chunks(const Job& job) {
  const Chunk& chunk = job.chunk;
  if (chunk.layers > 0) check_heads("chunk", chunk.hidden, chunk.heads);
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

}  // namespace

void resolve_frozen_tower(Job& job) {
  resolve_tower(job);
  if (!job.vision.chunked && job.chunk != Chunk{})
    fail(ErrorKind::kUsage,
         "chunk: the tower of family {} makes no chunks; leave the section out, or set "
         "vision.chunked=true",
         name(job.model.family));
  if (job.vision.chunked) resolve_chunks(job);
}

void resolve_jepa(Job& job, const DatasetFacts& data) {
  resolve_tower(job);
  check_reads(job, DataSource::kSquares, DataSource::kClips, "clips");
  check_heads("jepa", job.jepa.hidden, job.jepa.heads);
  resolve_masks(job);
}

void resolve_hvjepa(Job& job, const DatasetFacts& data) {
  resolve_jepa(job, data);
  resolve_chunks(job);
}

void resolve_probe(Job& job, const DatasetFacts& data) {
  resolve_frozen_tower(job);
  check_reads(job, DataSource::kSquares, DataSource::kClips, "clips");
  check_protocol(job);
  if (job.vision.hidden % job.probe.heads != 0)
    fail(ErrorKind::kUsage, "vision.hidden={} is not divisible by probe.heads={}; change one",
         job.vision.hidden, job.probe.heads);
  if (const auto width = job.vision.hidden / job.probe.heads;
      job.vision.chunked && (width % 2 != 0 || width < 6))
    fail(ErrorKind::kUsage,
         "vision.hidden={} / probe.heads={} = {} per head; on chunks a probe has rotary positions, "
         "which need an even number of 6 or more",
         job.vision.hidden, job.probe.heads, width);
  resolve_classes(job.vision, data);
  check_probes(job);
  if (job.parallel.tp > job.probe.heads)
    fail(ErrorKind::kUsage, "parallel.tp={} is more than probe.heads={}; a rank needs at least one",
         job.parallel.tp, job.probe.heads);
}

void resolve_action(Job& job, const DatasetFacts& data) {
  resolve_frozen_tower(job);
  check_reads(job, DataSource::kArm, DataSource::kTrajectories, "clips with actions");
  const Action& action = job.action;
  check_heads("action", action.hidden, action.heads);
  if (job.vision.frames < 2)
    fail(ErrorKind::kUsage, "vision.frames={}: an action lies between two frames; needs 2 or more",
         job.vision.frames);
  if (action.rollout > job.vision.frames - 1)
    fail(ErrorKind::kUsage,
         "action.rollout={} frames are predicted one after the other, but a clip has {} after its "
         "first (vision.frames={}); lower it",
         action.rollout, job.vision.frames - 1, job.vision.frames);
  if (job.parallel.tp > action.heads)
    fail(ErrorKind::kUsage,
         "parallel.tp={} is more than action.heads={}; a rank needs at least one", job.parallel.tp,
         action.heads);
}

}  // namespace trireme::config
