// A pair of layouts of one job: drawn, run, and held to what docs/numerics.md promises of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/harness/jobs.h"
#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/plan/plan.h"

namespace trireme::layouts {

using Sets = std::vector<std::string>;  // key=value

struct Pair {
  std::string recipe;  // of recipes/
  Sets model;          // what both sides have
  Sets one, other;     // layouts
  int steps = 3;
  int before = 0;  // steps of the second run under `one`; a checkpoint takes it to `other`
};

// The job of one layout, resolved for its ranks, and its plan. Throws Error{kUsage} for what cannot be.
struct Planned {
  config::Job job;
  plan::PlanSet plan;
};
Planned plan_of(const Pair& pair, const Sets& layout);
int ranks_of(const config::Job& job);

// One that can be run; the same for one seed.
Pair draw(std::uint64_t seed);

// What is promised of two layouts: the same bits, or, for an exception of the table in docs/numerics.md and in fp64, a
// relative difference below kOneStep of loss and gradient norm of one step, and below kSteps of all after three.
inline constexpr double kOneStep = 1e-12, kSteps = 1e-10;
struct Promise {
  bool bits = true;
  std::string exception{};
};
Promise promise_of(const Planned& one, const Planned& other);

// Rows of the table, each with a pair that has to differ in bits, or it is no exception. A row may have several.
struct Exception {
  std::string name;
  Pair pair;
};
const std::vector<Exception>& exceptions();

// Runs both sides, ranks as threads; `desk` is an empty directory for checkpoints and scratch.
struct Outcome {
  bool bits = false;  // losses, norms and every state are equal
  double one_step =
      0;  // relative difference of loss and gradient norm of the first step from equal states
  double distance = 0;  // harness::distance of all steps and states
  bool near() const { return one_step < kOneStep && distance < kSteps; }
  std::string first{};  // what differs first
};
Outcome run(const Pair& pair, const Path& desk);

// What a user types for the same two runs and their comparison.
std::string commands(const Pair& pair);

}  // namespace trireme::layouts
