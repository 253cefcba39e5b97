#include "trireme/plan/simulate/footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "trireme/base/hash.h"
#include "trireme/base/text.h"
#include "trireme/plan/binary_counter.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/text/text.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::simulate {
namespace {

using plan::MemoryKind;
using plan::MemoryPoint;

constexpr std::size_t kColumns = 96;

std::int64_t total(const MemoryPoint& point) {
  return std::accumulate(point.begin(), point.end(), std::int64_t{0});
}

std::int64_t& host_of(MemoryPoint& point) {
  return point[static_cast<std::size_t>(MemoryKind::kHost)];
}

// Without what waits in host memory, unless that is the memory in question.
MemoryPoint counted(const Footprint& one, MemoryPoint point) {
  if (!one.host) host_of(point) = 0;
  return point;
}

MemoryPoint at_peak(const Footprint& one) {
  const plan::MemoryAccount& account = one.account;
  return counted(one,
                 account.peak_line < 0 ? account.persistent : account.at_line[account.peak_line]);
}

// Maximum of live bytes in each of `columns` equal ranges of the list.
std::vector<std::int64_t> stretches(const Footprint& one, std::size_t columns) {
  const std::size_t lines = one.account.at_line.size();
  std::vector<std::int64_t> most(std::min(columns, lines));
  for (std::size_t line = 0; line < lines; ++line) {
    std::int64_t& here = most[line * most.size() / lines];
    here = std::max(here, total(counted(one, one.account.at_line[line])));
  }
  return most;
}

std::string picture(const Footprint& one) {
  constexpr const char* kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  const std::int64_t peak = std::max<std::int64_t>(1, one.account.peak_in_memory(one.host));
  for (const std::int64_t bytes : stretches(one, kColumns))
    text += kLevels[std::min<std::int64_t>(7, 8 * bytes / peak)];
  return text;
}

std::string peak_text(const plan::PlanSet& plan, const Footprint& one) {
  if (one.account.peak_line < 0) return "before its first line";
  plan::Instr line = plan.list(one.ranks.front())[one.account.peak_line];
  line.after.clear();
  return fmt::format("line {} `{}`", one.account.peak_line, plan::line_text(plan.program, line));
}

std::string row(const std::string& what, std::int64_t between, std::int64_t most, std::int64_t at) {
  const auto bytes = [](std::int64_t count) { return bytes_text(static_cast<double>(count)); };
  return fmt::format("  {:<20}{:>14}{:>14}{:>14}\n", what, bytes(between), bytes(most), bytes(at));
}

std::string one_text(const plan::PlanSet& plan, const Footprint& one) {
  const plan::MemoryAccount& account = one.account;
  const MemoryPoint between = counted(one, account.persistent), peak = at_peak(one);
  const MemoryPoint most = counted(one, account.peak);
  std::string text = fmt::format(
      "\n{:<22}{:>14}{:>14}{:>14}\n",
      fmt::format("rank{} {}", one.ranks.size() == 1 ? "" : "s", plan::ranges_text(one.ranks)),
      "between steps", "maximum", "at the peak");
  for (std::size_t kind = 0; kind < peak.size(); ++kind)
    if (most[kind] > 0)
      text += row(std::string(name(static_cast<MemoryKind>(kind))), between[kind], most[kind],
                  peak[kind]);
  text += row(one.measured ? "library (measured)" : "library (constant)", one.library, one.library,
              one.library);
  if (one.samples > 0) text += row("samples", one.samples, one.samples, one.samples);
  if (one.snapshot > 0) text += row("snapshot", one.snapshot, one.snapshot, one.snapshot);
  if (one.kept > 0) text += row("kept snapshots", one.kept, one.kept, one.kept);
  const std::int64_t idle = total(between) + one.library + one.samples + one.snapshot + one.kept;
  text += row("needed", idle, one.needed(), one.needed());
  if (one.expected_peak > 0) text += row("expected", idle, one.expected(), one.expected());
  const std::int64_t elsewhere = account.peak_total - total(peak);
  if (elsewhere > 0) text += row("in host memory", elsewhere, elsewhere, elsewhere);
  return text + fmt::format("  peak at {}\n  step {}\n", peak_text(plan, one), picture(one));
}

MemoryKind largest_kind(const MemoryPoint& point) {
  return static_cast<MemoryKind>(std::ranges::max_element(point) - point.begin());
}

bool recomputes(const plan::Program& program) {
  return std::ranges::any_of(program.nodes,
                             [](const plan::Node& node) { return node.segment >= 0; });
}

bool keeps_logits(const plan::Program& program) {
  return std::ranges::any_of(program.nodes, [](const plan::Node& node) {
    return std::ranges::any_of(node.parts, [](const plan::Part& part) {
      return part.name == "logits" && part.saved_bytes > 0 && !part.recomputed;
    });
  });
}

// State that could be offloaded and is not; averages need both parameters and states.
std::string offloading(const plan::PlanSet& plan, plan::TensorKind tensors,
                       const std::string& key) {
  const bool averages = std::ranges::any_of(
      plan.program.units, [](const plan::Unit& unit) { return unit.ema_of >= 0; });
  const bool possible = tensors == plan::TensorKind::kGrads || !averages;
  return possible && tier_of(plan.recipe.offload, tensors) == plan::Tier::kNone
             ? fmt::format(", or offload.{}=nvme", key)
             : "";
}

// What makes less of a kind.
std::string advice(const plan::PlanSet& plan, MemoryKind kind) {
  const plan::Recipe& recipe = plan.recipe;
  const std::string more_ranks = "more ranks to share it (parallel.dp_shard, tp or pp)";
  const std::string smaller = "a smaller run.micro_batch, or more parallel.tp or cp";
  const auto row_of_zero = [&](int zero) {
    return recipe.zero < zero && plan::has_shards(plan.mesh, plan.program)
               ? fmt::format("parallel.zero={}", zero)
           : recipe.zero < zero ? fmt::format("parallel.zero={} on several ranks", zero)
                                : more_ranks;
  };
  switch (kind) {
    case MemoryKind::kParams:
      return row_of_zero(3) + offloading(plan, plan::TensorKind::kParams, "params");
    case MemoryKind::kOptimizer:
      return row_of_zero(1) + offloading(plan, plan::TensorKind::kStates, "optimizer");
    case MemoryKind::kGradients:
      return (plan::most_sums(recipe.micro_batches, plan::summed_in_row(recipe)) > 1
                  ? fmt::format("precision.group={}, or ", recipe.micro_batches)
                  : "") +
             row_of_zero(2) + offloading(plan, plan::TensorKind::kGrads, "grads");
    case MemoryKind::kUnitBuffers: return "more parallel.tp or pp";
    case MemoryKind::kCommBuffers:
      return "precision.reduce as precision.grads, or more parallel.tp or pp";
    case MemoryKind::kActivations:
      return recomputes(plan.program) ? smaller
                                      : "recompute.policy=full, or a smaller run.micro_batch";
    case MemoryKind::kWork:
      return (keeps_logits(plan.program) ? "recompute.logits=true, " : "") + smaller;
    case MemoryKind::kStaging: return more_ranks;
    case MemoryKind::kHost: return "offload to nvme, or " + more_ranks;
  }
  return "";
}

}  // namespace

std::vector<Footprint> footprints(const plan::PlanSet& plan, std::int64_t library, bool host) {
  std::vector<Footprint> lists(plan.lists.size());
  for (std::size_t rank = 0; rank < plan.list_of_rank.size(); ++rank)
    lists[plan.list_of_rank[rank]].ranks.push_back(static_cast<int>(rank));
  for (Footprint& one : lists) {
    one.account = plan::memory_account(plan, one.ranks.front());
    one.library = library;
    one.host = host;
  }
  return lists;
}

const Footprint& largest(const std::vector<Footprint>& lists) {
  return *std::ranges::max_element(lists, {}, &Footprint::needed);
}

std::string needed_text(const Footprint& one) {
  const std::string bound = bytes_text(static_cast<double>(one.needed()));
  if (one.expected_peak == 0) return bound;
  return fmt::format("at most {} ({} expected)", bound,
                     bytes_text(static_cast<double>(one.expected())));
}

std::string footprint_text(const plan::PlanSet& plan, const std::vector<Footprint>& lists) {
  const int world = plan.mesh.world();
  const Footprint& most = largest(lists);
  std::string text = fmt::format("memory of {} on {} rank{}, plan {}: rank {} needs most, {}\n",
                                 plan.program.name, world, world == 1 ? "" : "s",
                                 hex64(plan::digest(plan)), most.ranks.front(), needed_text(most));
  for (const Footprint& one : lists) text += one_text(plan, one);
  return text;
}

Json footprint_json(const plan::PlanSet& plan, const std::vector<Footprint>& lists) {
  Json json{{"plan", plan.program.name},
            {"digest", hex64(plan::digest(plan))},
            {"world", plan.mesh.world()},
            {"needed_bytes", largest(lists).needed()},
            {"lists", Json::array()}};
  for (const Footprint& one : lists) {
    const plan::MemoryAccount& account = one.account;
    const MemoryPoint peak = at_peak(one);
    Json item{{"ranks", one.ranks},
              {"peak_total_bytes", account.peak_in_memory(one.host)},
              {"peak_line", account.peak_line},
              {"library_bytes", one.library},
              {"library_measured", one.measured},
              {"samples_bytes", one.samples},
              {"snapshot_bytes", one.snapshot},
              {"kept_bytes", one.kept},
              {"needed_bytes", one.needed()},
              {"expected_bytes", one.expected_peak > 0 ? one.expected() : one.needed()},
              {"over_step_bytes", stretches(one, kColumns)}};
    for (std::size_t kind = 0; kind < peak.size(); ++kind)
      item["kinds"][std::string(name(static_cast<MemoryKind>(kind)))] = {
          {"persistent_bytes", account.persistent[kind]},
          {"most_bytes", account.peak[kind]},
          {"at_peak_bytes", peak[kind]}};
    // Of another memory than the rest, it adds nothing at the peak.
    item["kinds"]["host"]["counts"] = one.host;
    json["lists"].push_back(std::move(item));
  }
  return json;
}

std::optional<std::string> misfit(const plan::PlanSet& plan, const std::vector<Footprint>& lists,
                                  std::int64_t allowed) {
  const Footprint& most = largest(lists);
  if (most.needed() <= allowed) return std::nullopt;
  const auto bytes = [](std::int64_t count) { return bytes_text(static_cast<double>(count)); };
  const std::string need = fmt::format("rank {} needs {}, {} is allowed", most.ranks.front(),
                                       needed_text(most), bytes(allowed));
  if (most.library > allowed)
    return fmt::format("{}; without any tensor it is {}: allow more", need, bytes(most.library));
  const MemoryPoint peak = at_peak(most);
  const MemoryKind kind = largest_kind(peak);
  const std::int64_t of_kind = peak[static_cast<std::size_t>(kind)];
  if (most.samples > std::max({of_kind, most.snapshot, most.kept}))
    return fmt::format(
        "{}; most of it are samples read ahead of the next step with {}: {} would help", need,
        bytes(most.samples), "a smaller run.global_batch, or more data-parallel ranks");
  if (most.kept > std::max(of_kind, most.snapshot))
    return fmt::format("{}; most of it are snapshots kept in memory with {}: {} would help", need,
                       bytes(most.kept), "checkpoint.memory_every=0, or more ranks on more hosts");
  if (most.snapshot > of_kind)
    return fmt::format("{}; most of it is the snapshot of checkpoints with {}: {} would help", need,
                       bytes(most.snapshot), "checkpoint.async=false");
  return fmt::format("{}; the largest kind is {} with {}: {} would help", need, name(kind),
                     bytes(of_kind), advice(plan, kind));
}

}  // namespace trireme::simulate
