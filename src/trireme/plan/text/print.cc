#include <fmt/format.h>

#include <utility>

#include "trireme/base/hash.h"
#include "trireme/plan/text/instr_fields.h"
#include "trireme/plan/text/matrix_text.h"
#include "trireme/plan/text/outer_text.h"
#include "trireme/plan/text/text.h"

namespace trireme::plan {
namespace {

const char* yes_no(bool value) { return value ? "yes" : "no"; }

template <typename Named>
std::string names(const std::vector<Named>& all, const std::vector<int>& ids) {
  std::string text;
  for (int id : ids) text += (text.empty() ? "" : ",") + all[id].name;
  return text;
}

template <typename Named>
std::string name_of(const std::vector<Named>& all, int id) {
  return id >= 0 && id < static_cast<int>(all.size()) ? " " + all[id].name : "";
}

std::string offload_text(const Offload& offload) {
  if (!offload.any()) return "";
  return fmt::format(
      " offload_optimizer={} offload_params={} offload_grads={} offload_activations={} ratio={} "
      "ahead={}",
      name(offload.optimizer), name(offload.params), name(offload.grads), name(offload.activations),
      offload.ratio, offload.prefetch);
}

std::string coded_text(const std::optional<CodedSums>& coded) {
  if (!coded) return "";
  return fmt::format(" codec={} senders={}{}{}{}", codec::print(coded->codec), coded->senders,
                     coded->back ? " back=" + codec::print(*coded->back) : "",
                     coded->residual ? fmt::format(" residual={}", name(*coded->residual)) : "",
                     coded->residuals > 0 ? fmt::format(" residuals={}", coded->residuals) : "");
}

std::string gather_text(const std::optional<CodedGather>& gather) {
  if (!gather) return "";
  return fmt::format(" gather={}{}", codec::print(gather->codec),
                     gather->within > 0 ? fmt::format(" within={}", gather->within) : "");
}

std::string recipe_text(const Recipe& recipe) {
  return fmt::format(
      "recipe zero={} micro_batches={} prefetch={} canonical={} clip={} schedule={} "
      "activation_limit={} transfer={} unsent={} compute={} master={} grads={} "
      "optimizer_states={}{}{}{}{}{}{}{}{}{}{}\n",
      recipe.zero, recipe.micro_batches, recipe.prefetch, yes_no(recipe.canonical),
      yes_no(recipe.clip), name(recipe.schedule), recipe.activation_limit, recipe.transfer,
      recipe.unsent, name(recipe.compute), name(recipe.master), name(recipe.grads),
      recipe.optimizer_states, recipe.group > 1 ? fmt::format(" group={}", recipe.group) : "",
      recipe.gathers_after_step ? " gathers_after_step" : "",
      recipe.matrix_rounds > 0 ? fmt::format(" rounds={}", recipe.matrix_rounds) : "",
      recipe.int8_states ? " int8_states" : "",
      recipe.reduce ? fmt::format(" reduce={}", name(*recipe.reduce)) : "",
      coded_text(recipe.coded), gather_text(recipe.gather), print_outer(recipe.outer),
      recipe.algorithm == algorithm::Kind::kAuto
          ? ""
          : fmt::format(" algorithm={}", name(recipe.algorithm)),
      offload_text(recipe.offload));
}

std::string program_text(const Program& program) {
  std::string text;
  for (const Value& value : program.values)
    text += fmt::format("value {} bytes={}{}{}{}{}{}\n", value.name, value.bytes,
                        value.shape.empty() ? "" : " shape=" + shape_text(value.shape),
                        value.whole ? " whole" : "", value.varies ? " varies" : "",
                        value.type ? fmt::format(" type={}", name(*value.type)) : "",
                        value.differentiable ? "" : " no_gradient");
  for (const Unit& unit : program.units) {
    text +=
        fmt::format("unit {} numel={}{}", unit.name, unit.numel, unit.trainable ? "" : " frozen");
    if (unit.ema_of >= 0) text += fmt::format(" ema_of={}", program.units[unit.ema_of].name);
    if (unit.part_of >= 0) text += fmt::format(" part_of={}", program.units[unit.part_of].name);
    if (unit.tp_partial > 0) text += fmt::format(" tp_partial={}", unit.tp_partial);
    if (unit.type) text += fmt::format(" type={}", name(*unit.type));
    const UnitAxes usual;
    if (unit.axes.shards != usual.shards)
      text += fmt::format(" shards={}", mesh::print(unit.axes.shards));
    if (unit.axes.replicas != usual.replicas)
      text += fmt::format(" replicas={}", mesh::print(unit.axes.replicas));
    if (unit.axes.partial != usual.partial)
      text += fmt::format(" partial={}", mesh::print(unit.axes.partial));
    text += print_updates(unit) + '\n';
  }
  for (const Node& node : program.nodes) {
    text += fmt::format("node {} stage={}", node.name, node.stage);
    if (node.chunk > 0) text += fmt::format(" chunk={}", node.chunk);
    if (node.segment >= 0) text += fmt::format(" segment={}", node.segment);
    if (!node.reads.empty()) text += " reads=" + names(program.values, node.reads);
    if (!node.writes.empty()) text += " writes=" + names(program.values, node.writes);
    if (!node.units.empty()) text += " units=" + names(program.units, node.units);
    text += fmt::format(" saved={} flops={}", node.saved_bytes, node.flops);
    if (node.backward_flops) text += fmt::format(" backward={}", *node.backward_flops);
    if (const NodeWork& work = node.work; work != NodeWork())
      text += fmt::format(" work={}:{}:{}:{}:{}", work.forward, work.passing, work.backward,
                          work.input, work.weight);
    for (const Part& part : node.parts)
      text += fmt::format(" part={}:{}:{}:{}{}{}", part.name, part.saved_bytes, part.work_bytes,
                          part.flops, part.whole ? ":whole" : "", part.recomputed ? ":again" : "");
    if (node.split)
      text += fmt::format(" split={}:{}", node.split->kept_bytes, node.split->weight_flops);
    if (node.seconds)
      text += fmt::format(" seconds={}:{}:{}", node.seconds->forward, node.seconds->input,
                          node.seconds->weight);
    text += fmt::format("{}{}", node.no_grad ? " no_grad" : "", node.loss ? " loss" : "");
    if (node.joint) text += " joint";
    if (node.looks_up) text += " looks_up";
    for (const NodeExchange& one : node.exchanges) {
      text += fmt::format(" {}={}:{}:{}+{}", name(one.kind), mesh::print(one.axes), one.bytes,
                          one.forward, one.backward);
      if (one.weight > 0) text += fmt::format("+{}", one.weight);
      if (!one.part.empty()) text += fmt::format(":{}", one.part);
    }
    text += '\n';
  }
  return text;
}

// Of a line with ids as they come: the validator prints those that it refuses.
bool runs_jointly(const Program& program, const Instr& line) {
  return line.mb == 0 && line.node >= 0 && line.node < static_cast<int>(program.nodes.size()) &&
         program.nodes[line.node].joint;
}

// Writes a line's fields one by one; a number equal to its field's default is omitted. The lane has a column of its
// own.
struct LineText {
  const Program& program;
  const Instr& line;
  std::string words{};

  void operator()(std::string_view, Lane Instr::*) {}
  void operator()(std::string_view, Verb Instr::*field) { words += name(line.*field); }
  void operator()(std::string_view, TensorKind Instr::*field) {
    if (line.*field != TensorKind::kNone) words += fmt::format(" {}", name(line.*field));
  }
  void operator()(std::string_view key, bool Instr::*field) {
    if (line.*field) words += fmt::format(" {}", key);
  }
  void operator()(std::string_view key, mesh::AxisSet Instr::*field) {
    if (!(line.*field).empty()) words += fmt::format(" {}={}", key, mesh::print(line.*field));
  }
  void operator()(std::string_view key, int Instr::*field) {
    if (field == &Instr::node)
      words += name_of(program.nodes, line.node);
    else if (field == &Instr::unit)
      words += name_of(program.units, line.unit);
    else if (field == &Instr::value)
      words += name_of(program.values, line.value);
    else if (field == &Instr::mb && runs_jointly(program, line))
      words += fmt::format(" {}=all", key);
    else if (static const Instr kNone; line.*field > kNone.*field)
      words += fmt::format(" {}={}", key, line.*field);
  }
  void operator()(std::string_view key, std::vector<int> Instr::*field) {
    for (std::size_t i = 0; i < (line.*field).size(); ++i)
      words += i == 0 ? fmt::format(" {}={}", key, (line.*field)[i])
                      : fmt::format(",{}", (line.*field)[i]);
  }
};

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : "x", size);
  return text;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i + 1;
    while (j < numbers.size() && numbers[j] == numbers[j - 1] + 1) ++j;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", numbers[i]);
    if (j - i > 1) text += fmt::format("-{}", numbers[j - 1]);
    i = j;
  }
  return text;
}

std::string line_text(const Program& program, const Instr& line) {
  LineText text{program, line};
  for_each_field(text);
  return std::move(text.words);
}

std::string print(const PlanSet& plan) {
  std::string text = fmt::format("plan 1 {}\nmesh {}\n", plan.program.name, mesh::print(plan.mesh));
  text += recipe_text(plan.recipe) + program_text(plan.program);
  for (std::size_t l = 0; l < plan.lists.size(); ++l) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < plan.list_of_rank.size(); ++rank)
      if (plan.list_of_rank[rank] == static_cast<int>(l)) ranks.push_back(static_cast<int>(rank));
    const List& list = plan.lists[l];
    text += fmt::format("list {} ranks={} lines={}\n", l, ranges_text(ranks), list.size());
    for (std::size_t i = 0; i < list.size(); ++i)
      text +=
          fmt::format("{:>4} {:<4} {}\n", i, name(list[i].lane), line_text(plan.program, list[i]));
  }
  return text;
}

std::uint64_t digest(const PlanSet& plan) { return hash64(print(plan)); }

}  // namespace trireme::plan
