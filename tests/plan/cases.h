// The recipes, meshes and programs that property tests walk over.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/harness/examples.h"
#include "tests/harness/recompute_whole.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

struct Case {
  Program program;
  mesh::Mesh mesh;
  Recipe recipe;
  int segments = 0;  // of how many nodes each; 0: nothing runs again

  std::string name() const {
    return program.name + " " + mesh::print(mesh) + " zero " + std::to_string(recipe.zero) +
           " mbs " + std::to_string(recipe.micro_batches) + " prefetch " +
           std::to_string(recipe.prefetch) + " segments " + std::to_string(segments);
  }
};

inline std::vector<Program> example_programs() {
  return {harness::chain_example(),
          harness::spread_example(),
          harness::tied_example(1),
          harness::tied_example(2),
          harness::tied_example(3, 4),
          harness::vision_language_example(1),
          harness::vision_language_example(2),
          harness::jepa_example(),
          harness::two_towers_example(1),
          harness::two_towers_example(2),
          harness::encoder_decoder_example(1),
          harness::encoder_decoder_example(2)};
}

inline int stages_of(const Program& program) { return program.nodes.back().stage + 1; }

// Calls `visit` with every combination.
template <typename Visit>
void for_each_case(const std::vector<int>& shards, const std::vector<int>& replicas,
                   const std::vector<int>& micro_batches, const std::vector<int>& prefetches,
                   Visit visit) {
  for (const Program& program : example_programs())
    for (int zero : {0, 1, 2, 3})
      for (int shard : shards)
        for (int replicate : replicas)
          for (int count : micro_batches)
            for (int prefetch : prefetches)
              for (int segments : {0, 1, 2}) {
                if (zero != 3 && prefetch != prefetches.front()) continue;
                const int stages = stages_of(program);
                const bool joint = std::ranges::any_of(program.nodes, &Node::joint);
                const int spread = program.name == "spread" ? 2 : 1;
                visit(Case{.program = segments > 0 ? recompute_whole(program, segments) : program,
                           .mesh = mesh::Mesh({.pp = stages,
                                               .dp_replicate = replicate,
                                               .dp_shard = shard,
                                               .cp = spread,
                                               .tp = spread}),
                           .recipe = {.zero = zero,
                                      .micro_batches = count,
                                      .prefetch = prefetch,
                                      .schedule = stages > 1 || joint ? schedules::Schedule::kGpipe
                                                                      : schedules::Schedule::k1F1B},
                           .segments = segments});
              }
}

inline PlanSet compile(const Case& one) { return compile(one.program, one.mesh, one.recipe); }

}  // namespace trireme::plan
