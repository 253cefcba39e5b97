#include "trireme/config/resolve/resolve_towers.h"

#include <algorithm>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve_family.h"
#include "trireme/config/synthetic.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::config {
namespace {

// Rotary positions turn pairs of channels on each of three axes, or on two.
void check_turned_heads(const Vision& vision) {
  const std::int64_t width = vision.hidden / vision.heads;
  if (vision.positions == Positions::kLearned) return;
  if (vision.positions == Positions::kLearnedRotary) {
    if (width % 4 != 0)
      fail(ErrorKind::kUsage,
           "vision.hidden={} / vision.heads={} = {} per head: rotary positions over row and column "
           "need a multiple of 4; change one, or set vision.positions=learned",
           vision.hidden, vision.heads, width);
    return;
  }
  if (width % 2 != 0 || width < 6)
    fail(ErrorKind::kUsage,
         "vision.hidden={} / vision.heads={} = {} per head: rotary positions over time, row and "
         "column need an even number of 6 or more; change one, or set vision.positions=learned",
         vision.hidden, vision.heads, width);
}

// Of a frame.
void check_position_table(const Vision& vision) {
  if (vision.position_grid > 0 && !has_position_table(vision))
    fail(ErrorKind::kUsage,
         "vision.position_grid={}: rotary positions have no table; leave it out, or set "
         "vision.positions=learned or learned_rotary",
         vision.position_grid);
  const bool flat = vision.position_grid > 0 || vision.positions == Positions::kLearnedRotary;
  if (flat && vision.frames != vision.tubelet)
    fail(ErrorKind::kUsage,
         "vision.position_grid={}, vision.positions={}: the grid has positions of rows and columns "
         "only, not for vision.frames={} / vision.tubelet={} tokens of time; set vision.frames={}, "
         "or vision.positions=learned and vision.position_grid=0",
         vision.position_grid,
         vision.positions == Positions::kLearnedRotary ? "learned_rotary" : "learned",
         vision.frames, vision.tubelet, vision.tubelet);
  if (vision.position_grid > 0 && vision.pooling == Pooling::kClass)
    fail(ErrorKind::kUsage,
         "vision.position_grid={}: a class token has no place in a grid that is resampled; set "
         "vision.position_grid=0 or vision.pooling=mean",
         vision.position_grid);
}

}  // namespace

void must_divide(std::string_view whole, std::int64_t value, std::string_view part,
                 std::int64_t divisor) {
  if (value % divisor != 0)
    fail(ErrorKind::kUsage, "{}={} is not divisible by {}={}; nearest that work: {}", whole, value,
         part, divisor, nearest_multiples(whole, value, divisor));
}

void check_shared(const Job& job, std::string_view key, std::int64_t count) {
  if (job.parallel.tp > count)
    fail(ErrorKind::kUsage,
         "parallel.tp={} is more than {}={}; a rank needs at least one: parallel.tp={} or less",
         job.parallel.tp, key, count, count);
}

void check_reads(const Job& job, DataSource made, DataSource files, std::string_view what) {
  if (job.data.source != made && job.data.source != files)
    fail(ErrorKind::kUsage, "data.source: family {} reads {}; set data.source={} or {}",
         name(job.model.family), what, synthetic_source(made)->name, files_of(files));
}

void resolve_vision(Vision& vision) {
  must_divide("vision.image", vision.image, "vision.patch", vision.patch);
  must_divide("vision.frames", vision.frames, "vision.tubelet", vision.tubelet);
  must_divide("vision.hidden", vision.hidden, "vision.heads", vision.heads);
  check_turned_heads(vision);
  check_position_table(vision);
  if (vision.ffn == 0) vision.ffn = 4 * vision.hidden;
}

bool has_position_table(const Vision& vision) {
  return vision.positions == Positions::kLearned || vision.positions == Positions::kLearnedRotary;
}

void resolve_classes(Vision& vision, const DatasetFacts& data) {
  if (vision.classes == 0) vision.classes = data.classes;
  if (vision.classes == 0)
    fail(
        ErrorKind::kUsage,
        "vision.classes=0 uses the number of class names, and the data have none (classes are only "
        "numbers, or files are missing); set vision.classes");
  if (vision.classes < data.classes)
    fail(ErrorKind::kUsage,
         "vision.classes={} is less than the {} classes of the data; set vision.classes={} (or 0)",
         vision.classes, data.classes, data.classes);
}

void check_text_keys(const Job& job) {
  const Data plain;
  const auto refuse = [&](std::string_view key, std::string_view value, std::string_view why) {
    fail(ErrorKind::kUsage, "{}={}: {}; leave it out", key, value, why);
  };
  const std::string_view files = files_of(job.data.source);
  if (!files.empty() && job.data.path.empty())
    fail(ErrorKind::kUsage,
         "data.source={} reads files; set data.path to their directory, list or shards "
         "(docs/data.md)",
         files);
  if (files.empty() && !job.data.path.empty())
    refuse("data.path", job.data.path, "the samples of data.source are generated during training");
  if (job.data.tokenizer != plain.tokenizer)
    refuse("data.tokenizer", job.data.tokenizer, "captions and questions use bytes as tokens");
  if (job.data.documents) refuse("data.documents", "true", "samples are not cut from documents");
  if (job.recompute.logits && info(job).decoder == DecoderBlock::kNone)
    refuse("recompute.logits", "true",
           fmt::format("family {} has no output layer over a vocabulary", name(job.model.family)));
}

bool couples_batch(const Job& job) {
  const auto couples = info(job).couples_batch;
  return couples != nullptr && couples(job);
}

bool caches_gradients(const Job& job) {
  return couples_batch(job) && job.run.micro_batch * dp(job) < job.run.global_batch;
}

std::int64_t samples_of_loss(const Job& job) {
  return caches_gradients(job) ? job.run.global_batch / dp(job) : job.run.micro_batch;
}

namespace {

bool forwards_first(const Parallel& parallel) {
  return schedules::info(schedules::schedule_of(parallel.schedule).value()).forwards_first;
}

}  // namespace

void check_coupled_batch(const Job& job) {
  if (!caches_gradients(job) || !job.parallel.schedule_file.empty() || forwards_first(job.parallel))
    return;
  const Run& run = job.run;
  const std::int64_t seen = run.micro_batch * dp(job);
  fail(ErrorKind::kUsage,
       "run.global_batch={}, but run.micro_batch={} x dp={} (dp_replicate={} x dp_shard={}) = {}. "
       "{} the whole global batch of {} micro-batches a rank, but parallel.schedule={} has "
       "backwards before the last forward. Set parallel.schedule={}, run.micro_batch={} or "
       "run.global_batch={}",
       run.global_batch, run.micro_batch, dp(job), job.parallel.dp_replicate, job.parallel.dp_shard,
       seen, info(job).couples, accumulation(job), job.parallel.schedule,
       schedules::names_where(
           [](const schedules::ScheduleInfo& other) { return other.forwards_first; }),
       std::max<std::int64_t>(1, run.global_batch / dp(job)), seen);
}

}  // namespace trireme::config
