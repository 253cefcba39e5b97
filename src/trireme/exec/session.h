// Session: one rank's model, compiled plan and state, ready to step. Common entry point of the trainer, tests and user
// programs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/exec/executor.h"

namespace trireme::exec {

struct SessionSetup {
  mesh::Mesh mesh;
  plan::Recipe recipe;
  std::optional<schedules::Grid> grid{};  // what stages compute when; none: the recipe's schedule
  std::uint64_t seed = 0;
  at::Device device = at::kCPU;            // of parameters and states; inputs must come on it
  OpenScratch scratch = open_host_memory;  // where the recipe's offload goes
};

class Session {
 public:
  // Compiles and validates the plan, and compares its digest with every other rank's (Error{kUsage} naming those that
  // differ). Then allocates, initialises parameters from the seed and binds the blocks. Collective over the world.
  // World and optimizer must outlive the session.
  Session(Model model, const SessionSetup& setup, comm::World& world, Optimizer& optimizer);

  StepResult step(const StepArgs& args) {
    flight_.enter(watch::Phase::kTraining, args.step + 1);
    return list_of(args.outer, args.uncoded).executor.run(args);
  }
  // The same nodes without gradients, noise or update; args.update and args.clip are not used.
  StepResult evaluate(const StepArgs& args) {
    flight_.enter(watch::Phase::kEvaluation, args.step);
    units_.gather_stale();
    return evaluator_.run(args);
  }

  const plan::PlanSet& plan() const { return plan_; }
  // Plan of a step with these arguments. plan() merges nothing and codes what the recipe codes.
  const plan::PlanSet& plan(const plan::OuterWork& outer, bool uncoded = false) {
    return list_of(outer, uncoded).plan;
  }
  const Model& model() const { return model_; }
  Units& units() { return units_; }
  const AwaySpace& away() const { return space_; }

 private:
  // A kind of step: its plan is compiled and validated before the first of them.
  struct StepKind {
    const plan::PlanSet& plan;
    Executor& executor;
  };
  struct OtherKind {
    plan::Recipe recipe;
    plan::PlanSet plan;
    std::optional<Executor> executor{};
  };
  StepKind list_of(const plan::OuterWork& outer, bool uncoded);

  SessionSetup setup_;
  int rank_;
  watch::Recorder& flight_;
  Model model_;
  plan::PlanSet plan_;
  plan::PlanSet evaluation_plan_;
  AwaySpace space_;  // before what moves to it
  Units units_;  // before the groups: when a step fails, communication ends before its memory does
  Groups groups_;
  Executor executor_;
  Executor evaluator_;
  std::vector<std::unique_ptr<OtherKind>> other_kinds_;
};

// plan::compile and plan::validate in one.
plan::PlanSet compile_checked(const plan::Program& program, const SessionSetup& setup);

}  // namespace trireme::exec
