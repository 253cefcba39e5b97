#include "trireme/model/account/recompute.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/fields/fields.h"
#include "trireme/model/account/parts.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/recompute.h"
#include "trireme/plan/compile/recompute_search.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::model {
namespace {

using config::RecomputePolicy;
using plan::NodeId;
using plan::Program;

// The key that says which nodes.
std::string asked(const config::Job& job) {
  const std::string key = job.recompute.nodes.empty() ? "recompute.policy" : "recompute.nodes";
  return key + "=" + std::get<std::string>(config::find_field(key)->get(job));
}

// What recompute.nodes names.
std::vector<NodeId> named(const config::Recompute& recompute, const Program& program) {
  std::vector<std::string> names;
  for (const plan::Node& node : program.nodes) names.push_back(node.name);
  const std::string& patterns = recompute.nodes;
  std::vector<NodeId> nodes;
  for (std::size_t node : select("recompute.nodes", patterns.empty() ? "*" : patterns, names))
    nodes.push_back(static_cast<NodeId>(node));
  return nodes;
}

// Nodes whose whole recomputation saves something.
std::vector<NodeId> whole(const config::Job& job, const Program& program) {
  const config::Recompute& recompute = job.recompute;
  std::vector<NodeId> nodes = named(recompute, program);
  const std::vector<NodeId> able = plan::recomputable(program);
  std::erase_if(nodes, [&](NodeId node) {
    return !std::ranges::binary_search(able, node) || !plan::pays_to_recompute(program.nodes[node]);
  });
  if (nodes.empty())
    fail(ErrorKind::kUsage,
         "{}: none of {} keeps an activation that full recomputation could free; choose blocks "
         "that train, or recompute.policy=selective with recompute.parts",
         asked(job), recompute.nodes.empty() ? "the model's nodes" : "these");
  return nodes;
}

void leave_out(const config::Job& job, Program& program) {
  const config::Recompute& recompute = job.recompute;
  const std::vector<NodeId> nodes = named(recompute, program);
  const std::vector<std::string> known = plan::parts_to_leave_out(program, nodes);
  if (known.empty())
    fail(ErrorKind::kUsage,
         "{}: none of {} keeps a part that it could recompute; choose nodes with a backward, or "
         "leave recompute out",
         asked(job), recompute.nodes.empty() ? "the model's nodes" : "these");
  // Nodes may have parts that keep nothing, as norms that no layer of theirs reads again.
  const auto is_there = [&](std::string_view part) {
    return std::ranges::any_of(nodes, [&](NodeId node) {
      const std::vector<plan::Part>& parts = program.nodes[node].parts;
      return std::ranges::find(parts, part, &plan::Part::name) != parts.end();
    });
  };
  std::vector<std::string_view> idle;
  const std::vector<std::string_view> parts = split_list(recompute.parts);
  for (const std::string_view part : parts)
    if (plan::recompute_part(program, nodes, part) == 0) idle.push_back(part);
  const auto wrong = std::ranges::find_if_not(idle, is_there);
  if (wrong != idle.end() || idle.size() == parts.size())
    fail(ErrorKind::kUsage, "recompute.parts={}: no chosen node keeps a part \"{}\"; there are {}",
         recompute.parts, wrong != idle.end() ? *wrong : idle.front(), fmt::join(known, ", "));
}

}  // namespace

Program recompute_nodes(const config::Job& job, Program program) {
  const config::Recompute& recompute = job.recompute;
  switch (recompute.policy) {
    case RecomputePolicy::kFull: plan::recompute_each(program, whole(job, program)); break;
    case RecomputePolicy::kSelective: leave_out(job, program); break;
    case RecomputePolicy::kNone:
    case RecomputePolicy::kAuto: break;
  }
  if (recompute.logits) plan::recompute_part(program, named({}, program), kLogits);
  return program;
}

Program recompute_stages(const config::Job& job, Program program) {
  const config::Recompute& recompute = job.recompute;
  if (recompute.every > 1) plan::join_segments(program, static_cast<int>(recompute.every));
  if (recompute.policy != RecomputePolicy::kAuto) return program;
  const auto compiled = [&](const Program& one) {
    return plan::compile(one, mesh_of(job), recipe_of(job), grid_of(job, {.program = one}));
  };
  const std::vector<NodeId> nodes = named(recompute, program);
  // On a CPU values in host memory count in addition to the tensors.
  const plan::MemoryBudget budget{.bytes = recompute.memory.count,
                                  .host = job.run.device == config::Device::kCpu};
  try {
    return plan::cheapest_within(std::move(program), nodes, budget, compiled);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    fail(error.kind(), "recompute.memory={}: {}", exact_text(recompute.memory), error.what());
  }
}

}  // namespace trireme::model
