// Plans with units that are updated by matrix.
#pragma once

#include "tests/plan/cases.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

// Of two blocks, each of two matrices and a third of another shape; other units are updated element by element.
inline Program matrix_program(int stages = 1) {
  Program program = harness::chain_example(2);
  for (Unit& unit : program.units) {
    if (!unit.name.starts_with("block")) continue;
    unit.numel = 64 * 64 + 64 * 64 + 32 * 128;
    unit.by_matrix = true;
    unit.states = 1;
    unit.matrices = {{.offset = 0, .rows = 64, .cols = 64},
                     {.offset = 4096, .rows = 64, .cols = 64},
                     {.offset = 8192, .rows = 32, .cols = 128}};
  }
  if (stages == 1) return program;
  for (std::size_t node = 0; node < program.nodes.size(); ++node)
    program.nodes[node].stage = node < program.nodes.size() / 2 ? 0 : 1;
  return program;
}

inline PlanSet matrix_plan(const mesh::Degrees& degrees, Recipe recipe) {
  recipe.matrix_rounds = 5;
  return compile(matrix_program(degrees.pp), mesh::Mesh(degrees), recipe);
}

}  // namespace trireme::plan
