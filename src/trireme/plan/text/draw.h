// A plan for the eye: one screen, JSON, or every line of one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

// Simulated numbers of a rank of one pipeline stage.
struct StageNumbers {
  double busy_s = 0;
  double idle_s = 0;
  std::int64_t peak_bytes = 0;
};

// Simulated numbers of one rank, and of all stages.
struct StepNumbers {
  double step_s =
      0;  // 0: not known, and so are the other times; those up to bubble_fraction are means over ranks
  double comp_busy_s = 0;
  double exposed_comm_s = 0;
  double exposed_transfers_s = 0;  // of it: between stages
  double exposed_offload_s = 0;
  double bubble_fraction = 0;
  double pipeline_bubble = 0;  // without what follows the last backward
  double sent_bytes = 0;
  int host_ranks = 0;            // of a host, where the recipe says so (plan::host_ranks)
  double crossing_bytes = 0;     // that such a host sends to others
  double low_s = 0, high_s = 0;  // four of five steps are expected between these; 0: not known
  std::string source{};          // by what it was forecast
  std::string bound{};           // what bounds the step
  std::vector<StageNumbers> stages{};
};

// Mesh, recipe, units, communication, memory, forecast and the step in compact notation or, for a pipeline, its stages
// and schedule. At most 50 lines of 110 columns; `account` and `numbers` are those of `rank`.
std::string explain_text(const PlanSet& plan, int rank, const MemoryAccount& account,
                         const StepNumbers& numbers);
Json explain_json(const PlanSet& plan, int rank, const MemoryAccount& account,
                  const StepNumbers& numbers);

// A row for each stage, as many as fit into `rows`: what it runs, how large it is, how long it works.
std::string stage_table(const PlanSet& plan, const std::vector<StageNumbers>& stages, int rows);

// Every line of the list that a rank runs, with the bytes live while it runs.
std::string rank_text(const PlanSet& plan, int rank);

}  // namespace trireme::plan
