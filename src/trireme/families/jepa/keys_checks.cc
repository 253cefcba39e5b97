#include "trireme/families/jepa/keys_checks.h"

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/families/jepa/keys_masks.h"

namespace trireme::config {

void check_rotary_heads(std::string_view section, std::int64_t hidden, std::int64_t heads) {
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

void resolve_video_tower(Job& job) {
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

namespace {

void check_masks(const Job& job) {
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

}  // namespace

void resolve_jepa(Job& job, const DatasetFacts& data) {
  resolve_video_tower(job);
  check_reads(job, DataSource::kSquares, DataSource::kClips, "clips");
  check_rotary_heads("jepa", job.jepa.hidden, job.jepa.heads);
  check_masks(job);
}

}  // namespace trireme::config
