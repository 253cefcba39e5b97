#include "trireme/plan/text/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "trireme/base/hash.h"
#include "trireme/base/text.h"
#include "trireme/plan/actions.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/fold.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/compile/recompute.h"
#include "trireme/plan/text/communications.h"
#include "trireme/plan/text/recipe_lines.h"
#include "trireme/plan/text/text.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_types.h"
#include "trireme/plan/verbs.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

constexpr std::size_t kColumns = 110;

// A row of the table of units: one unit, or several equal ones.
struct UnitRow {
  std::string names;
  int count = 1;
  std::int64_t numel = 0;
  std::int64_t stepped = 0;  // by a rank
  std::string role;
};

// "block0..5" for names that count, "embed .. norm" for others.
std::string together(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  const std::vector<std::string> folded = fold(names);
  const std::string prefix = fmt::format("{}x[", names.size());
  if (folded.size() > 1 || !folded[0].starts_with(prefix))
    return names.front() + " .. " + names.back();
  return folded[0].substr(prefix.size(), folded[0].size() - prefix.size() - 1);
}

std::vector<UnitRow> unit_rows(const PlanSet& plan) {
  const Program& program = plan.program;
  // Units of one size and role fold by their names.
  std::vector<UnitRow> rows;
  for (std::size_t first = 0; first < program.units.size();) {
    const auto role = [&](const Unit& unit) -> std::string {
      if (unit.ema_of >= 0) return "average";
      const std::string type = unit.type ? fmt::format(", {}", name(*unit.type)) : "";
      return (unit.trainable ? "trainable" : "frozen") + type;
    };
    std::size_t end = first + 1;
    const Unit& unit = program.units[first];
    while (end < program.units.size() && program.units[end].numel == unit.numel &&
           role(program.units[end]) == role(unit))
      ++end;
    std::vector<std::string> names;
    for (std::size_t i = first; i < end; ++i) names.push_back(program.units[i].name);
    rows.push_back({.names = together(names),
                    .count = static_cast<int>(end - first),
                    .numel = unit.numel,
                    .stepped = share_of(plan, static_cast<UnitId>(first)).part,
                    .role = role(unit)});
    first = end;
  }
  return rows;
}

std::string units_text(const PlanSet& plan) {
  constexpr std::size_t kRows = 8;
  const std::vector<UnitRow> rows = unit_rows(plan);
  std::string text = fmt::format("\n{:<40} {:>6} {:>16} {:>16}  {}\n", "units", "count",
                                 plan.mesh.degree(Axis::kTp) > 1 ? "here, under tp" : "parameters",
                                 "stepped by a rank", "");
  std::int64_t total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    total += rows[i].count * rows[i].numel;
    if (i >= kRows) continue;
    text += fmt::format("  {:<38.38} {:>6} {:>16} {:>16}  {}\n", rows[i].names, rows[i].count,
                        grouped_text(rows[i].numel), grouped_text(rows[i].stepped), rows[i].role);
  }
  if (rows.size() > kRows) text += fmt::format("  and {} rows more\n", rows.size() - kRows);
  return text + fmt::format("  {:<38} {:>6} {:>16}\n", "all", plan.program.units.size(),
                            grouped_text(total));
}

std::string communication_text(const PlanSet& plan, int rank) {
  const std::vector<Communication> all = communications(plan, rank);
  std::size_t width = 38;
  for (const Communication& one : all) width = std::max(width, one.what.size());
  std::string text =
      fmt::format("\n{:<{}} {:>6} {:>16}\n", fmt::format("communication of rank {}, a step", rank),
                  width + 2, "count", "payload");
  for (const Communication& one : all)
    text +=
        fmt::format("  {:<{}} {:>6} {:>16}\n", one.what, width, one.count, bytes_text(one.bytes));
  return text;
}

std::string memory_text(const PlanSet& plan, int rank, const MemoryAccount& account) {
  std::string kinds, persistent, peak;
  std::int64_t sum = 0;
  for (std::size_t kind = 0; kind < account.peak.size(); ++kind) {
    const bool always = kind <= static_cast<std::size_t>(MemoryKind::kActivations);
    if (!always && account.peak[kind] == 0) continue;
    kinds += fmt::format("{:>13}", name(static_cast<MemoryKind>(kind)));
    persistent += fmt::format("{:>13}", bytes_text(static_cast<double>(account.persistent[kind])));
    peak += fmt::format("{:>13}", bytes_text(static_cast<double>(account.peak[kind])));
    sum += account.persistent[kind];
  }
  std::string text =
      fmt::format("\n{:<19}{}{:>13}\n", fmt::format("memory of rank {}", rank), kinds, "together");
  text += fmt::format("  {:<17}{}{:>13}\n", "between steps", persistent,
                      bytes_text(static_cast<double>(sum)));
  text += fmt::format("  {:<17}{}{:>13}\n", "largest in a step", peak,
                      bytes_text(static_cast<double>(account.peak_total)));
  if (account.peak_line >= 0) {
    Instr line = plan.list(rank)[account.peak_line];
    line.after.clear();
    text += fmt::format("  largest together at line {} `{}`; model states {}\n", account.peak_line,
                        line_text(plan.program, line),
                        bytes_text(static_cast<double>(account.model_states)));
  }
  return text;
}

// "F0(embed)": verb, micro-batch, subject.
std::string compact(const Program& program, const Instr& line) {
  std::string text(1, info(line.verb).letter);
  const bool joint = line.node >= 0 && program.nodes[line.node].joint;
  if (line.mb >= 0 && !joint) text += std::to_string(line.mb);
  if (line.node >= 0) text += "(" + program.nodes[line.node].name + ")";
  const std::string tensors =
      line.tensors == TensorKind::kNone ? "" : " " + std::string(name(line.tensors));
  if (line.unit >= 0) text += "(" + program.units[line.unit].name + tensors + ")";
  if (line.value >= 0)
    text += "(" + program.values[line.value].name + (line.gradient ? "'" : "") + ")";
  return text;
}

// The list in compact notation, wrapped.
std::string step_text(const PlanSet& plan, std::size_t list, std::size_t most_lines) {
  std::vector<std::string> words;
  for (const Instr& line : plan.lists[list]) words.push_back(compact(plan.program, line));
  std::string folded;
  for (const std::string& word : fold(words)) folded += (folded.empty() ? "" : " ") + word;
  std::string text;
  std::size_t lines = 0;
  while (!folded.empty()) {
    if (++lines > most_lines) return text + "  ... (all lines: --rank)\n";
    std::size_t end = folded.size();
    if (end > kColumns - 2) {
      end = folded.rfind(' ', kColumns - 2);
      if (end == std::string::npos) end = kColumns - 2;
    }
    text += "  " + folded.substr(0, end) + "\n";
    folded.erase(0, end);
    folded.erase(0, std::min(folded.find_first_not_of(' '), folded.size()));
  }
  return text;
}

std::string steps_text(const PlanSet& plan) {
  constexpr std::size_t kLists = 2;
  std::string text =
      "\nstep: L load, U unshard, - reshard, F forward, C recompute, B backward, G reduce_grads, N "
      "grad_norm,\n"
      "      O step, E ema, S send, R recv, T sync_tied; numbers are "
      "micro-batches\n";
  if (plan.recipe.matrix_rounds > 0) text += "      X exchange_update, P update_matrices\n";
  if (plan.recipe.offload.any()) text += "      < comes back into memory, > leaves it\n";
  for (std::size_t list = 0; list < std::min(kLists, plan.lists.size()); ++list) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < plan.list_of_rank.size(); ++rank)
      if (plan.list_of_rank[rank] == static_cast<int>(list))
        ranks.push_back(static_cast<int>(rank));
    text += fmt::format("  ranks {}, {} lines:\n", ranges_text(ranks), plan.lists[list].size());
    text += step_text(plan, list, plan.lists.size() == 1 ? 12 : 5);
  }
  if (plan.lists.size() > kLists)
    text += fmt::format("  and {} lists more\n", plan.lists.size() - kLists);
  return text;
}

std::string forecast_text(const PlanSet& plan, const StepNumbers& numbers) {
  if (numbers.step_s == 0) return fmt::format("forecast  {}\n", numbers.source);
  const bool pipeline = plan.mesh.degree(Axis::kPp) > 1;
  const std::string offload =
      numbers.exposed_offload_s > 0
          ? fmt::format(", exposed offload {}", seconds_text(numbers.exposed_offload_s))
          : "";
  std::string text = fmt::format(
      "forecast  step {}: compute {}, exposed communication {}{}, idle {:.1f}%; a rank sends {}\n",
      seconds_text(numbers.step_s), seconds_text(numbers.comp_busy_s),
      seconds_text(numbers.exposed_comm_s), offload, 100 * numbers.bubble_fraction,
      bytes_text(numbers.sent_bytes));
  if (numbers.host_ranks > 0)
    text += fmt::format("          a host of {} sends {} to other hosts\n",
                        counted(numbers.host_ranks, "rank"), bytes_text(numbers.crossing_bytes));
  if (codes_each_micro_batch(plan.mesh, plan.recipe))
    text += fmt::format(
        "          as codes of {}; HSDP (dp_replicate = hosts) sends them once a step\n",
        plan.recipe.micro_batches > 1
            ? fmt::format("each of {} micro-batches", plan.recipe.micro_batches)
            : "one micro-batch");
  if (numbers.high_s > 0)
    text += fmt::format("          four of five steps within {} to {}, {}\n",
                        seconds_text(numbers.low_s), seconds_text(numbers.high_s), numbers.source);
  else if (!numbers.source.empty())
    text += fmt::format("          {}\n", numbers.source);
  if (!numbers.bound.empty()) text += numbers.bound + "\n";
  if (pipeline)
    text += fmt::format("bubble    {:.1f}% of the pipeline; exposed transfers {}, collectives {}\n",
                        100 * numbers.pipeline_bubble, seconds_text(numbers.exposed_transfers_s),
                        seconds_text(numbers.exposed_comm_s - numbers.exposed_transfers_s));
  return text;
}

bool splits(const PlanSet& plan) {
  return std::ranges::any_of(plan.lists, [](const List& list) {
    return std::ranges::find(list, Verb::kBackwardInput, &Instr::verb) != list.end();
  });
}

// Stages and schedule below the rest of the screen.
std::string pipeline_text(const PlanSet& plan, const StepNumbers& numbers,
                          const std::string& above) {
  constexpr int kLines = 50, kMost = 16, kHeads = 5;
  const auto used = static_cast<int>(std::ranges::count(above, '\n'));
  const int rows = std::clamp((kLines - used - kHeads) / 2, 3, kMost);
  std::string text;
  if (!numbers.stages.empty() && numbers.step_s > 0)
    text += stage_table(plan, numbers.stages, rows);
  text += fmt::format("\nschedule, unit times: {}F forward, B backward{}; micro-batches\n",
                      chunk_count(plan.program) > 1 ? "stage, " : "",
                      splits(plan) ? ", I input backward, W weight backward" : "");
  return text + schedule_text(plan, rows, kColumns);
}

}  // namespace

std::string explain_text(const PlanSet& plan, int rank, const MemoryAccount& account,
                         const StepNumbers& numbers) {
  const int world = plan.mesh.world();
  std::string text = fmt::format("plan      {} on {} rank{}, digest {}\nmesh      {}\nrecipe    {}",
                                 plan.program.name, world, world == 1 ? "" : "s",
                                 hex64(digest(plan)), mesh::print(plan.mesh), recipe_lines(plan));
  text += forecast_text(plan, numbers);
  text += units_text(plan) + communication_text(plan, rank) + memory_text(plan, rank, account);
  return text +
         (plan.mesh.degree(Axis::kPp) > 1 ? pipeline_text(plan, numbers, text) : steps_text(plan));
}

namespace {

Json recipe_json(const PlanSet& plan) {
  const Recipe& recipe = plan.recipe;
  return {{"zero", recipe.zero},
          {"micro_batches", recipe.micro_batches},
          {"prefetch", recipe.prefetch},
          {"recompute", recomputation_text(plan.program)},
          {"canonical", recipe.canonical},
          {"group", recipe.group},
          {"clip", recipe.clip},
          {"schedule", name(recipe.schedule)},
          {"compute", name(recipe.compute)},
          {"master", name(recipe.master)},
          {"grads", name(recipe.grads)},
          {"reduce", name(reduce_type(recipe))},
          {"optimizer_states", recipe.optimizer_states},
          {"int8_states", recipe.int8_states}};
}

}  // namespace

Json explain_json(const PlanSet& plan, int rank, const MemoryAccount& account,
                  const StepNumbers& numbers) {
  Json json;
  json["plan"] = plan.program.name;
  json["digest"] = hex64(digest(plan));
  json["world"] = plan.mesh.world();
  for (Axis axis : mesh::kAllAxes)
    if (axis != Axis::kIsland || plan.mesh.degree(axis) > 1)
      json["mesh"][std::string(name(axis))] = plan.mesh.degree(axis);
  json["recipe"] = recipe_json(plan);
  json["units"] = Json::array();
  for (UnitId id = 0; id < std::ssize(plan.program.units); ++id) {
    const Unit& unit = plan.program.units[id];
    json["units"].push_back({{"name", unit.name},
                             {"parameters", unit.numel},
                             {"on_rank", share_of(plan, id).part},
                             {"trainable", unit.trainable}});
  }
  json["communication"] = Json::array();
  for (const Communication& one : communications(plan, rank))
    json["communication"].push_back(
        {{"what", one.what}, {"count", one.count}, {"payload_bytes", one.bytes}});
  for (std::size_t kind = 0; kind < account.peak.size(); ++kind) {
    const std::string key(name(static_cast<MemoryKind>(kind)));
    json["memory"]["persistent_bytes"][key] = account.persistent[kind];
    json["memory"]["peak_bytes"][key] = account.peak[kind];
  }
  json["memory"]["peak_total_bytes"] = account.peak_total;
  json["memory"]["peak_line"] = account.peak_line;
  json["memory"]["model_states_bytes"] = account.model_states;
  json["forecast"] = {{"step_s", numbers.step_s},
                      {"low_s", numbers.low_s},
                      {"high_s", numbers.high_s},
                      {"source", numbers.source},
                      {"compute_s", numbers.comp_busy_s},
                      {"exposed_communication_s", numbers.exposed_comm_s},
                      {"exposed_transfers_s", numbers.exposed_transfers_s},
                      {"exposed_offload_s", numbers.exposed_offload_s},
                      {"bubble_fraction", numbers.bubble_fraction},
                      {"pipeline_bubble", numbers.pipeline_bubble},
                      {"sent_bytes", numbers.sent_bytes},
                      {"bound", numbers.bound}};
  if (numbers.host_ranks > 0) {
    json["forecast"]["host_ranks"] = numbers.host_ranks;
    json["forecast"]["crossing_bytes"] = numbers.crossing_bytes;
  }
  if (numbers.step_s == 0)  // no time is known
    json["forecast"] = {{"step_s", nullptr}, {"source", numbers.source}};
  json["stages"] = Json::array();
  for (const StageNumbers& stage : numbers.stages)
    json["stages"].push_back(
        {{"busy_s", stage.busy_s}, {"idle_s", stage.idle_s}, {"peak_bytes", stage.peak_bytes}});
  json["lines"] = Json::array();
  for (const List& list : plan.lists) json["lines"].push_back(list.size());
  return json;
}

std::string rank_text(const PlanSet& plan, int rank) {
  const MemoryAccount account = memory_account(plan, rank);
  const List& list = plan.list(rank);
  std::string text = fmt::format("rank {} of {}\n{:>4} {:<4} {:>12} line\n", rank,
                                 plan.mesh.world(), "", "lane", "live");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const MemoryPoint& point = account.at_line[i];
    const std::int64_t live = std::accumulate(point.begin(), point.end(), std::int64_t{0});
    text += fmt::format("{:>4} {:<4} {:>12} {}\n", i, name(list[i].lane),
                        bytes_text(static_cast<double>(live)), line_text(plan.program, list[i]));
  }
  return text;
}

}  // namespace trireme::plan
