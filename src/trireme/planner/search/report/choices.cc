#include "trireme/planner/search/report/choices.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trireme/plan/schedules/info.h"

namespace trireme::planner {
namespace {

using Layouts = std::vector<Layout>;

bool always(const Layout&) { return true; }

template <auto kMember>
std::string number(const Layout& layout) {
  return std::to_string(layout.*kMember);
}
std::string zero_text(const Layout& layout) { return fmt::format("ZeRO-{}", layout.zero); }
std::string sequence_text(const Layout& layout) { return layout.sequence_parallel ? "on" : "off"; }
std::string recomputed_text(const Layout& layout) { return std::string(text(layout.recomputed)); }

template <auto kMember>
bool equal(const Layout& one, const Layout& twin) {
  return one.*kMember == twin.*kMember;
}

Layouts nothing_around(const Layout&, const Surroundings&) { return {}; }

// The next divisors of the world below and above, as a degree.
template <auto kDegree>
Layouts degrees_around(const Layout& layout, const Surroundings&) {
  Layouts near;
  const auto offer = [&](int degree) {
    Layout other = layout;
    other.*kDegree = degree;
    const int ranks = other.pp * other.cp * other.tp;
    if (layout.world() % ranks != 0) return;
    const int dp = layout.world() / ranks;
    const bool keeps_shards = other.dp_replicate > 1 && dp % other.dp_shard == 0;
    other.dp_replicate = keeps_shards ? dp / other.dp_shard : 1;
    if (!keeps_shards) other.dp_shard = dp;
    near.push_back(other);
  };
  const auto divides = [&](int degree) { return layout.world() % degree == 0; };
  int below = layout.*kDegree - 1, above = layout.*kDegree + 1;
  while (below >= 1 && !divides(below)) --below;
  while (above <= layout.world() && !divides(above)) ++above;
  if (below >= 1) offer(below);
  if (above <= layout.world()) offer(above);
  return near;
}

std::string shards_heading(const Layout& layout) {
  return layout.dp_replicate > 1
             ? fmt::format("shards over {} of {} data-parallel ranks", layout.dp_shard, layout.dp())
             : fmt::format("shards over all {} data-parallel ranks", layout.dp());
}

bool same_shards(const Layout& one, const Layout& twin) {
  return one.zero > 0 && one.dp() == twin.dp() && one.dp_shard == twin.dp_shard;
}

// All ranks, and the next smaller shards that divide them.
Layouts shards_around(const Layout& layout, const Surroundings&) {
  Layout other = layout;
  other.dp_shard = layout.dp();
  other.dp_replicate = 1;
  Layouts near = {other};
  int shard = layout.dp_shard / 2;
  while (shard >= 2 && layout.dp() % shard != 0) shard /= 2;
  if (shard < 2) return near;
  other.dp_shard = shard;
  other.dp_replicate = layout.dp() / shard;
  near.push_back(other);
  return near;
}

// The stages next to it, and all of them.
Layouts zero_around(const Layout& layout, const Surroundings&) {
  Layouts near;
  for (const int zero : {0, 1, 2, 3}) {
    if (std::abs(zero - layout.zero) != 1 && (zero != 3 || layout.zero >= 3)) continue;
    Layout other = layout;
    other.zero = static_cast<std::uint8_t>(zero);
    other.dp_shard = zero == 0 ? layout.dp() : layout.dp_shard;
    other.dp_replicate = zero == 0 ? 1 : layout.dp_replicate;
    near.push_back(other);
  }
  return near;
}

bool same_sequence(const Layout& one, const Layout& twin) {
  return one.tp > 1 && one.sequence_parallel == twin.sequence_parallel;
}

Layouts sequence_around(const Layout& layout, const Surroundings&) {
  Layout other = layout;
  other.sequence_parallel = !layout.sequence_parallel;
  return {other};
}

bool same_schedule(const Layout& one, const Layout& twin) {
  return one.pp > 1 && one.schedule == twin.schedule && one.chunks == twin.chunks;
}

Layouts schedules_around(const Layout& layout, const Surroundings& surroundings) {
  Layouts near;
  const auto micro_batches = static_cast<int>(surroundings.screen.micro_batches(layout));
  for (int index = 0; index < schedules::kScheduleCount; ++index) {
    const auto schedule = static_cast<schedules::Schedule>(index);
    const schedules::ScheduleInfo& row = schedules::info(schedule);
    if (!row.compared || (row.takes != nullptr && !row.takes(layout.pp, micro_batches))) continue;
    Layout other = layout;
    other.schedule = schedule;
    other.chunks = row.more_chunks ? std::max(row.chunks, layout.chunks) : row.chunks;
    if (std::int64_t{other.pp} * other.chunks <= surroundings.screen.nodes()) near.push_back(other);
  }
  return near;
}

// The next divisors of a rank's share of the batch below and above.
Layouts micro_batches_around(const Layout& layout, const Surroundings& surroundings) {
  Layouts near;
  const std::int64_t share = surroundings.question.job.run.global_batch / layout.dp();
  const auto offer = [&](int size) {
    Layout other = layout;
    other.micro_batch = size;
    near.push_back(other);
  };
  int below = layout.micro_batch - 1, above = layout.micro_batch + 1;
  while (below >= 1 && share % below != 0) --below;
  while (above <= share && share % above != 0) ++above;
  if (below >= 1) offer(below);
  if (above <= share) offer(above);
  return near;
}

// The nearest that can be, less and more.
Layouts recomputed_around(const Layout& layout, const Surroundings& surroundings) {
  Layouts near;
  for (const int step : {-1, 1}) {
    Layout other = layout;
    for (int at = static_cast<int>(layout.recomputed) + step;
         at >= 0 && at <= static_cast<int>(Recomputed::kBlocks); at += step) {
      other.recomputed = static_cast<Recomputed>(at);
      if (!can_recompute(surroundings.screen.alone(), other.recomputed)) continue;
      near.push_back(other);
      break;
    }
  }
  return near;
}

Layouts away_around(const Layout& layout, const Surroundings&) {
  Layout other = layout;
  other.away = Away::kNothing;
  return {other};
}

constexpr ChoiceRow kRows[] = {
    {Choice::kTp, "tp", number<&Layout::tp>, "parallel.tp", "tp", always, nullptr,
     equal<&Layout::tp>, degrees_around<&Layout::tp>},
    {Choice::kPp, "pp", number<&Layout::pp>, "parallel.pp", "pp", always, nullptr,
     equal<&Layout::pp>, degrees_around<&Layout::pp>},
    {Choice::kCp, "cp", number<&Layout::cp>, "parallel.cp", "cp", always, nullptr,
     equal<&Layout::cp>, degrees_around<&Layout::cp>},
    {Choice::kDp, "dp", [](const Layout& l) { return std::to_string(l.dp()); }, "", nullptr,
     [](const Layout& l) { return l.dp() > 1; }, nullptr,
     [](const Layout& one, const Layout& twin) { return one.dp() == twin.dp(); }, nothing_around},
    {Choice::kShards, "shards", number<&Layout::dp_shard>, "parallel.dp_shard", nullptr,
     [](const Layout& l) { return l.zero > 0 && l.dp() > 1; }, shards_heading, same_shards,
     shards_around},
    {Choice::kZero, "zero", zero_text, "parallel.zero", "",
     [](const Layout& l) { return l.dp() * l.cp > 1; }, zero_text, equal<&Layout::zero>,
     zero_around},
    {Choice::kSequence, "sequence_parallel", sequence_text, "parallel.sequence_parallel", nullptr,
     [](const Layout& l) { return l.tp > 1; },
     [](const Layout& l) { return "sequence parallelism " + sequence_text(l); }, same_sequence,
     sequence_around},
    {Choice::kSchedule, "schedule", schedule_text, "parallel.schedule", "",
     [](const Layout& l) { return l.pp > 1; }, schedule_text, same_schedule, schedules_around},
    {Choice::kMicroBatch, "micro_batch", number<&Layout::micro_batch>, "run.micro_batch",
     "micro-batch", always,
     [](const Layout& l) { return fmt::format("micro-batch {}", l.micro_batch); },
     equal<&Layout::micro_batch>, micro_batches_around},
    {Choice::kRecomputed, "recompute", recomputed_text, "recompute.", "recompute", always, nullptr,
     equal<&Layout::recomputed>, recomputed_around},
    {Choice::kAway, "offload", [](const Layout& l) { return std::string(text(l.away)); },
     "offload.", nullptr, [](const Layout& l) { return l.away != Away::kNothing; },
     [](const Layout& l) { return fmt::format("in host memory {}", text(l.away)); },
     equal<&Layout::away>, away_around},
    // Its reason is the search's.
    {Choice::kGpus, "gpus", [](const Layout& l) { return std::to_string(l.world()); }, "", nullptr,
     [](const Layout&) { return false; }, nullptr,
     [](const Layout& one, const Layout& twin) { return one.world() == twin.world(); },
     nothing_around},
};
static_assert(std::ranges::all_of(kRows, [at = 0](const ChoiceRow& row) mutable {
  return static_cast<int>(row.choice) == at++;
}));

}  // namespace

std::span<const ChoiceRow> choice_rows() { return kRows; }
std::string_view name(Choice choice) { return kRows[static_cast<int>(choice)].name; }
std::string value(const Layout& layout, Choice choice) {
  return kRows[static_cast<int>(choice)].value(layout);
}

}  // namespace trireme::planner
