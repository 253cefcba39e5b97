#include "trireme/plan/compile/recompute_search.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/plan/compile/cheapest_choice.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/compile/recompute.h"
#include "trireme/plan/memory.h"

namespace trireme::plan {
namespace {

bool is_measured(const Program& program) {
  return std::ranges::all_of(program.nodes,
                             [](const Node& node) { return node.seconds.has_value(); });
}

// Of `flops` operations of a node's forward.
double cost_of(const Node& node, double flops, bool measured) {
  if (!measured) return flops;
  return node.flops > 0 ? node.seconds->forward * flops / node.flops : 0;
}

double recompute_cost(const Node& node, bool measured) {
  if (node.segment >= 0) return cost_of(node, node.flops, measured);
  return cost_of(node, recompute_flops(node), measured);
}

// Part of a node in a line: micro-batches whose forward it keeps, or whose input backward it has done; and whether the
// line is its own forward, or its backward.
struct Presence {
  int kept = 0;
  int halves = 0;
  bool forward = false;
  bool back = false;
};

std::vector<Presence> presence(const List& list, int line, std::size_t nodes) {
  std::vector<Presence> all(nodes);
  for (int i = 0; i <= line; ++i) {
    const Instr& one = list[i];
    if (one.node < 0) continue;
    Presence& node = all[one.node];
    if (one.verb == Verb::kForward) ++node.kept;
    node.forward = i == line && one.verb == Verb::kForward;
    node.back = i == line && (one.verb == Verb::kRecompute || gives_gradients(one));
    if (i == line) continue;
    if (gives_gradients(one)) --node.kept;
    if (one.verb == Verb::kBackwardInput) ++node.halves;
    if (one.verb == Verb::kBackwardWeight) --node.halves;
  }
  return all;
}

class Search {
 public:
  Search(Program program, const std::vector<NodeId>& nodes, const MemoryBudget& budget)
      : program_(std::move(program)),
        bytes_(static_cast<double>(budget.bytes)),
        host_(budget.host) {
    const GradientFlow flow = gradient_flow(program_);
    for (NodeId id : nodes) {
      const Node& node = program_.nodes[id];
      if (!flow.node_has_backward[id] || node.segment >= 0) continue;
      nodes_.push_back({.id = id, .options = options_of(node), .limits = {}});
    }
  }

  Program run(const std::function<PlanSet(const Program&)>& compile) {
    for (int round = 0; round < kRounds; ++round) {
      const PlanSet plan = compile(chosen());
      if (!add_limits(plan)) return plan.program;
      for (int stage = 0; stage < static_cast<int>(plan.lists.size()); ++stage)
        if (!choose(stage)) return step_by_step(compile);
    }
    return step_by_step(compile);
  }

 private:
  static constexpr int kRounds = 16;

  struct Candidate {
    NodeId id = -1;
    std::vector<Node> options{};  // the node itself, as it would be
    std::size_t choice = 0;
    std::vector<std::vector<double>> limits{};  // of each one: what each option holds
  };

  // From nothing to everything.
  static std::vector<Node> options_of(const Node& node) {
    std::vector<Node> options;
    std::vector<std::size_t> open;
    for (std::size_t part = 0; part < node.parts.size(); ++part)
      if (!node.parts[part].recomputed && node.parts[part].saved_bytes > 0) open.push_back(part);
    for (unsigned chosen = 0; chosen < 1U << open.size(); ++chosen) {
      options.push_back(node);
      for (std::size_t i = 0; i < open.size(); ++i)
        if ((chosen >> i & 1U) != 0) options.back().parts[open[i]].recomputed = true;
    }
    if (node.loss || !pays_to_recompute(node)) return options;
    options.push_back(node);
    options.back().segment = 0;  // a number comes later
    return options;
  }

  Program chosen() const {
    Program program = program_;
    for (const Candidate& one : nodes_) {
      Node& node = program.nodes[one.id];
      const Node& option = one.options[one.choice];
      node.parts = option.parts;
      if (option.segment >= 0) recompute_each(program, {one.id});
    }
    return program;
  }

  static double held(const Node& option, const Presence& presence) {
    const bool whole = option.segment >= 0;
    std::int64_t bytes = kept_bytes(option) * (whole ? presence.back : presence.kept);
    if (presence.back) bytes += work_bytes(option);
    if (presence.forward)
      bytes += whole ? option.work.passing : dropped_bytes(option) + option.work.forward;
    if (option.split && !whole) bytes += option.split->kept_bytes * presence.halves;
    return static_cast<double>(bytes);
  }

  std::int64_t taken(const MemoryAccount& account) const { return account.peak_in_memory(host_); }

  const Node& node(const Candidate& one) const { return program_.nodes[one.id]; }

  // At the peak of every list that is above the budget. Whether there was one.
  bool add_limits(const PlanSet& plan) {
    bool above = false;
    limits_.resize(plan.lists.size());
    for (std::size_t list = 0; list < plan.lists.size(); ++list) {
      const auto rank = static_cast<int>(
          std::ranges::find(plan.list_of_rank, static_cast<int>(list)) - plan.list_of_rank.begin());
      const MemoryAccount account = memory_account(plan, rank);
      if (static_cast<double>(taken(account)) <= bytes_) continue;
      above = true;
      const std::vector<Presence> at =
          presence(plan.lists[list], account.peak_line, plan.program.nodes.size());
      auto rest = static_cast<double>(taken(account));
      for (Candidate& one : nodes_) {
        if (node(one).stage != static_cast<int>(list)) continue;
        const Presence& here = at[one.id];
        rest -= held(one.options[one.choice], here);
        std::vector<double>& all = one.limits.emplace_back();
        for (const Node& option : one.options) all.push_back(held(option, here));
      }
      limits_[list].push_back(bytes_ - rest);
    }
    return above;
  }

  // For the nodes of a stage. Whether there is a choice within its limits.
  bool choose(int stage) {
    const std::vector<double>& limits = limits_[stage];
    if (limits.empty()) return true;
    const bool measured = is_measured(program_);
    std::vector<Candidate*> here;
    std::vector<std::vector<Choice>> things;
    for (Candidate& one : nodes_) {
      if (node(one).stage != stage) continue;
      here.push_back(&one);
      std::vector<Choice>& options = things.emplace_back();
      for (std::size_t option = 0; option < one.options.size(); ++option) {
        options.push_back({.cost = recompute_cost(one.options[option], measured)});
        for (const std::vector<double>& limit : one.limits)
          options.back().held.push_back(limit[option]);
      }
    }
    const std::vector<std::size_t> choice = cheapest_choice(things, limits);
    if (choice.size() != here.size() || here.empty()) return false;
    for (std::size_t i = 0; i < here.size(); ++i) here[i]->choice = choice[i];
    return true;
  }

  // A change of one node's option to the next that costs least for its bytes.
  struct Step {
    std::size_t candidate = 0;
    std::size_t option = 0;
    double price = 0;
  };

  // Of the nodes of a stage, cheapest first, each node's in its order.
  std::vector<Step> steps_of(int stage) const {
    const bool measured = is_measured(program_);
    const auto bytes = [](const Node& option) {
      return option.segment >= 0 ? 0.0 : static_cast<double>(kept_bytes(option));
    };
    std::vector<Step> steps;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (node(nodes_[i]).stage != stage) continue;
      const std::vector<Node>& options = nodes_[i].options;
      for (std::size_t at = 0;;) {
        Step next{.candidate = i, .option = at, .price = 0};
        for (std::size_t o = 0; o < options.size(); ++o) {
          const double given = bytes(options[at]) - bytes(options[o]);
          if (given <= 0) continue;
          const double price =
              (recompute_cost(options[o], measured) - recompute_cost(options[at], measured)) /
              given;
          if (next.option == at || price < next.price)
            next = {.candidate = i, .option = o, .price = price};
        }
        if (next.option == at) break;
        at = next.option;
        steps.push_back(next);
      }
    }
    std::ranges::stable_sort(steps, {}, &Step::price);
    return steps;
  }

  Program step_by_step(const std::function<PlanSet(const Program&)>& compile) {
    constexpr std::size_t kPieces = 32;  // of a stage's steps
    for (Candidate& one : nodes_) one.choice = 0;
    std::vector<std::vector<Step>> steps;
    for (int stage = 0; stage < stage_count(program_); ++stage) steps.push_back(steps_of(stage));
    std::vector<std::size_t> taken(steps.size(), 0);
    while (true) {
      PlanSet plan = compile(chosen());
      limits_.clear();
      for (Candidate& one : nodes_) one.limits.clear();
      if (!add_limits(plan)) return std::move(plan.program);
      for (std::size_t stage = 0; stage < steps.size(); ++stage) {
        if (limits_[stage].empty()) continue;
        if (taken[stage] == steps[stage].size()) return everything(compile);
        const std::size_t end =
            std::min(steps[stage].size(), taken[stage] + 1 + steps[stage].size() / kPieces);
        for (; taken[stage] < end; ++taken[stage]) {
          const Step& step = steps[stage][taken[stage]];
          nodes_[step.candidate].choice = step.option;
        }
      }
    }
  }

  // With everything recomputed, if that fits.
  Program everything(const std::function<PlanSet(const Program&)>& compile) {
    for (Candidate& one : nodes_) one.choice = one.options.size() - 1;
    PlanSet plan = compile(chosen());
    MemoryAccount worst;
    int stage = 0;
    for (std::size_t list = 0; list < plan.lists.size(); ++list) {
      const auto rank = static_cast<int>(
          std::ranges::find(plan.list_of_rank, static_cast<int>(list)) - plan.list_of_rank.begin());
      MemoryAccount account = memory_account(plan, rank);
      if (taken(account) <= taken(worst)) continue;
      worst = std::move(account);
      stage = static_cast<int>(list);
    }
    if (static_cast<double>(taken(worst)) <= bytes_) return std::move(plan.program);
    std::string kinds;
    const MemoryPoint& peak = worst.at_line[worst.peak_line];
    for (std::size_t kind = 0; kind < peak.size(); ++kind)
      if (peak[kind] > 0 && (host_ || static_cast<MemoryKind>(kind) != MemoryKind::kHost))
        kinds +=
            fmt::format("{}{} {}", kinds.empty() ? "" : " + ", name(static_cast<MemoryKind>(kind)),
                        bytes_text(static_cast<double>(peak[kind])));
    fail(ErrorKind::kOutOfMemory,
         "no choice of recomputed nodes fits: with all of them, stage {} needs {} = {}; allow "
         "more, take smaller micro-batches, or shard more (parallel.zero, dp_shard, tp, pp)",
         stage, bytes_text(static_cast<double>(taken(worst))), kinds);
  }

  Program program_;
  double bytes_;
  bool host_;
  std::vector<Candidate> nodes_;
  std::vector<std::vector<double>> limits_;  // by stage
};

}  // namespace

double recomputation_cost(const Program& program) {
  const bool measured = is_measured(program);
  double cost = 0;
  for (const Node& node : program.nodes) cost += recompute_cost(node, measured);
  return cost;
}

Program cheapest_within(Program program, const std::vector<NodeId>& nodes,
                        const MemoryBudget& budget,
                        const std::function<PlanSet(const Program&)>& compile) {
  return Search(std::move(program), nodes, budget).run(compile);
}

}  // namespace trireme::plan
