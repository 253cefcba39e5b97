// Estimate: the seconds of a step from the costs of its stages, without compiling a plan. For searches and fits, which ask
// for thousands; a plan's own simulation has the last word.
#pragma once

#include <utility>

#include "trireme/model/spec.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/simulate/simulate.h"
#include "trireme/planner/cost/pricing.h"

namespace trireme::planner {

// A job whose program and schedule are there, priced on any cluster that has its ranks.
class Candidate {
 public:
  // `job` is resolved. Throws Error{kUsage} as plan::compile does.
  Candidate(config::Job job, const Practice& practice);

  const config::Job& job() const { return job_; }
  const Practice& practice() const { return practice_; }
  const model::ModelSpec& model() const { return model_; }

  // Stages take turns as the schedule has it; of what data-parallel ranks exchange counts what computing does not
  // cover.
  double step_seconds(const Cluster& cluster) const;

  // Seconds of one micro-batch through one block in the middle: forward, and backward with the recomputation before it.
  std::pair<double, double> block_seconds(const Cluster& cluster) const;

  // The plan, compiled, and its simulation, line by line.
  plan::PlanSet plan() const;
  simulate::Forecast simulate(const Cluster& cluster) const;

 private:
  config::Job job_;
  Practice practice_;
  model::ModelSpec model_;
  mesh::Mesh mesh_;
  plan::Recipe recipe_;
  schedules::Grid grid_;
};

simulate::LineCost line_cost(const plan::PlanSet& plan, const Pricing& pricing);

}  // namespace trireme::planner
