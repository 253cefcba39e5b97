// Pipelines of any schedule without arithmetic: one node a stage.
#pragma once

#include <string>

#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

// Every stage of the schedule's placement is a node that splits, with a unit of its own. A stem that costs nothing
// stands before the first, which so has a gradient to give; with `seconds`, they are what each node takes.
inline Program stage_per_node(schedules::Placement placement, int ranks, int chunks,
                              std::optional<NodeSeconds> seconds = std::nullopt) {
  Program program{.name = "stages"};
  program.values = {{.name = "x", .bytes = 512, .differentiable = false},
                    {.name = "stem.out", .bytes = 8192}};
  program.units.push_back({.name = "stem", .numel = 1024});
  program.nodes.push_back({.name = "stem", .reads = {0}, .writes = {1}, .units = {0}});
  if (seconds) program.nodes.back().seconds = NodeSeconds{};
  const int stages = ranks * chunks;
  for (int stage = 0; stage < stages; ++stage) {
    const std::string name = "block" + std::to_string(stage);
    program.units.push_back({.name = name, .numel = 1024});
    program.values.push_back({.name = name + ".out", .bytes = 8192});
    program.nodes.push_back({.name = name,
                             .reads = {stage + 1},
                             .writes = {stage + 2},
                             .units = {stage + 1},
                             .loss = stage + 1 == stages,
                             .stage = schedules::rank_of(placement, ranks, stage),
                             .chunk = schedules::chunk_of(placement, ranks, stage),
                             .saved_bytes = 65536,
                             .flops = 1e6,
                             .split = BackwardSplit{.kept_bytes = 16384, .weight_flops = 1e6},
                             .seconds = seconds});
  }
  return program;
}

// The last stage of a V uses the unit of the first, with which it shares a rank: a tied unit in two chunks of one rank.
inline Program tied_v(int ranks) {
  Program program = stage_per_node(schedules::Placement::kV, ranks, 2);
  program.name = "tied_v";
  program.units.pop_back();
  program.nodes.back().units = {1};
  return program;
}

inline PlanSet pipeline(schedules::Schedule schedule, int ranks, int micro_batches,
                        std::optional<NodeSeconds> seconds = std::nullopt, int chunks = 0) {
  chunks = schedules::chunks_of(schedule, chunks);
  return compile(stage_per_node(schedules::placement_of(schedule), ranks, chunks, seconds),
                 mesh::Mesh({.pp = ranks}), {.micro_batches = micro_batches, .schedule = schedule});
}

}  // namespace trireme::plan
